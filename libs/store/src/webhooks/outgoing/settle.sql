-- Settles the messages whose claim is still valid. Returns the place in the arrays of each of these messages with false, and again with
-- true if it was settled. A message that another transaction has locked is not settled. A message that was not sent gets back the time at
-- which it was due ($8), and so its place among the others.
WITH told AS MATERIALIZED (
  SELECT told.*, held.place AS held, locked.place AS locked
  FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::float8[], $8::timestamptz[])
    WITH ORDINALITY AS told (app_id, endpoint_id, id, token, status, answer, after, unsent, nth)
  CROSS JOIN LATERAL (
    SELECT w.ctid AS place FROM webhook_message w
    -- The expression with the token keeps PostgreSQL from looking through the index of running calls.
    WHERE w.app_id = told.app_id AND w.endpoint_id = told.endpoint_id AND w.id = told.id
      AND coalesce(w.token = told.token, false) LIMIT 1
  ) AS held
  LEFT JOIN LATERAL (
    SELECT w.ctid AS place FROM webhook_message w WHERE w.ctid = held.place FOR UPDATE SKIP LOCKED
  ) AS locked ON true
), settled AS (
  UPDATE webhook_message m
  SET status = told.status, token = NULL, last_answer = coalesce(told.answer, m.last_answer),
    attempts = m.attempts - (told.unsent IS NOT NULL)::int,
    next_at = coalesce(told.unsent, now() + told.after * interval '1 second'),
    settled_at = CASE WHEN told.status = 'pending' THEN NULL ELSE now() END
  FROM told WHERE m.ctid = told.locked RETURNING told.nth
)
SELECT nth AS "nth!", false AS "is_settled!" FROM told UNION ALL SELECT nth, true FROM settled
