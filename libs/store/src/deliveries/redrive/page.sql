-- The next $10 parked messages after the position ($8, $9), earliest first, and whether they match $2 to $5. The other conditions
-- bound the range that is read. All conditions are optional.
SELECT c.id AS "id!", c.parked_at AS "parked_at!",
  ($2::text[] IS NULL OR c.stream = ANY($2)) AND ($3::text IS NULL OR c.cause = $3)
    AND ($4::text IS NULL OR coalesce(d.provider = $4, false)) AND ($5::text IS NULL OR coalesce(k.identifier = $5, false))
    AS "is_selected!"
FROM (
  SELECT id, app_id, send_id, delivery_id, stream, cause, parked_at FROM parked
  WHERE ($1::bigint IS NULL OR app_id = $1) AND ($6::uuid IS NULL OR delivery_id = $6) AND ($7::uuid IS NULL OR id = $7)
    AND ($8::timestamptz IS NULL OR (parked_at, id) > ($8, $9))
    AND ($11::timestamptz IS NULL OR parked_at >= $11) AND ($12::timestamptz IS NULL OR parked_at < $12)
  ORDER BY parked_at, id LIMIT $10
) AS c
LEFT JOIN delivery d ON (d.app_id, d.id) = (c.app_id, c.delivery_id)
LEFT JOIN request q ON (q.app_id, q.send_id) = (c.app_id, c.send_id)
LEFT JOIN category k ON (k.app_id, k.id) = (q.app_id, q.category_id)
ORDER BY c.parked_at, c.id
