-- Claims due messages of the apps $6 for up to $1 call slots in total and $7 per app. Claims only heads, and respects the limits on
-- running calls per endpoint ($2, or 1 after $3 failures) and per app ($5). A slot takes one message, or as many as $8 to $10 list for
-- the endpoint, at most $11. Messages of a slot share a token. Each claim lasts $4 seconds. The lists $12 and $13 name, for the same
-- endpoints, the times from which heads may be due and claims may end. Returns the claimed messages, and for each endpoint of which heads
-- were read a row without a message, with these two times as found.
WITH claim AS MATERIALIZED (
  SELECT gen_random_uuid()::text AS id
), endpoint AS MATERIALIZED (
  SELECT e.app_id, e.id, calls.number AS calls, calls.earliest, least(coalesce(known.depth, 1), $11::bigint) AS depth,
    -- After a step back of the clock, the known time is later than anything that is due.
    least(coalesce(known.due_from, '-infinity'), now() - interval '250 milliseconds') AS due_from,
    CASE WHEN e.disabled_at IS NULL AND (e.paused_until IS NULL OR e.paused_until <= now())
         THEN greatest(0, CASE WHEN e.failures >= $3::bigint THEN 1 ELSE $2::bigint END - calls.number) ELSE 0 END AS room
  FROM unnest($6::bigint[]) AS asked (app_id) CROSS JOIN LATERAL (
    SELECT * FROM webhook_endpoint WHERE app_id = asked.app_id ORDER BY id LIMIT 1000
  ) AS e LEFT JOIN LATERAL (
    SELECT d.depth, d.due_from, d.claimed_from
    FROM unnest($8::bigint[], $9::bigint[], $10::bigint[], $12::timestamptz[], $13::timestamptz[])
      AS d (app_id, id, depth, due_from, claimed_from)
    WHERE d.app_id = e.app_id AND d.id = e.id LIMIT 1
  ) AS known ON true CROSS JOIN LATERAL (
    SELECT count(DISTINCT token) AS number, min(next_at) AS earliest FROM (
      SELECT u.token, u.next_at FROM webhook_message u
      WHERE u.app_id = e.app_id AND u.endpoint_id = e.id AND u.token IS NOT NULL AND u.next_at > now()
        AND u.next_at >= least(coalesce(known.claimed_from, '-infinity'), now() + ($4::float8 - 1) * interval '1 second')
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
      AND w.next_at >= endpoint.due_from
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
), claimed AS (
  UPDATE webhook_message m
  SET token = locked.token, attempts = m.attempts + 1, next_at = now() + $4::float8 * interval '1 second'
  FROM locked WHERE m.ctid = locked.place
  RETURNING m.app_id, m.endpoint_id, m.id, m.number, m.body, m.attempts, locked.due_at, locked.token
)
SELECT app_id AS "app_id!", endpoint_id AS "endpoint_id!", id, number, body, attempts, due_at, token,
  NULL::timestamptz AS due_from, NULL::timestamptz AS claimed_from
FROM claimed
UNION ALL
SELECT app_id, endpoint_id, NULL, NULL, NULL, NULL, NULL, NULL, min(due_from), min(claimed_from) FROM (
  SELECT app_id, endpoint_id, next_at AS due_from, NULL::timestamptz AS claimed_from FROM waiting
  UNION ALL
  -- Transactions that started earlier may still add claims. A second is more than the time from their start to their claims.
  SELECT e.app_id, e.id, now(), least(e.earliest, now() + $4::float8 * interval '1 second') - interval '1 second'
  FROM endpoint e JOIN app USING (app_id) WHERE least(e.room, app.room) > 0
) AS found GROUP BY app_id, endpoint_id
