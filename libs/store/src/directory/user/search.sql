(SELECT 1 AS "part!", lower(identifier) AS "key!", number AS "number!", false AS "is_repeated!" FROM app_user
 WHERE app_id = $1 AND $4 <= 1
   AND (lower(identifier) COLLATE "C", number)
     > (CASE WHEN $4 = 1 THEN $5 ELSE lower($2::text) END, CASE WHEN $4 = 1 THEN $6 ELSE -1::bigint END)
   AND lower(identifier) COLLATE "C" < lower($2::text) || chr(1114111)
 ORDER BY lower(identifier) COLLATE "C", number LIMIT $3)
UNION ALL
(SELECT 2, mailbox_key('email', left(btrim(coalesce(profile ->> 'email', identifier)), 255)), number,
   starts_with(lower(identifier), lower($2::text))
 FROM app_user
 WHERE app_id = $1 AND $4 <= 2
   AND (mailbox_key('email', left(btrim(coalesce(profile ->> 'email', identifier)), 255)) COLLATE "C", number)
     > (CASE WHEN $4 = 2 THEN $5 ELSE mailbox_key('email', $2::text) END, CASE WHEN $4 = 2 THEN $6 ELSE -1::bigint END)
   AND mailbox_key('email', left(btrim(coalesce(profile ->> 'email', identifier)), 255)) COLLATE "C"
     < mailbox_key('email', $2::text) || chr(1114111)
 ORDER BY mailbox_key('email', left(btrim(coalesce(profile ->> 'email', identifier)), 255)) COLLATE "C", number LIMIT $3)
UNION ALL
(SELECT 3, lower(left(profile ->> 'name', 255)), number,
   starts_with(lower(identifier), lower($2::text)) OR starts_with(
     mailbox_key('email', left(btrim(coalesce(profile ->> 'email', identifier)), 255)), mailbox_key('email', $2::text))
 FROM app_user
 WHERE app_id = $1 AND $4 <= 3
   AND (lower(left(profile ->> 'name', 255)) COLLATE "C", number)
     > (CASE WHEN $4 = 3 THEN $5 ELSE lower($2::text) END, CASE WHEN $4 = 3 THEN $6 ELSE -1::bigint END)
   AND lower(left(profile ->> 'name', 255)) COLLATE "C" < lower($2::text) || chr(1114111)
 ORDER BY lower(left(profile ->> 'name', 255)) COLLATE "C", number LIMIT $3)
