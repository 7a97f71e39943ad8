-- Claims due messages of the apps $6 for up to $1 call slots in total and $7 per app. Claims only heads, and respects the limits on
-- running calls per endpoint ($2, or 1 after $3 failures) and per app ($5). A slot takes one message, or as many as $8 to $10 list for
-- the endpoint, at most $11. Messages of a slot share a token. Each claim lasts $4 seconds.
WITH claim AS MATERIALIZED (
  SELECT gen_random_uuid()::text AS id
), endpoint AS MATERIALIZED (
  SELECT e.app_id, e.id, calls.number AS calls,
    coalesce((SELECT least(d.depth, $11::bigint) FROM unnest($8::bigint[], $9::bigint[], $10::bigint[]) AS d (app_id, id, depth)
              WHERE d.app_id = e.app_id AND d.id = e.id LIMIT 1), 1) AS depth,
    CASE WHEN e.disabled_at IS NULL AND (e.paused_until IS NULL OR e.paused_until <= now())
         THEN greatest(0, CASE WHEN e.failures >= $3::bigint THEN 1 ELSE $2::bigint END - calls.number) ELSE 0 END AS room
  FROM unnest($6::bigint[]) AS asked (app_id) CROSS JOIN LATERAL (
    SELECT * FROM webhook_endpoint WHERE app_id = asked.app_id ORDER BY id LIMIT 1000
  ) AS e CROSS JOIN LATERAL (
    SELECT count(DISTINCT token) AS number FROM (
      SELECT u.token FROM webhook_message u
      WHERE u.app_id = e.app_id AND u.endpoint_id = e.id AND u.token IS NOT NULL AND u.next_at > now()
      ORDER BY u.next_at LIMIT $5::bigint * $11::bigint
    ) AS under_way
  ) AS calls
), app AS MATERIALIZED (
  SELECT app_id, sum(calls) AS calls, $5::bigint - sum(calls) AS room FROM endpoint GROUP BY app_id
), waiting AS MATERIALIZED (
  SELECT app.app_id, app.calls, app.room, m.place, endpoint.id AS endpoint_id, m.next_at, m.next_at AS due_at, m.number,
    (row_number() OVER (PARTITION BY app.app_id, endpoint.id ORDER BY m.next_at, m.number) - 1) / endpoint.depth AS slot
  FROM app JOIN endpoint USING (app_id) CROSS JOIN LATERAL (
    SELECT w.ctid AS place, w.next_at, w.number FROM webhook_message w
    WHERE w.app_id = endpoint.app_id AND w.endpoint_id = endpoint.id AND w.head AND w.next_at <= now()
    ORDER BY w.next_at, w.number LIMIT greatest(0, least(endpoint.room, app.room, $7::bigint + 1)) * endpoint.depth
  ) AS m
), slotted AS MATERIALIZED (
  -- The first message of a slot gives the slot its place among the others.
  SELECT app_id, calls, room, place, due_at, first_value(next_at) OVER slot AS next_at, first_value(number) OVER slot AS number
  FROM waiting WINDOW slot AS (PARTITION BY app_id, endpoint_id, slot ORDER BY next_at, number)
), ranked AS MATERIALIZED (
  SELECT *, dense_rank() OVER (PARTITION BY app_id ORDER BY next_at, number) AS rank FROM slotted
), ordered AS MATERIALIZED (
  SELECT *, dense_rank() OVER (ORDER BY calls + rank, next_at, number) AS turn FROM ranked WHERE rank <= least(room, $7)
), locked AS MATERIALIZED (
  -- Checked again, because another transaction may have changed the message. The expression coalesce(head, false) prevents PostgreSQL
  -- from using the index of heads.
  SELECT o.app_id, o.due_at, m.place, md5((SELECT id FROM claim) || o.number)::uuid AS token
  FROM ordered AS o CROSS JOIN LATERAL (
    SELECT w.ctid AS place FROM webhook_message w
    WHERE w.ctid = o.place AND coalesce(w.head, false) AND w.next_at <= now() FOR UPDATE SKIP LOCKED
  ) AS m
  WHERE o.turn <= $1
), woken AS (
  INSERT INTO webhook_wake (app_id, at)
  SELECT app_id, now() FROM (
    SELECT app_id, 1 AS left_over FROM ranked WHERE rank <= room UNION ALL SELECT app_id, -1 FROM locked
  ) AS due GROUP BY app_id HAVING sum(left_over) > 0
)
UPDATE webhook_message m
SET token = locked.token, attempts = m.attempts + 1, next_at = now() + $4::float8 * interval '1 second'
FROM locked WHERE m.ctid = locked.place
RETURNING m.app_id, m.endpoint_id, m.id, m.number, m.body, m.attempts, locked.due_at AS "due_at!", locked.token AS "token!"
