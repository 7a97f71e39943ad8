-- Sets deliveries to the states in outcomes of the log. Of several outcomes of an attempt, the one with the highest rank applies: an outcome
-- from the provider's answer ranks above an outcome that Tidings has set without an answer. The rank of a delivery's present status
-- is computed in the same way.
WITH new AS (
  SELECT DISTINCT ON (app_id, id) app_id, id, reason, provider, settled_at, attempt,
    attempt + (status = 'parked')::int AS next_attempt,
    CASE WHEN status IN ('cancelled', 'expired', 'skipped') THEN 0 WHEN status = 'unknown' THEN 1 WHEN status = 'sent' THEN 2
      ELSE 3 END AS rank,
    CASE status WHEN 'retrying' THEN 'sending' ELSE status END AS status
  FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[], $5::text[], $6::text[], $7::timestamptz[])
    WITH ORDINALITY AS found (app_id, id, attempt, status, reason, provider, settled_at, place)
  ORDER BY app_id, id, attempt DESC, rank DESC, place DESC
), changed AS (
  UPDATE delivery d SET status = new.status, reason = split_part(new.reason, ':', 1),
    detail = nullif(split_part(new.reason, ':', 2), ''),
    provider = coalesce(new.provider, d.provider), attempt = new.next_attempt,
    calling = new.status = 'sending', lease_until = NULL,
    settled_at = CASE WHEN new.status <> 'sending' THEN new.settled_at END
  FROM new WHERE (d.app_id, d.id) = (new.app_id, new.id)
    AND (d.status, d.attempt) <> (new.status, new.next_attempt)
    AND (new.attempt, new.rank) >= (d.attempt - (d.status = 'parked')::int,
      CASE WHEN d.status IN ('queued', 'sending', 'retrying') THEN -1
        WHEN d.status IN ('cancelled', 'expired', 'skipped') THEN 0 WHEN d.status = 'unknown' THEN 1 WHEN d.status = 'sent' THEN 2
        ELSE 3 END)
  RETURNING d.app_id, d.id
), awaiting AS (
  DELETE FROM awaiting_receipt a USING changed WHERE (a.app_id, a.delivery_id) = (changed.app_id, changed.id)
), parked AS (
  DELETE FROM parked p USING changed WHERE (p.app_id, p.delivery_id) = (changed.app_id, changed.id)
)
SELECT count(*) AS "changed!" FROM changed
