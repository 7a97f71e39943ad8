-- Settles the attempts whose claim is still valid, and returns the previous state of their deliveries. $8: statuses that another
-- attempt follows. $9: statuses that a late answer replaces.
WITH settled AS (
  SELECT d.app_id, d.id, new.token, new.attempt, e.user_number IS NOT NULL AS of_erased,
    d.status <> 'sending' AS had_ended,
    e.user_number IS NOT NULL AND new.status = ANY($8) AS stops,
    new.status, new.reason, new.provider_id
  FROM delivery d JOIN unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::int[], $5::text[], $6::text[], $7::text[])
    AS new (app_id, id, token, attempt, status, reason, provider_id) USING (app_id, id)
  LEFT JOIN erased e ON (e.app_id, e.user_number) = (d.app_id, d.user_number)
  ORDER BY d.app_id, d.id FOR UPDATE OF d
)
UPDATE delivery d SET status = CASE WHEN settled.stops THEN 'skipped' ELSE settled.status END,
  reason = CASE WHEN settled.stops THEN 'recipient_erased' ELSE split_part(settled.reason, ':', 1) END,
  detail = nullif(split_part(settled.reason, ':', 2), ''),
  provider_id = CASE WHEN NOT settled.of_erased THEN settled.provider_id END,
  lease_until = NULL, calling = false,
  attempt = d.attempt + (settled.status = ANY($8) AND NOT settled.stops)::int,
  settled_at = CASE WHEN settled.status = 'retrying' AND NOT settled.stops THEN NULL ELSE now() END
FROM settled
WHERE (d.app_id, d.id) = (settled.app_id, settled.id) AND d.token = settled.token
  AND d.attempt = settled.attempt AND (d.status = 'sending' OR d.status = 'unknown' AND d.calling
    OR d.status = ANY($9) AND NOT EXISTS (SELECT FROM attempt made
      WHERE (made.app_id, made.delivery_id, made.number) = (d.app_id, d.id, d.attempt)))
RETURNING d.token AS "token!", settled.of_erased AS "of_erased!", settled.had_ended AS "had_ended!"
