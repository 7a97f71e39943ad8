-- Ends the deliveries that must not be attempted, and claims the others. If `calling` is set and the lease has expired, the provider
-- may have received a call that must not be repeated; the delivery then ends as `unknown`. The columns of `delivery` are read from
-- `held`, which contains the locked rows. If this statement waited for a row lock, its snapshot shows an older version of the row than
-- the locked one.
WITH job AS (
  SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[]) AS job (app_id, id, attempt, provider)
), locked AS (
  SELECT d.app_id, d.id, d.channel, d.target, d AS delivery, job.attempt AS wanted, job.provider AS offered,
    e.user_number IS NOT NULL AS erased, r.cancelled_at IS NOT NULL AS cancelled
  FROM delivery d JOIN job USING (app_id, id)
  LEFT JOIN erased e ON (e.app_id, e.user_number) = (d.app_id, d.user_number)
  LEFT JOIN request r ON (r.app_id, r.send_id) = (d.app_id, d.send_id)
  ORDER BY d.app_id, d.id FOR UPDATE OF d
), dead AS MATERIALIZED (
  -- Read after every row is locked, and from current data instead of the statement's snapshot. If this statement waited for a row while
  -- the target was suppressed, it must not claim the delivery.
  SELECT app_id, channel, target FROM suppressed_among((SELECT array_agg(app_id) FROM locked),
    (SELECT array_agg(channel) FROM locked), (SELECT array_agg(target) FROM locked))
), held AS (
  SELECT locked.*, dead.target IS NOT NULL AS suppressed
  FROM locked LEFT JOIN dead USING (app_id, channel, target)
), ended AS (
  UPDATE delivery d SET
    status = CASE WHEN d.calling THEN 'unknown' WHEN held.erased THEN 'skipped' WHEN held.cancelled THEN 'cancelled'
      WHEN d.expires_at <= now() THEN 'expired' ELSE 'skipped' END,
    reason = CASE WHEN d.calling THEN 'outcome_unknown' WHEN held.erased THEN 'recipient_erased' WHEN held.cancelled THEN 'request_cancelled'
      WHEN d.expires_at <= now() THEN NULL ELSE 'suppressed' END,
    lease_until = NULL, settled_at = now()
  FROM held WHERE (d.app_id, d.id) = (held.app_id, held.id) AND d.attempt = held.wanted
    AND d.status = ANY ($7) AND (d.lease_until IS NULL OR d.lease_until <= now())
    AND (d.calling OR d.expires_at <= now() OR held.suppressed OR held.erased OR held.cancelled)
  RETURNING d.*
), claimed AS (
  UPDATE delivery d SET status = 'sending', token = gen_random_uuid(),
    lease_until = clock_timestamp() + $5::float8 * interval '1 second',
    provider = CASE WHEN d.status = 'sending' AND d.channel <> ALL ($6) THEN coalesce(d.provider, held.offered)
      ELSE held.offered END
  FROM held WHERE (d.app_id, d.id) = (held.app_id, held.id) AND d.attempt = held.wanted
    AND d.status = ANY ($7) AND (d.lease_until IS NULL OR d.lease_until <= now())
    AND (d.expires_at IS NULL OR d.expires_at > now()) AND NOT held.suppressed AND NOT held.erased
    AND NOT held.cancelled AND NOT d.calling
  RETURNING d.*, (held.delivery).status = 'sending' AND (held.delivery).provider IS NOT NULL AND d.channel <> ALL ($6) AS takes_over
)
SELECT app_id AS "app_id!", id AS "id!", send_id AS "send_id!", user_number AS "user_number!", channel AS "channel!", status AS "status!",
  reason || coalesce(':' || detail, '') AS reason, attempt AS "attempt!", provider, token, false AS "ours!", false AS "takes_over!", NULL::float8 AS wait
FROM ended
UNION ALL
SELECT app_id, id, send_id, user_number, channel, status, reason || coalesce(':' || detail, ''), attempt, provider, token, true, takes_over, NULL
FROM claimed
UNION ALL
SELECT (held.delivery).app_id, (held.delivery).id, (held.delivery).send_id, (held.delivery).user_number, (held.delivery).channel,
  (held.delivery).status, (held.delivery).reason || coalesce(':' || (held.delivery).detail, ''), (held.delivery).attempt, (held.delivery).provider, (held.delivery).token, false,
  false, extract(epoch FROM (held.delivery).lease_until - clock_timestamp())::float8
FROM held
WHERE NOT EXISTS (SELECT FROM ended e WHERE (e.app_id, e.id) = (held.app_id, held.id))
  AND NOT EXISTS (SELECT FROM claimed c WHERE (c.app_id, c.id) = (held.app_id, held.id))
