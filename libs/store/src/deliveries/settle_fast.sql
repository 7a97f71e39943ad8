-- The fast path: settles attempts that end their deliveries and need no other change than their own rows, and returns the tokens of their
-- claims. Requires a valid claim and a user that is not erased. The caller passes the settlements that are not written here to the
-- transaction with `settle.sql`. $15, $16: stream and job to store for a receipt, or NULL.
WITH made AS (
  UPDATE delivery d SET status = new.status, reason = split_part(new.reason, ':', 1), detail = nullif(split_part(new.reason, ':', 2), ''), provider_id = new.provider_id, lease_until = NULL,
    calling = false, settled_at = now()
  FROM unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::int[], $5::text[], $6::text[], $7::text[], $8::timestamptz[],
      $9::timestamptz[], $10::text[], $11::text[], $12::text[], $13::text[], $14::int[], $15::text[], $16::bytea[])
    AS new (app_id, id, token, attempt, status, reason, provider_id, started_at, ended_at, provider, outcome, code, message,
      segments, stream, job)
  WHERE (d.app_id, d.id) = (new.app_id, new.id) AND d.token = new.token AND d.attempt = new.attempt AND d.status = 'sending'
    AND NOT EXISTS (SELECT FROM erased e WHERE (e.app_id, e.user_number) = (d.app_id, d.user_number))
  RETURNING d.user_number, new.*
), attempts AS (
  INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, provider, outcome, provider_code, provider_message,
    provider_id, segments, awaits_receipt)
  SELECT app_id, id, attempt, started_at, ended_at, provider, outcome, code, message, provider_id, segments, job IS NOT NULL
  FROM made
), jobs AS (
  INSERT INTO awaiting_receipt (app_id, delivery_id, user_number, stream, message)
  SELECT app_id, id, user_number, stream, job FROM made WHERE job IS NOT NULL
  ON CONFLICT (app_id, delivery_id) DO UPDATE SET message = excluded.message, kept_at = now()
)
SELECT token AS "token!" FROM made
