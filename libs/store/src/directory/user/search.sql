(SELECT number AS "number!" FROM app_user
 WHERE app_id = $1 AND lower(identifier) COLLATE "C" >= lower($2::text) AND lower(identifier) COLLATE "C" < lower($2::text) || chr(1114111)
 ORDER BY lower(identifier) COLLATE "C", number LIMIT $3)
UNION ALL
(SELECT number FROM app_user
 WHERE app_id = $1
   AND mailbox_key('email', left(btrim(coalesce(profile ->> 'email', identifier)), 255)) COLLATE "C" >= mailbox_key('email', $2::text)
   AND mailbox_key('email', left(btrim(coalesce(profile ->> 'email', identifier)), 255)) COLLATE "C"
     < mailbox_key('email', $2::text) || chr(1114111)
 ORDER BY mailbox_key('email', left(btrim(coalesce(profile ->> 'email', identifier)), 255)) COLLATE "C", number LIMIT $3)
UNION ALL
(SELECT number FROM app_user
 WHERE app_id = $1 AND lower(left(profile ->> 'name', 255)) COLLATE "C" >= lower($2::text)
   AND lower(left(profile ->> 'name', 255)) COLLATE "C" < lower($2::text) || chr(1114111)
 ORDER BY lower(left(profile ->> 'name', 255)) COLLATE "C", number LIMIT $3)
