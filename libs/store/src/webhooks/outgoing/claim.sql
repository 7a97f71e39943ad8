-- Claims due messages of the apps $6: at most $1 in total and $7 per app. Claims only heads, and respects the limits on running calls
-- per endpoint ($2, or 1 after $3 failures) and per app ($5). Each claim lasts $4 seconds.
WITH endpoint AS MATERIALIZED (
  SELECT e.app_id, e.id, calls.number AS calls,
    CASE WHEN e.disabled_at IS NULL AND (e.paused_until IS NULL OR e.paused_until <= now())
         THEN greatest(0, CASE WHEN e.failures >= $3::bigint THEN 1 ELSE $2::bigint END - calls.number) ELSE 0 END AS room
  FROM unnest($6::bigint[]) AS asked (app_id) CROSS JOIN LATERAL (
    SELECT * FROM webhook_endpoint WHERE app_id = asked.app_id ORDER BY id LIMIT 1000
  ) AS e CROSS JOIN LATERAL (
    SELECT count(*) AS number FROM (
      SELECT FROM webhook_message u
      WHERE u.app_id = e.app_id AND u.endpoint_id = e.id AND u.token IS NOT NULL AND u.next_at > now()
      ORDER BY u.next_at LIMIT $5
    ) AS under_way
  ) AS calls
), app AS MATERIALIZED (
  SELECT app_id, sum(calls) AS calls, $5 - sum(calls) AS room FROM endpoint GROUP BY app_id
), waiting AS MATERIALIZED (
  SELECT app.app_id, app.calls, app.room, m.place, m.next_at, m.number
  FROM app JOIN endpoint USING (app_id) CROSS JOIN LATERAL (
    SELECT w.ctid AS place, w.next_at, w.number FROM webhook_message w
    WHERE w.app_id = endpoint.app_id AND w.endpoint_id = endpoint.id AND w.head AND w.next_at <= now()
    ORDER BY w.next_at, w.number LIMIT greatest(0, least(endpoint.room, app.room, $7::bigint + 1))
  ) AS m
), ranked AS MATERIALIZED (
  SELECT *, row_number() OVER (PARTITION BY app_id ORDER BY next_at, number) AS rank FROM waiting
), chosen AS MATERIALIZED (
  SELECT place FROM ranked WHERE rank <= least(room, $7) ORDER BY calls + rank, next_at, number LIMIT $1
), locked AS MATERIALIZED (
  -- Checked again, because another transaction may have changed the message. The expression coalesce(head, false) prevents PostgreSQL
  -- from using the index of heads.
  SELECT ctid AS place FROM webhook_message
  WHERE ctid = ANY(ARRAY(SELECT place FROM chosen)) AND coalesce(head, false) AND next_at <= now()
  FOR UPDATE SKIP LOCKED
), woken AS (
  INSERT INTO webhook_wake (app_id, at)
  SELECT DISTINCT app_id, now() FROM ranked
  WHERE rank <= room AND NOT EXISTS (SELECT FROM locked WHERE locked.place = ranked.place)
)
UPDATE webhook_message
SET token = gen_random_uuid(), attempts = attempts + 1, next_at = now() + $4::float8 * interval '1 second'
WHERE ctid = ANY(ARRAY(SELECT place FROM locked))
RETURNING app_id, endpoint_id, id, body, attempts, token AS "token!"
