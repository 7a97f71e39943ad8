-- Settles the messages whose claim is still valid. Messages that another transaction has locked are not settled; they are returned with
-- is_settled = false.
WITH held AS MATERIALIZED (
  SELECT m.place, told.token, told.status, told.answer, told.after
  FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::float8[])
    AS told (app_id, endpoint_id, id, token, status, answer, after)
  CROSS JOIN LATERAL (
    SELECT w.ctid AS place FROM webhook_message w
    WHERE w.app_id = told.app_id AND w.endpoint_id = told.endpoint_id AND w.id = told.id
      AND w.token = told.token LIMIT 1
  ) AS m
), locked AS MATERIALIZED (
  SELECT ctid AS place, token FROM webhook_message
  WHERE ctid = ANY(ARRAY(SELECT place FROM held)) FOR UPDATE SKIP LOCKED
), mine AS MATERIALIZED (
  SELECT locked.place, held.token, held.status, held.answer, held.after FROM locked JOIN held USING (token)
), settled AS (
  UPDATE webhook_message m
  SET status = mine.status, token = NULL, last_answer = mine.answer,
    next_at = now() + mine.after * interval '1 second',
    settled_at = CASE WHEN mine.status = 'pending' THEN NULL ELSE now() END
  FROM mine WHERE m.ctid = mine.place RETURNING mine.token
)
SELECT held.token AS "token!", settled.token IS NOT NULL AS "is_settled!" FROM held LEFT JOIN settled USING (token)
