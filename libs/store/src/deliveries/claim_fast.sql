-- The fast path: claims the deliveries that wait for this attempt and that nothing prevents, with one update by physical address. It never
-- waits for a row lock. If another transaction changed a row after this statement started, the new version of the row has an address that
-- the update does not find. The caller passes the deliveries that are not claimed here to `claim.sql`. $6: statuses of waiting deliveries.
WITH job AS (
  SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[]) AS job (app_id, id, attempt, provider)
), locked AS MATERIALIZED (
  SELECT d.ctid AS place, d.app_id, d.channel, d.target, job.provider
  FROM delivery d JOIN job USING (app_id, id)
  WHERE d.attempt = job.attempt AND d.status = ANY ($6) AND d.lease_until IS NULL AND NOT d.calling
    AND (d.expires_at IS NULL OR d.expires_at > now())
    AND NOT EXISTS (SELECT FROM erased e WHERE (e.app_id, e.user_number) = (d.app_id, d.user_number))
    AND NOT EXISTS (SELECT FROM request r WHERE (r.app_id, r.send_id) = (d.app_id, d.send_id) AND r.cancelled_at IS NOT NULL)
  ORDER BY d.app_id, d.id FOR UPDATE OF d SKIP LOCKED
), dead AS MATERIALIZED (
  -- Read after every row is locked, as in `claim.sql`.
  SELECT app_id, channel, target FROM suppressed_among((SELECT array_agg(app_id) FROM locked),
    (SELECT array_agg(channel) FROM locked), (SELECT array_agg(target) FROM locked))
)
UPDATE delivery d SET status = 'sending', token = gen_random_uuid(),
  lease_until = clock_timestamp() + $5::float8 * interval '1 second', provider = locked.provider
FROM locked WHERE d.ctid = locked.place
  AND NOT EXISTS (SELECT FROM dead WHERE (dead.app_id, dead.channel, dead.target) = (locked.app_id, locked.channel, locked.target))
RETURNING d.app_id, d.id, d.attempt, d.token AS "token!", d.provider
