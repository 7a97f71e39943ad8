PREPARE s1 AS INSERT INTO attachment (app_id, send_id, number, content, keep_until)
             SELECT $1, $2, number, content, $5 FROM unnest($3::int[], $4::bytea[]) AS new (number, content)
             ON CONFLICT (app_id, send_id, number) DO NOTHING
;
\echo s1
PREPARE s2 AS SELECT count(*) AS "count!" FROM attachment WHERE app_id = $1 AND send_id = $2
;
\echo s2
PREPARE s3 AS SELECT content FROM attachment WHERE app_id = $1 AND send_id = $2 AND number = $3
;
\echo s3
PREPARE s4 AS WITH old AS MATERIALIZED (
               SELECT app_id, send_id, number FROM attachment WHERE keep_until < now()
               ORDER BY keep_until LIMIT $1 FOR UPDATE SKIP LOCKED
             ), judged AS MATERIALIZED (
               SELECT o.app_id, o.send_id, o.number,
                 EXISTS (
                   SELECT FROM request r WHERE r.app_id = o.app_id AND r.send_id = o.send_id AND r.body IS NOT NULL
                 )
                 OR EXISTS (SELECT FROM parked p WHERE p.app_id = o.app_id AND p.send_id = o.send_id)
                 OR EXISTS (
                   SELECT FROM delivery d WHERE d.app_id = o.app_id AND d.send_id = o.send_id AND d.status = ANY($2)
                 ) AS is_needed
               FROM old o
             ), kept AS (
               UPDATE attachment a SET keep_until = now() + interval '1 hour' FROM judged j
               WHERE j.is_needed AND (a.app_id, a.send_id, a.number) = (j.app_id, j.send_id, j.number)
             ), removed AS (
               DELETE FROM attachment a USING judged j
               WHERE NOT j.is_needed AND (a.app_id, a.send_id, a.number) = (j.app_id, j.send_id, j.number)
             )
             SELECT count(*) AS "looked_at!", count(*) FILTER (WHERE NOT is_needed) AS "removed!" FROM judged
;
\echo s4
PREPARE s5 AS DELETE FROM attachment WHERE app_id = $1 AND send_id = $2
;
\echo s5
PREPARE s6 AS UPDATE request SET cancelled_at = now() WHERE app_id = $1 AND send_id = $2
               RETURNING cancelled_at AS "cancelled_at!"
;
\echo s6
PREPARE s7 AS SELECT recipients, body -> 'channels' AS "selected: Json<Vec<Channel>>" FROM request
           WHERE app_id = $1 AND send_id = $2 AND cancelled_at IS NULL FOR UPDATE
;
\echo s7
PREPARE s8 AS DELETE FROM parked WHERE app_id = $1 AND send_id = $2 AND stream = ANY($3)
           AND NOT EXISTS (SELECT FROM request WHERE app_id = $1 AND send_id = $2)
         RETURNING message
;
\echo s8
PREPARE s9 AS INSERT INTO request (app_id, send_id, accepted_at, send_at, expires_at, lane, recipients, cancelled_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7, now()) RETURNING cancelled_at AS "cancelled_at!"
;
\echo s9
PREPARE s10 AS WITH held AS (
           SELECT app_id, id FROM delivery
           WHERE app_id = $1 AND send_id = $2
             AND (status = ANY($5) OR status = 'sending' AND lease_until <= now() AND NOT calling)
           ORDER BY app_id, id FOR UPDATE
         )
         UPDATE delivery d SET status = $3, reason = $4, lease_until = NULL, settled_at = now()
         FROM held WHERE (d.app_id, d.id) = (held.app_id, held.id)
;
\echo s10
PREPARE s11 AS SELECT count(*) AS "count!" FROM planned_recipient WHERE app_id = $1 AND send_id = $2
;
\echo s11
PREPARE s12 AS SELECT EXISTS (
             SELECT FROM delivery WHERE app_id = $1 AND send_id = $2 AND status IN ('sending', 'parked')
           ) AS "is_left!"
;
\echo s12
PREPARE s13 AS UPDATE timer SET due_at = now() WHERE due_at > now() AND id IN (
           SELECT id FROM timer WHERE app_id = $1 AND send_id = $2 AND stream = ANY($3) FOR UPDATE SKIP LOCKED
         )
;
\echo s13
PREPARE s14 AS SELECT r.app_id, r.send_id, r.cancelled_at IS NOT NULL AS "is_cancelled!" FROM request r
           JOIN unnest($1::bigint[], $2::uuid[]) AS named (app_id, send_id) USING (app_id, send_id)
           ORDER BY r.app_id, r.send_id FOR SHARE OF r
;
\echo s14
PREPARE s15 AS -- Ends deliveries that must not be attempted and claims the others. If `calling` is set and the lease has expired, the provider may have
-- received a call that must not be repeated, so the delivery ends as `unknown`. Delivery rows are read through `held`: after waiting for a
-- row lock, only the locked row is current, while the statement's snapshot is older.
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
  -- Asked once every row is locked, and of the present: who waited for a row calls no target that died meanwhile.
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
  RETURNING d.*
)
SELECT app_id AS "app_id!", id AS "id!", send_id AS "send_id!", user_number AS "user_number!", channel AS "channel!", status AS "status!",
  reason, attempt AS "attempt!", provider, token, false AS "ours!", NULL::float8 AS wait
FROM ended
UNION ALL
SELECT app_id, id, send_id, user_number, channel, status, reason, attempt, provider, token, true, NULL FROM claimed
UNION ALL
SELECT (held.delivery).app_id, (held.delivery).id, (held.delivery).send_id, (held.delivery).user_number, (held.delivery).channel,
  (held.delivery).status, (held.delivery).reason, (held.delivery).attempt, (held.delivery).provider, (held.delivery).token, false,
  extract(epoch FROM (held.delivery).lease_until - clock_timestamp())::float8
FROM held
WHERE NOT EXISTS (SELECT FROM ended e WHERE (e.app_id, e.id) = (held.app_id, held.id))
  AND NOT EXISTS (SELECT FROM claimed c WHERE (c.app_id, c.id) = (held.app_id, held.id))

;
\echo s15
PREPARE s16 AS WITH held AS (
               SELECT d.app_id, d.id, mark.token
               FROM delivery d JOIN unnest($1::bigint[], $2::uuid[], $3::uuid[]) AS mark (app_id, id, token)
                 USING (app_id, id)
               ORDER BY d.app_id, d.id FOR UPDATE OF d
             )
             UPDATE delivery d SET calling = true
             FROM held WHERE (d.app_id, d.id) = (held.app_id, held.id) AND d.token = held.token
               AND d.status = 'sending' AND d.lease_until > clock_timestamp()
             RETURNING d.token AS "token!"
;
\echo s16
PREPARE s17 AS SELECT app_id, id, send_id, user_number, channel, status, reason, attempt, provider
             FROM delivery JOIN unnest($1::bigint[], $2::uuid[]) AS named (app_id, id) USING (app_id, id)
;
\echo s17
PREPARE s18 AS SELECT message FROM parked WHERE app_id = $1 AND send_id = $2 AND stream = ANY($3)
             ORDER BY parked_at LIMIT 1
;
\echo s18
PREPARE s19 AS INSERT INTO parked (id, app_id, send_id, delivery_id, user_number, stream, message, cause)
         SELECT gen_random_uuid(), * FROM unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::bigint[], $5::text[],
           $6::bytea[], $7::text[])
;
\echo s19
PREPARE s20 AS SELECT id, app_id, delivery_id, attempt, provider, provider_id, answer AS "answer: Json<Answer>", received_at
               FROM early_receipt WHERE next_look_at <= now() ORDER BY next_look_at LIMIT $1 FOR UPDATE SKIP LOCKED
;
\echo s20
PREPARE s21 AS WITH gone AS (
               DELETE FROM early_receipt WHERE id = ANY($1)
                 OR id = ANY($2) AND created_at < now() - $3::float8 * interval '1 second'
             )
             UPDATE early_receipt SET next_look_at = now() + greatest(now() - created_at, interval '1 second')
             WHERE id = ANY($2) AND created_at >= now() - $3::float8 * interval '1 second'
;
\echo s21
PREPARE s22 AS DELETE FROM awaiting_receipt WHERE ctid = ANY(ARRAY(
               SELECT ctid FROM awaiting_receipt
               WHERE kept_at < now() - $1::float8 * interval '1 second' ORDER BY kept_at LIMIT $2
               FOR UPDATE SKIP LOCKED
             ))
;
\echo s22
PREPARE s23 AS INSERT INTO early_receipt (id, app_id, delivery_id, attempt, provider, provider_id, answer, received_at)
         SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::int[], $5::text[], $6::text[], $7::jsonb[],
           $8::timestamptz[])
         ON CONFLICT DO NOTHING
;
\echo s23
PREPARE s24 AS WITH new AS (
           SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[]) AS new (app_id, id, status, reason)
         ), done AS (
           DELETE FROM awaiting_receipt kept USING new WHERE (kept.app_id, kept.delivery_id) = (new.app_id, new.id)
         )
         UPDATE delivery d SET status = new.status, reason = new.reason, calling = false, lease_until = NULL,
           attempt = d.attempt + (new.status = ANY($5))::int,
           settled_at = CASE WHEN new.status <> 'retrying' THEN now() END
         FROM new WHERE (d.app_id, d.id) = (new.app_id, new.id)
;
\echo s24
PREPARE s25 AS INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, provider, outcome, provider_code,
           provider_message, receipt, receipt_code, receipt_message, receipt_at)
         SELECT app_id, id, number, at, at, provider, 'unknown', 'lease', '', receipt, code, message, at
         FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[],
             $8::timestamptz[]) AS new (app_id, id, number, provider, receipt, code, message, at)
         ON CONFLICT (app_id, delivery_id, number) DO UPDATE SET receipt = excluded.receipt,
           receipt_code = excluded.receipt_code, receipt_message = excluded.receipt_message,
           receipt_at = excluded.receipt_at
;
\echo s25
PREPARE s26 AS SELECT named.place AS "place!", d.app_id, d.id, d.send_id, coalesce(named.attempt, made.number) AS attempt
         FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[], $5::text[]) WITH ORDINALITY
           AS named (app_id, delivery_id, attempt, provider, provider_id, place)
         LEFT JOIN LATERAL (
           SELECT a.delivery_id, a.number FROM attempt a
           WHERE (a.app_id, a.provider, a.provider_id) = (named.app_id, named.provider, named.provider_id)
             AND a.awaits_receipt ORDER BY a.ended_at DESC LIMIT 1
         ) AS made ON named.delivery_id IS NULL
         JOIN delivery d ON (d.app_id, d.id) = (named.app_id, coalesce(named.delivery_id, made.delivery_id))
;
\echo s26
PREPARE s27 AS SELECT FROM delivery d WHERE (d.app_id, d.id) IN (SELECT * FROM unnest($1::bigint[], $2::uuid[]))
         ORDER BY d.app_id, d.id FOR UPDATE
;
\echo s27
PREPARE s28 AS SELECT d.app_id, d.id, d.send_id, d.user_number, d.channel, d.status, d.attempt, d.provider, d.expires_at,
           e.user_number IS NOT NULL AS "is_erased!", kept.stream AS "stream?", kept.message AS "message?"
         FROM (SELECT DISTINCT * FROM unnest($1::bigint[], $2::uuid[])) AS named (app_id, id)
         JOIN delivery d USING (app_id, id)
         LEFT JOIN erased e ON (e.app_id, e.user_number) = (d.app_id, d.user_number)
         LEFT JOIN awaiting_receipt kept ON (kept.app_id, kept.delivery_id) = (d.app_id, d.id)
;
\echo s28
PREPARE s29 AS SELECT FROM delivery WHERE (app_id, id) IN (SELECT * FROM unnest($1::bigint[], $2::uuid[]))
         ORDER BY app_id, id FOR UPDATE
;
\echo s29
PREPARE s30 AS SELECT FROM parked WHERE id = ANY($1) ORDER BY id FOR UPDATE
;
\echo s30
PREPARE s31 AS WITH gone AS (
           DELETE FROM parked WHERE id = ANY($1) RETURNING app_id, send_id, delivery_id
         ), noted AS (
           INSERT INTO audit (app_id, actor, action, subject)
           SELECT app_id, $2, 'parked.redrive', coalesce(delivery_id, send_id)::text FROM gone
           WHERE coalesce(delivery_id, send_id) IS NOT NULL
         )
         UPDATE delivery d SET status = $3, reason = NULL, settled_at = NULL FROM gone
         WHERE (d.app_id, d.id) = (gone.app_id, gone.delivery_id) AND d.status = $4
;
\echo s31
PREPARE s32 AS -- Parked messages with the facts that decide whether a redrive publishes them, earliest first. All of the conditions $1 to $4 are optional;
-- the page starts after ($5, $6).
SELECT p.id, p.app_id, app.name AS "app_name?", p.send_id, p.delivery_id, p.user_number, r.identifier AS "identifier?",
  d.target AS "target?", p.stream, p.cause, p.parked_at, p.message,
  p.delivery_id IS NOT NULL AND d.status IS DISTINCT FROM 'parked' AS "is_settled!",
  e.user_number IS NOT NULL AS "is_erased!",
  q.cancelled_at IS NOT NULL AS "is_cancelled!",
  coalesce(d.expires_at <= now(), false) AS "is_expired!",
  s.target IS NOT NULL AS "is_suppressed!",
  EXISTS (
    SELECT FROM inbox_item i WHERE (i.app_id, i.send_id, i.user_number) = (d.app_id, d.send_id, d.user_number)
      AND i.clicked_at IS NOT NULL
  ) AS "is_read!",
  EXISTS (
    SELECT FROM delivery o
    WHERE (o.app_id, o.send_id, o.recipient_index, o.channel) = (d.app_id, d.send_id, d.recipient_index, d.channel)
      AND o.id <> d.id AND o.status IN ('sent', 'delivered')
  ) AS "is_delivered!",
  NOT EXISTS (
    SELECT FROM provider WHERE provider.app_id = d.app_id AND provider.identifier = d.provider AND provider.enabled
  ) AS "is_provider_gone!"
FROM parked p
LEFT JOIN app ON app.id = p.app_id
LEFT JOIN delivery d ON (d.app_id, d.id) = (p.app_id, p.delivery_id)
LEFT JOIN planned_recipient r ON (r.app_id, r.send_id, r.recipient_index) = (d.app_id, d.send_id, d.recipient_index)
LEFT JOIN erased e ON (e.app_id, e.user_number) = (p.app_id, p.user_number)
LEFT JOIN request q ON (q.app_id, q.send_id) = (p.app_id, p.send_id)
LEFT JOIN suppression s ON (s.app_id, s.channel, s.target) = (d.app_id, d.channel, d.target)
WHERE ($1::bigint IS NULL OR p.app_id = $1) AND ($2::text[] IS NULL OR p.stream = ANY($2))
  AND ($3::uuid IS NULL OR p.delivery_id = $3) AND ($4::uuid IS NULL OR p.id = $4)
  AND ($5::timestamptz IS NULL OR (date_trunc('milliseconds', p.parked_at), p.id) > ($5, $6))
ORDER BY date_trunc('milliseconds', p.parked_at), p.id LIMIT $7

;
\echo s32
PREPARE s33 AS -- Settles attempts whose claim is still valid, and returns the previous state of their deliveries. $8 are the statuses that another attempt
-- follows, $9 those that a late answer replaces.
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
  reason = CASE WHEN settled.stops THEN 'recipient_erased' ELSE settled.reason END,
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

;
\echo s33
PREPARE s34 AS INSERT INTO timer (id, due_at, stream, message, app_id, send_id, user_number)
         SELECT gen_random_uuid(), now(), late.* FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::uuid[],
           $5::bigint[]) AS late (stream, message, app_id, send_id, user_number)
;
\echo s34
PREPARE s35 AS INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, provider, outcome, provider_code,
           provider_message, provider_id, segments, awaits_receipt)
         SELECT app_id, delivery_id, number, started_at, ended_at, provider, outcome, code,
           CASE WHEN of_erased THEN '' ELSE message END, CASE WHEN NOT of_erased THEN provider_id END, segments,
           awaits_receipt AND NOT of_erased
         FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::timestamptz[], $5::timestamptz[], $6::text[],
             $7::text[], $8::text[], $9::text[], $10::text[], $11::bool[], $12::int[], $13::bool[])
           AS made (app_id, delivery_id, number, started_at, ended_at, provider, outcome, code, message, provider_id,
             of_erased, segments, awaits_receipt)
;
\echo s35
PREPARE s36 AS INSERT INTO awaiting_receipt (app_id, delivery_id, user_number, stream, message)
         SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[], $5::bytea[])
         ON CONFLICT (app_id, delivery_id) DO UPDATE SET message = excluded.message, kept_at = now()
;
\echo s36
PREPARE s37 AS SELECT EXISTS (
                 SELECT FROM delivery d JOIN suppression s USING (app_id, channel, target)
                 WHERE d.app_id = $1 AND d.id = $2 AND s.delivery_id = d.id
               ) AS "exists!"
;
\echo s37
PREPARE s38 AS INSERT INTO suppression (app_id, channel, target, delivery_id, code)
         SELECT d.app_id, d.channel, d.target, d.id, dead.code
         FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::timestamptz[]) AS dead (app_id, id, code, since)
         JOIN delivery d USING (app_id, id)
         WHERE d.target <> '' AND NOT EXISTS (
           SELECT FROM push_token t
           WHERE d.channel = 'mobilePush' AND (t.app_id, t.target) = (d.app_id, d.target) AND t.registered_at > dead.since
         )
         ORDER BY d.app_id, d.channel, d.target
         ON CONFLICT DO NOTHING RETURNING app_id, channel, target, delivery_id
;
\echo s38
PREPARE s39 AS SELECT FROM app_user u JOIN (
           SELECT d.app_id, d.user_number FROM delivery d JOIN unnest($1::bigint[], $2::uuid[]) AS dead (app_id, id)
             USING (app_id, id) WHERE d.channel = 'mobilePush'
           UNION
           SELECT t.app_id, t.user_number FROM delivery d
             JOIN unnest($1::bigint[], $2::uuid[]) AS dead (app_id, id) USING (app_id, id)
             JOIN push_token t ON (t.app_id, t.target) = (d.app_id, d.target) WHERE d.channel = 'mobilePush'
         ) AS holder ON (u.app_id, u.number) = (holder.app_id, holder.user_number)
         ORDER BY u.app_id, u.number FOR NO KEY UPDATE OF u
;
\echo s39
PREPARE s40 AS WITH dropped AS (
           DELETE FROM web_push_subscription s USING unnest($1::bigint[], $2::text[]) AS dead (app_id, endpoint)
           WHERE (s.app_id, s.endpoint) = (dead.app_id, dead.endpoint) RETURNING s.*
         )
         UPDATE suppression s SET pruned = jsonb_build_object('subscription', jsonb_build_object(
           'user', dropped.user_number, 'device', dropped.device_id, 'p256dh', encode(dropped.p256dh, 'base64'),
           'auth', encode(dropped.auth, 'base64'), 'expiresAt', dropped.expires_at))
         FROM dropped WHERE (s.app_id, s.channel, s.target) = (dropped.app_id, 'webPush', dropped.endpoint)
;
\echo s40
PREPARE s41 AS DELETE FROM suppression WHERE app_id = $1 AND channel = 'webPush' AND target = $2
;
\echo s41
PREPARE s42 AS SELECT target, delivery_id, pruned AS "pruned: Json<Pruned>" FROM suppression
               WHERE app_id = $1 AND channel = $2 AND (target = $3 OR delivery_id = $4)
;
\echo s42
PREPARE s43 AS DELETE FROM suppression WHERE app_id = $1 AND channel = $2 AND target = $3
;
\echo s43
PREPARE s44 AS SELECT number, profile AS "profile: Json<Object>" FROM app_user
           WHERE app_id = $1 AND number = ANY($2) ORDER BY number FOR NO KEY UPDATE
;
\echo s44
PREPARE s45 AS WITH changed AS (
               UPDATE app_user SET profile = $3, updated_at = now() WHERE app_id = $1 AND number = $2
             )
             INSERT INTO push_token (app_id, target, user_number, registered_at)
             SELECT $1, $4, $2, $5 WHERE $5::timestamptz IS NOT NULL ON CONFLICT DO NOTHING
;
\echo s45
PREPARE s46 AS INSERT INTO web_push_subscription (app_id, user_number, device_id, endpoint, p256dh, auth, expires_at)
         SELECT d.app_id, d.user_number, d.device_id, $2, decode(kept.p256dh, 'base64'), decode(kept.auth, 'base64'),
           kept."expiresAt"
         FROM jsonb_to_record($3) AS kept ("user" bigint, device text, p256dh text, auth text, "expiresAt" timestamptz)
         JOIN device d ON (d.app_id, d.user_number, d.device_id) = ($1, kept."user", kept.device)
         ON CONFLICT DO NOTHING
;
\echo s46
PREPARE s47 AS SELECT s.app_id, app.name, s.channel, s.target, s.delivery_id, s.code, s.created_at
             FROM suppression s JOIN app ON app.id = s.app_id
             WHERE ($1::bigint IS NULL OR s.app_id = $1) AND ($2::text IS NULL OR s.channel = $2)
             ORDER BY s.created_at DESC, s.app_id, s.channel, s.target LIMIT $3
;
\echo s47
PREPARE s48 AS -- Removes dead tokens ($3) of a service ($1) from all profiles that contain them, and notes the holders in the suppressions.
WITH dead AS (
  SELECT dead.app_id, d.user_number, dead.target, substr(dead.target, strpos(dead.target, ':') + 1) AS token
  FROM unnest($2::bigint[], $3::text[], $4::uuid[]) AS dead (app_id, target, id) JOIN delivery d USING (app_id, id)
), holder AS (
  SELECT t.app_id, t.user_number, t.target FROM push_token t JOIN dead USING (app_id, target)
  UNION
  SELECT app_id, user_number, target FROM dead
), held AS (
  SELECT u.app_id, u.number, dead.target, dead.token, t.registered_at
  FROM holder
  JOIN dead ON (dead.app_id, dead.target) = (holder.app_id, holder.target)
  JOIN app_user u ON (u.app_id, u.number) = (holder.app_id, holder.user_number)
  LEFT JOIN push_token t ON (t.app_id, t.target, t.user_number) = (u.app_id, dead.target, u.number)
  WHERE jsonb_typeof(u.profile #> ARRAY[$1, 'tokens']) = 'array'
    AND jsonb_exists(u.profile #> ARRAY[$1, 'tokens'], dead.token)
), pruned AS (
  UPDATE app_user u SET updated_at = now(),
    profile = jsonb_set(u.profile, ARRAY[$1, 'tokens'], (u.profile #> ARRAY[$1, 'tokens']) - mine.tokens)
  FROM (SELECT app_id, number, array_agg(token) AS tokens FROM held GROUP BY app_id, number) AS mine
  WHERE (u.app_id, u.number) = (mine.app_id, mine.number)
), unregistered AS (
  DELETE FROM push_token t USING dead WHERE (t.app_id, t.target) = (dead.app_id, dead.target)
)
UPDATE suppression s SET pruned = jsonb_build_object('users', kept.users)
FROM (
  SELECT app_id, target, jsonb_agg(jsonb_build_object('number', number, 'registeredAt', registered_at)) AS users
  FROM held GROUP BY app_id, target
) AS kept WHERE (s.app_id, s.channel, s.target) = (kept.app_id, 'mobilePush', kept.target)

;
\echo s48
PREPARE s49 AS WITH due AS MATERIALIZED (
               SELECT id, due_at, stream, message FROM timer
               WHERE due_at <= now() AND (stream <> ALL($3) OR send_id IS NULL) ORDER BY due_at LIMIT $1
               FOR UPDATE SKIP LOCKED
             ), summed AS (
               SELECT *, sum(octet_length(message)) OVER (ORDER BY due_at, id) - octet_length(message) AS before
               FROM due
             )
             SELECT id, stream, message FROM summed WHERE before < $2 ORDER BY due_at, id
;
\echo s49
PREPARE s50 AS DELETE FROM timer WHERE id = ANY($1)
;
\echo s50
PREPARE s51 AS UPDATE timer SET due_at = now() + $2::float8 * interval '1 second' WHERE id = ANY($1)
;
\echo s51
PREPARE s52 AS INSERT INTO timer (id, due_at, stream, message, app_id, send_id, user_number)
         SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::bytea[], $5::bigint[], $6::uuid[], $7::bigint[])
;
\echo s52
PREPARE s53 AS SELECT pg_advisory_xact_lock(hashtextextended('erasure', $1))
;
\echo s53
PREPARE s54 AS WITH gone AS (
                 DELETE FROM app_user WHERE app_id = $1 AND identifier = $2 RETURNING app_id, number, identifier
               )
               INSERT INTO erased (app_id, user_number, digest, erased_at)
               SELECT app_id, number, sha256(convert_to(app_id || E'\n' || identifier, 'UTF8')), $3 FROM gone
               RETURNING user_number, digest
;
\echo s54
PREPARE s55 AS WITH found AS (
                   SELECT app_id, send_id, recipient_index FROM planned_recipient
                   WHERE app_id = $1 AND identifier = $2 AND user_number IS NULL LIMIT $3 FOR UPDATE
                 ), titles AS (
                   UPDATE request q SET title = NULL FROM found
                   WHERE (q.app_id, q.send_id) = (found.app_id, found.send_id) AND q.recipients = 1
                 ), files AS (
                   DELETE FROM attachment f USING found JOIN request r USING (app_id, send_id)
                   WHERE (f.app_id, f.send_id) = (found.app_id, found.send_id) AND r.recipients = 1
                 )
                 UPDATE planned_recipient r SET identifier = '' FROM found
                 WHERE (r.app_id, r.send_id, r.recipient_index)
                   = (found.app_id, found.send_id, found.recipient_index)
;
\echo s55
PREPARE s56 AS SELECT app_id, user_number FROM erased
;
\echo s56
PREPARE s57 AS SELECT pg_advisory_xact_lock_shared(hashtextextended('erasure', app_id))
         FROM (SELECT DISTINCT app_id FROM unnest($1::bigint[]) AS named (app_id)) AS named
;
\echo s57
PREPARE s58 AS SELECT app_id AS "app_id!", pg_try_advisory_xact_lock_shared(hashtextextended('erasure', app_id)) AS "is_held!"
           FROM (SELECT DISTINCT app_id FROM unnest($1::bigint[]) AS named (app_id)) AS named
;
\echo s58
PREPARE s59 AS SELECT EXISTS (
               SELECT FROM unnest($1::bigint[]) AS named (app_id) CROSS JOIN LATERAL (
                 SELECT FROM erased e
                 WHERE e.app_id = named.app_id AND e.done_at IS NULL AND e.erased_at >= $2
                 ORDER BY e.erased_at LIMIT 1
               ) AS since
             ) AS "exists!"
;
\echo s59
PREPARE s60 AS SELECT named.app_id AS "app_id!", named.identifier AS "identifier!", max(e.erased_at) AS "erased_at!"
               FROM unnest($1::bigint[], $2::text[]) AS named (app_id, identifier)
               JOIN erased e ON e.app_id = named.app_id AND e.done_at IS NULL
                 AND e.digest = sha256(convert_to(named.app_id || E'\n' || named.identifier, 'UTF8'))
               GROUP BY named.app_id, named.identifier
;
\echo s60
PREPARE s61 AS SELECT send_id, EXISTS (
                 SELECT FROM json_array_elements(body -> 'recipients') AS recipient
                 JOIN erased e ON e.app_id = $1 AND e.done_at IS NULL AND e.digest = sha256(convert_to(
                   $1 || E'\n' || coalesce(recipient ->> 'identifier', recipient #>> '{}'), 'UTF8'))
               ) AS "names_erased!"
               FROM (
                 SELECT send_id, body FROM request WHERE app_id = $1 AND body IS NOT NULL AND send_id > $2
                 ORDER BY send_id LIMIT $3
               ) AS kept ORDER BY send_id
;
\echo s61
PREPARE s62 AS SELECT accepted_at, body AS "body!: Json<domain::SendRequest>" FROM request
           WHERE app_id = $1 AND send_id = $2 AND body IS NOT NULL FOR UPDATE
;
\echo s62
PREPARE s63 AS UPDATE request SET body = $3, title = $4 WHERE app_id = $1 AND send_id = $2
;
\echo s63
PREPARE s64 AS SELECT id, message FROM parked WHERE app_id = $1 AND delivery_id IS NULL AND id > $2 ORDER BY id LIMIT $3
;
\echo s64
PREPARE s65 AS UPDATE parked SET message = $2 WHERE id = $1
;
\echo s65
PREPARE s66 AS DELETE FROM parked WHERE id = $1
                 AND EXISTS (SELECT FROM erased WHERE app_id = $2 AND user_number = $3)
;
\echo s66
PREPARE s67 AS SELECT projection, stream, seq, message FROM 
;
\echo s67
PREPARE s68 AS UPDATE 
;
\echo s68
PREPARE s69 AS SELECT user_number FROM erased WHERE app_id = $1 AND user_number = ANY($2)
;
\echo s69
PREPARE s70 AS UPDATE erased e SET next_pass_at = now() + $1::float8 * interval '1 second'
             WHERE ctid = ANY(ARRAY(
               SELECT ctid FROM erased WHERE done_at IS NULL AND next_pass_at <= now()
               ORDER BY next_pass_at LIMIT $2 FOR UPDATE SKIP LOCKED
             ))
             RETURNING e.app_id, e.user_number, e.erased_at,
               e.erased_at <= now() - $3::float8 * interval '1 second' AS "is_settled!"
;
\echo s70
PREPARE s71 AS UPDATE erased e SET done_at = CASE WHEN ended.done THEN now() END,
               digest = CASE WHEN ended.done THEN NULL ELSE e.digest END,
               next_pass_at = greatest(e.erased_at + $4::float8 * interval '1 second',
                                       now() + $5::float8 * interval '1 second')
             FROM unnest($1::bigint[], $2::bigint[], $3::bool[]) AS ended (app_id, user_number, done)
             WHERE (e.app_id, e.user_number) = (ended.app_id, ended.user_number)
;
\echo s71
PREPARE s72 AS DELETE FROM timer WHERE id IN (
           SELECT t.id FROM timer t JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
             USING (app_id, user_number)
           LIMIT $3 FOR UPDATE OF t SKIP LOCKED
         )
;
\echo s72
PREPARE s73 AS DELETE FROM parked WHERE id IN (
           SELECT p.id FROM parked p JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
             USING (app_id, user_number)
           LIMIT $3 FOR UPDATE OF p SKIP LOCKED
         )
;
\echo s73
PREPARE s74 AS DELETE FROM awaiting_receipt WHERE (app_id, delivery_id) IN (
           SELECT k.app_id, k.delivery_id FROM awaiting_receipt k
           JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number) USING (app_id, user_number)
           LIMIT $3 FOR UPDATE OF k SKIP LOCKED
         )
;
\echo s74
PREPARE s75 AS UPDATE delivery d SET status = 'skipped', reason = 'recipient_erased', lease_until = NULL, settled_at = now()
         FROM (
           SELECT w.app_id, w.id FROM delivery w JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
             USING (app_id, user_number)
           WHERE w.status IN ('queued', 'retrying', 'parked') OR w.status = 'sending' AND w.lease_until <= now() AND NOT w.calling
           LIMIT $3 FOR UPDATE OF w SKIP LOCKED
         ) AS waiting WHERE (d.app_id, d.id) = (waiting.app_id, waiting.id)
;
\echo s75
PREPARE s76 AS DELETE FROM webhook_message WHERE (app_id, endpoint_id, id) IN (
           SELECT w.app_id, w.endpoint_id, w.id
           FROM webhook_message w JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
             USING (app_id, user_number)
           LIMIT $3 FOR UPDATE OF w SKIP LOCKED
         )
;
\echo s76
PREPARE s77 AS UPDATE early_receipt e SET answer = jsonb_set(e.answer, '{message}', '""')
         FROM (
           SELECT r.id FROM early_receipt r
           WHERE r.answer->>'message' <> '' AND r.id = ANY(ARRAY(
             SELECT early.id
             FROM unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
             JOIN delivery d ON (d.app_id, d.user_number) = (gone.app_id, gone.user_number)
             CROSS JOIN LATERAL (
               SELECT n.id FROM early_receipt n WHERE n.app_id = d.app_id AND n.delivery_id = d.id
               UNION ALL
               SELECT n.id FROM attempt a
               JOIN early_receipt n ON n.app_id = a.app_id AND n.provider = a.provider AND n.provider_id = a.provider_id
                 AND n.delivery_id IS NULL
               WHERE a.app_id = d.app_id AND a.delivery_id = d.id AND a.awaits_receipt
             ) AS early
           ))
           LIMIT $3 FOR UPDATE OF r SKIP LOCKED
         ) AS told WHERE e.id = told.id
;
\echo s77
PREPARE s78 AS WITH found AS (
           SELECT f.app_id, f.id, f.channel, f.target
           FROM delivery f JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number) USING (app_id, user_number)
           WHERE f.target <> '' OR f.provider_id IS NOT NULL LIMIT $3 FOR UPDATE OF f SKIP LOCKED
         ), lifted AS (
           DELETE FROM suppression s USING found
           WHERE (s.app_id, s.channel, s.target) = (found.app_id, found.channel, found.target) AND s.delivery_id = found.id
         )
         UPDATE delivery d SET target = '', provider_id = NULL FROM found WHERE (d.app_id, d.id) = (found.app_id, found.id)
;
\echo s78
PREPARE s79 AS UPDATE attempt a SET provider_message = '', provider_id = NULL, receipt_message = left(a.receipt_message, 0)
         FROM (
           SELECT m.app_id, m.delivery_id, m.number
           FROM delivery d JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number) USING (app_id, user_number)
           JOIN attempt m ON (m.app_id, m.delivery_id) = (d.app_id, d.id)
           WHERE m.provider_message <> '' OR m.provider_id IS NOT NULL OR m.receipt_message <> '' LIMIT $3 FOR UPDATE OF m SKIP LOCKED
         ) AS made WHERE (a.app_id, a.delivery_id, a.number) = (made.app_id, made.delivery_id, made.number)
;
\echo s79
PREPARE s80 AS UPDATE planned_recipient r SET identifier = '', in_app = false,
           skips = CASE WHEN r.in_app THEN array_prepend('inApp:recipient_erased', r.skips) ELSE r.skips END
         FROM (
           SELECT n.app_id, n.send_id, n.recipient_index
           FROM planned_recipient n JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
             USING (app_id, user_number)
           WHERE n.identifier <> '' OR n.in_app LIMIT $3 FOR UPDATE OF n SKIP LOCKED
         ) AS named
         WHERE (r.app_id, r.send_id, r.recipient_index) = (named.app_id, named.send_id, named.recipient_index)
;
\echo s80
PREPARE s81 AS UPDATE request q SET title = NULL
         FROM (
           SELECT t.app_id, t.send_id FROM request t
           WHERE t.title IS NOT NULL AND t.body IS NULL AND (t.app_id, t.send_id) IN (
               SELECT app_id, send_id FROM planned_recipient
               JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number) USING (app_id, user_number)
             )
             AND NOT EXISTS (
               SELECT FROM planned_recipient other
               WHERE (other.app_id, other.send_id) = (t.app_id, t.send_id) AND other.identifier <> ''
             )
           LIMIT $3 FOR UPDATE OF t SKIP LOCKED
         ) AS titled WHERE (q.app_id, q.send_id) = (titled.app_id, titled.send_id)
;
\echo s81
PREPARE s82 AS DELETE FROM attachment WHERE (app_id, send_id, number) IN (
           SELECT f.app_id, f.send_id, f.number FROM attachment f JOIN request q USING (app_id, send_id)
           WHERE q.body IS NULL AND (f.app_id, f.send_id) IN (
               SELECT app_id, send_id FROM planned_recipient
               JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number) USING (app_id, user_number)
             )
             AND NOT EXISTS (
               SELECT FROM planned_recipient other
               WHERE (other.app_id, other.send_id) = (f.app_id, f.send_id) AND other.identifier <> ''
             )
           LIMIT $3 FOR UPDATE OF f SKIP LOCKED
         )
;
\echo s82
PREPARE s83 AS DELETE FROM 
;
\echo s83
PREPARE s84 AS DELETE FROM 
;
\echo s84
PREPARE s85 AS SELECT n.nspname::text AS "schema!", pg_try_advisory_xact_lock(hashtextextended(n.nspname, 0)) AS "is_free!"
           FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'dead_event'
           WHERE n.nspname = ANY($1::text[])
;
\echo s85
PREPARE s86 AS SELECT u.number, coalesce(c.total, 0) AS "total!", coalesce(c.unread, 0) AS "unread!",
                 coalesce(c.unseen, 0) AS "unseen!"
               FROM app_user u LEFT JOIN inbox_counter c ON c.app_id = u.app_id AND c.user_number = u.number
               WHERE u.app_id = $1 AND u.identifier = $2
;
\echo s86
PREPARE s87 AS SELECT p.seq, c.total AS "total?", c.unread AS "unread?", c.unseen AS "unseen?" FROM checkpoint p
               LEFT JOIN inbox_counter c ON c.app_id = $1 AND c.user_number = $2
               WHERE p.projection = $3 AND p.stream = $4
;
\echo s87
PREPARE s88 AS SELECT count(*) AS "count!" FROM (
                 SELECT FROM inbox_item i
                 WHERE i.app_id = $1 AND i.user_number = $2 AND i.deleted_at IS NULL
                   AND ($3::text IS NULL OR i.category_id = (SELECT id FROM category WHERE app_id = $1 AND identifier = $3))
                   AND ($4::boolean IS NULL OR (i.clicked_at IS NOT NULL) = $4)
                   AND ($5::boolean IS NULL OR (i.seen_at IS NOT NULL) = $5)
                   AND ($6::boolean IS NULL OR (i.state IS NOT NULL) = $6)
                 LIMIT $7
               ) AS counted
;
\echo s88
PREPARE s89 AS SELECT i.id, i.user_number, i.created_at, i.seen_at, i.clicked_at, i.state, i.content::text AS "content!",
                 c.id AS "category_id?", c.identifier AS "category_identifier?", c.name AS "category_name?"
               FROM (SELECT * FROM inbox_item WHERE app_id = $1 AND id = $2 OFFSET 0) AS i
               LEFT JOIN category c ON c.app_id = i.app_id AND c.id = i.category_id
               WHERE i.deleted_at IS NULL AND EXISTS (
                 SELECT FROM app_user u WHERE u.app_id = $1 AND u.number = i.user_number
                   AND ($3::text IS NULL OR u.identifier = $3)
               )
;
\echo s89
PREPARE s90 AS SELECT id FROM inbox_item WHERE app_id = $1 AND user_number = $2 AND send_id = $3
               AND deleted_at IS NULL AND clicked_at IS NULL
;
\echo s90
PREPARE s91 AS SELECT stream, seq FROM checkpoint WHERE projection = $1
;
\echo s91
PREPARE s92 AS -- A page of a user's inbox, newest first, with the counters of the whole inbox. A page without items is one row with the counters alone.
-- The index inbox_item_list has all columns of the conditions, so items before the page are skipped without reading their rows.
WITH place AS MATERIALIZED (
  SELECT i.id FROM inbox_item i
  WHERE i.app_id = $1 AND i.user_number = $2 AND i.deleted_at IS NULL
    AND ($3::text IS NULL OR i.category_id = (SELECT id FROM category WHERE app_id = $1 AND identifier = $3))
    AND ($4::boolean IS NULL OR (i.clicked_at IS NOT NULL) = $4)
    AND ($5::boolean IS NULL OR (i.seen_at IS NOT NULL) = $5)
    AND ($6::boolean IS NULL OR (i.state IS NOT NULL) = $6)
    AND (i.created_at, i.id) < ($7, $8)
  ORDER BY i.created_at DESC, i.id DESC OFFSET $9 LIMIT $10
)
SELECT counter.total AS "total?", counter.unread AS "unread?", counter.unseen AS "unseen?", item.id AS "id?", item.user_number AS "user_number?",
  item.created_at AS "created_at?", item.seen_at AS "seen_at?", item.clicked_at AS "clicked_at?", item.state AS "state?",
  item.content AS "content?", item.category_id AS "category_id?", item.category_identifier AS "category_identifier?",
  item.category_name AS "category_name?"
FROM (VALUES (1)) AS one
LEFT JOIN inbox_counter counter ON counter.app_id = $1 AND counter.user_number = $2
LEFT JOIN LATERAL (
  SELECT i.id, i.user_number, i.created_at, i.seen_at, i.clicked_at, i.state, i.content::text AS content,
    c.id AS category_id, c.identifier AS category_identifier, c.name AS category_name
  FROM place JOIN inbox_item i ON i.app_id = $1 AND i.id = place.id
  LEFT JOIN category c ON c.app_id = i.app_id AND c.id = i.category_id
) AS item ON true
ORDER BY item.created_at DESC, item.id DESC

;
\echo s92
PREPARE s93 AS SELECT seq FROM checkpoint WHERE projection = $1 AND stream = $2
;
\echo s93
PREPARE s94 AS INSERT INTO checkpoint (projection, stream, seq) VALUES ($1, $2, $4)
             ON CONFLICT (projection, stream) DO UPDATE SET seq = excluded.seq WHERE checkpoint.seq = $3
;
\echo s94
PREPARE s95 AS UPDATE checkpoint SET seq = $4 WHERE projection = $1 AND stream = $2 AND seq = $3
;
\echo s95
PREPARE s96 AS INSERT INTO dead_event (projection, stream, seq, message, cause) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT DO NOTHING
;
\echo s96
PREPARE s97 AS INSERT INTO inbox_item (app_id, user_number, id, send_id, category_id, created_at, event_id, content)
             SELECT app_id, user_number, id, send_id, category_id, created_at, event_id, content.text::json
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::uuid[], $5::bigint[], $6::timestamptz[], $7::uuid[],
               $8::bigint[]) AS new (app_id, user_number, id, send_id, category_id, created_at, event_id, content_number)
             JOIN unnest($9::text[]) WITH ORDINALITY AS content (text, content_number) USING (content_number) 
;
\echo s97
PREPARE s98 AS INSERT INTO inbox_counter AS c (app_id, user_number, total, unread, unseen)
                 SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
                 ON CONFLICT (app_id, user_number) DO UPDATE SET total = c.total + excluded.total,
                   unread = c.unread + excluded.unread, unseen = c.unseen + excluded.unseen
;
\echo s98
PREPARE s99 AS SELECT app_id, user_number, id, seen_at, clicked_at, deleted_at, state FROM inbox_item
             JOIN unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS named (app_id, user_number, id)
               USING (app_id, user_number, id)
;
\echo s99
PREPARE s100 AS UPDATE inbox_item i SET seen_at = new.seen_at, clicked_at = new.clicked_at, deleted_at = new.deleted_at,
               state = new.state, content = CASE WHEN new.deleted_at IS NULL THEN i.content END
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[],
               $7::text[]) AS new (app_id, user_number, id, seen_at, clicked_at, deleted_at, state)
             WHERE (i.app_id, i.user_number, i.id) = (new.app_id, new.user_number, new.id)
;
\echo s100
PREPARE s101 AS DELETE FROM inbox_counter WHERE app_id = $1 AND user_number = $2
;
\echo s101
PREPARE s102 AS SELECT FROM app WHERE id = $1 FOR UPDATE
;
\echo s102
PREPARE s103 AS SELECT count(*) AS "count!" FROM webhook_endpoint WHERE app_id = $1 AND url <> $2
;
\echo s103
PREPARE s104 AS INSERT INTO webhook_endpoint (app_id, url, events) VALUES ($1, $2, $3)
             ON CONFLICT (app_id, url) DO UPDATE SET events = excluded.events, failures = 0, failing_since = NULL,
                 paused_until = NULL, disabled_at = NULL, disabled_reason = NULL
             RETURNING id, xmax = 0 AS "is_new!"
;
\echo s104
PREPARE s105 AS SELECT e.id, e.url, e.events, e.since, e.failing_since, e.disabled_at, e.disabled_reason, (
                 SELECT count(*) FROM webhook_secret s
                 WHERE (s.app_id, s.endpoint_id) = (e.app_id, e.id) AND (s.expires_at IS NULL OR s.expires_at > now())
               ) AS "secrets!", (
                 SELECT count(*) FROM (
                   SELECT FROM webhook_message w
                   WHERE w.app_id = e.app_id AND w.endpoint_id = e.id AND w.settled_at IS NULL LIMIT $2
                 ) AS waiting
               ) AS "pending!", (
                 SELECT count(*) FROM (
                   SELECT FROM webhook_message f
                   WHERE f.app_id = e.app_id AND f.endpoint_id = e.id AND f.status = 'failed' LIMIT $2
                 ) AS given_up
               ) AS "failed!"
             FROM webhook_endpoint e WHERE e.app_id = $1 ORDER BY e.id
;
\echo s105
PREPARE s106 AS UPDATE webhook_endpoint SET disabled_at = now(), disabled_reason = 'removed'
             WHERE app_id = $1 AND id = $2 AND disabled_at IS NULL
;
\echo s106
PREPARE s107 AS DELETE FROM webhook_endpoint WHERE app_id = $1 AND id = $2 RETURNING url
;
\echo s107
PREPARE s108 AS SELECT url FROM webhook_endpoint WHERE app_id = $1 AND id = $2 FOR UPDATE
;
\echo s108
PREPARE s109 AS WITH newest AS (
               SELECT max(id) AS id FROM webhook_secret WHERE app_id = $1 AND endpoint_id = $2
             ), ended AS (
               DELETE FROM webhook_secret s USING newest
               WHERE s.app_id = $1 AND s.endpoint_id = $2 AND s.id <> newest.id
             )
             UPDATE webhook_secret s SET expires_at = now() + $3::float8 * interval '1 second' FROM newest
             WHERE s.app_id = $1 AND s.endpoint_id = $2 AND s.id = newest.id
;
\echo s109
PREPARE s110 AS SELECT sealed FROM webhook_secret
             WHERE app_id = $1 AND endpoint_id = $2 AND (expires_at IS NULL OR expires_at > now()) ORDER BY id DESC
;
\echo s110
PREPARE s111 AS INSERT INTO webhook_secret (app_id, endpoint_id, sealed) VALUES ($1, $2, $3)
;
\echo s111
PREPARE s112 AS SELECT app_id, id, events, since FROM webhook_endpoint
             WHERE app_id = ANY($1) AND disabled_at IS NULL ORDER BY app_id, id
;
\echo s112
PREPARE s113 AS SELECT id, send_id FROM inbox_item
             WHERE app_id = $1 AND user_number = $2 AND id = ANY($3) AND (clicked_at IS NULL OR clicked_at >= $4)
             ORDER BY id
;
\echo s113
PREPARE s114 AS SELECT id, send_id FROM inbox_item
             WHERE app_id = $1 AND user_number = $2 AND id > $3 AND id <= $4 AND clicked_at = $5
             ORDER BY id LIMIT $6
;
\echo s114
PREPARE s115 AS SELECT u.app_id, u.number, u.identifier
             FROM app_user u JOIN unnest($1::bigint[], $2::bigint[]) AS named (app_id, number) USING (app_id, number)
             ORDER BY u.app_id, u.number FOR KEY SHARE OF u
;
\echo s115
PREPARE s116 AS INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, user_number, body)
             SELECT new.app_id, new.endpoint_id, new.id, new.subject, new.event, new.user_number, new.body
             FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::uuid[], $5::text[], $6::bigint[], $7::text[])
               WITH ORDINALITY AS new (app_id, endpoint_id, id, subject, event, user_number, body, place)
             JOIN webhook_endpoint e ON (e.app_id, e.id) = (new.app_id, new.endpoint_id)
             ORDER BY new.place ON CONFLICT DO NOTHING
;
\echo s116
PREPARE s117 AS DELETE FROM webhook_message WHERE ctid = ANY(ARRAY(
                   SELECT ctid FROM webhook_message WHERE app_id = $1 AND endpoint_id = $2
                   LIMIT $3 FOR UPDATE SKIP LOCKED
                 ))
;
\echo s117
PREPARE s118 AS SELECT m.id, m.endpoint_id, e.url, m.event, m.created_at, m.settled_at AS "settled_at!", m.attempts,
                 coalesce(m.last_answer, '') AS "last_answer!"
               FROM webhook_message m JOIN webhook_endpoint e ON (e.app_id, e.id) = (m.app_id, m.endpoint_id)
               WHERE m.app_id = $1 AND m.status = 'failed' AND ($2::bigint IS NULL OR m.endpoint_id = $2)
               ORDER BY m.settled_at DESC, m.number DESC LIMIT $3
;
\echo s118
PREPARE s119 AS UPDATE webhook_message m
                 SET status = 'pending', attempts = 0, next_at = now(), created_at = now(), settled_at = NULL
                 FROM (
                   SELECT app_id, endpoint_id, id FROM webhook_message
                   WHERE app_id = $1 AND status = 'failed' AND ($2::bigint IS NULL OR endpoint_id = $2)
                     AND ($3::uuid[] IS NULL OR id = ANY($3))
                   LIMIT $4
                 ) AS again WHERE (m.app_id, m.endpoint_id, m.id) = (again.app_id, again.endpoint_id, again.id)
;
\echo s119
PREPARE s120 AS WITH old AS MATERIALIZED (
               SELECT w.place FROM webhook_endpoint e CROSS JOIN LATERAL (
                 SELECT h.ctid AS place FROM webhook_message h
                 WHERE h.app_id = e.app_id AND h.endpoint_id = e.id AND h.head
                   AND h.created_at < now() - $1::float8 * interval '1 second'
                   AND (h.token IS NULL OR h.next_at <= now())
                 ORDER BY h.created_at LIMIT $2
               ) AS w
               WHERE e.failing_since < now() - $1::float8 * interval '1 second' LIMIT $2
             ), locked AS MATERIALIZED (
               SELECT ctid AS place FROM webhook_message
               WHERE ctid = ANY(ARRAY(SELECT place FROM old)) AND (token IS NULL OR next_at <= now())
               FOR UPDATE SKIP LOCKED
             )
             UPDATE webhook_message
             SET status = 'failed', settled_at = now(), token = NULL,
                 last_answer = coalesce(last_answer, 'the endpoint has failed all the while')
             WHERE ctid = ANY(ARRAY(SELECT place FROM locked))
;
\echo s120
PREPARE s121 AS DELETE FROM webhook_message WHERE ctid = ANY(ARRAY(
               SELECT ctid FROM webhook_message
               WHERE settled_at IS NOT NULL AND status <> 'failed'
                 AND settled_at < now() - $1::float8 * interval '1 second'
               ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED
             ))
;
\echo s121
PREPARE s122 AS DELETE FROM webhook_message WHERE ctid = ANY(ARRAY(
               SELECT ctid FROM webhook_message
               WHERE status = 'failed' AND settled_at < now() - $1::float8 * interval '1 second'
               ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED
             ))
;
\echo s122
PREPARE s123 AS DELETE FROM webhook_message WHERE ctid = ANY(ARRAY(
               SELECT m.place FROM webhook_endpoint e CROSS JOIN LATERAL (
                 SELECT ctid AS place FROM webhook_message w
                 WHERE w.app_id = e.app_id AND w.endpoint_id = e.id AND w.head
                 ORDER BY w.next_at, w.number LIMIT $2 FOR UPDATE SKIP LOCKED
               ) AS m
               WHERE e.disabled_at < now() - $1::float8 * interval '1 second' LIMIT $2
             ))
;
\echo s123
PREPARE s124 AS SELECT count(*) AS "pending!", coalesce(extract(epoch FROM now() - (
               SELECT min(oldest.created_at) FROM webhook_endpoint e CROSS JOIN LATERAL (
                 SELECT h.created_at FROM webhook_message h
                 WHERE h.app_id = e.app_id AND h.endpoint_id = e.id AND h.head ORDER BY h.created_at LIMIT 1
               ) AS oldest WHERE e.disabled_at IS NULL
             )), 0)::float8 AS "age!"
             FROM (
               SELECT FROM webhook_endpoint e CROSS JOIN LATERAL (
                 SELECT FROM webhook_message w
                 WHERE w.app_id = e.app_id AND w.endpoint_id = e.id AND w.settled_at IS NULL LIMIT $1
               ) AS m WHERE e.disabled_at IS NULL LIMIT $1
             ) AS waiting
;
\echo s124
PREPARE s125 AS SELECT set_config(name, 'off', true) FROM unnest('{enable_seqscan, enable_bitmapscan, enable_sort,
           enable_hashjoin, enable_mergejoin, jit}'::text[]) AS name
;
\echo s125
PREPARE s126 AS WITH woken AS MATERIALIZED (
           SELECT ctid AS place, app_id FROM webhook_wake WHERE at <= now() ORDER BY at LIMIT $1
           FOR UPDATE SKIP LOCKED
         ), mine AS MATERIALIZED (
           SELECT app_id FROM (SELECT DISTINCT app_id FROM woken) AS apps
           WHERE pg_try_advisory_xact_lock(hashtextextended('webhooks', app_id))
         )
         DELETE FROM webhook_wake
         WHERE ctid = ANY(ARRAY(SELECT place FROM woken WHERE app_id IN (SELECT app_id FROM mine)))
         RETURNING app_id
;
\echo s126
PREPARE s127 AS SELECT e.app_id, e.id, e.url, (
             SELECT coalesce(array_agg(s.sealed ORDER BY s.id DESC), '{}') FROM webhook_secret s
             WHERE s.app_id = e.app_id AND s.endpoint_id = e.id AND (s.expires_at IS NULL OR s.expires_at > now())
           ) AS "sealed!"
           FROM unnest($1::bigint[], $2::bigint[]) AS asked (app_id, id) CROSS JOIN LATERAL (
             SELECT app_id, id, url FROM webhook_endpoint w WHERE w.app_id = asked.app_id AND w.id = asked.id LIMIT 1
           ) AS e
;
\echo s127
PREPARE s128 AS -- Claims due messages of the apps $6, at most $1 and $7 per app: only heads, and within the limits on calls under way per endpoint ($2, or 1
-- after $3 failures) and per app ($5). Each claim lasts $4 seconds.
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
  -- Checked again, because another transaction may have changed the message; in a form that does not use the index of heads.
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

;
\echo s128
PREPARE s129 AS SELECT e.app_id, e.id
         FROM unnest($1::bigint[], $2::bigint[], $3::bool[]) AS told (app_id, id, failed)
         CROSS JOIN LATERAL (
           SELECT app_id, id FROM webhook_endpoint w
           WHERE w.app_id = told.app_id AND w.id = told.id AND (told.failed OR w.failures > 0)
           LIMIT 1 FOR NO KEY UPDATE
         ) AS e
;
\echo s129
PREPARE s130 AS WITH told AS (
           SELECT n.app_id, n.id, n.succeeded, n.failed, n.asked, n.gone,
             n.failed + CASE WHEN n.succeeded THEN 0 ELSE e.failures END AS failures
           FROM unnest($1::bigint[], $2::bigint[], $3::bool[], $4::int[], $5::float8[], $6::bool[])
             AS n (app_id, id, succeeded, failed, asked, gone)
           JOIN webhook_endpoint e ON e.app_id = n.app_id AND e.id = n.id
         )
         UPDATE webhook_endpoint e SET
           failures = told.failures,
           failing_since = CASE WHEN told.failures = 0 THEN NULL WHEN told.succeeded THEN now()
                                ELSE coalesce(e.failing_since, now()) END,
           paused_until = CASE WHEN told.failed > 0 THEN now() + interval '1 second' * least($9::float8, greatest(told.asked,
               CASE WHEN told.failures >= $7
                    THEN $8::float8 * power(2::float8, least(told.failures - $7, 20)::float8) ELSE 0 END))
             WHEN told.succeeded THEN NULL ELSE e.paused_until END,
           disabled_at = CASE WHEN told.gone THEN coalesce(e.disabled_at, now()) ELSE e.disabled_at END,
           disabled_reason = CASE WHEN told.gone AND e.disabled_at IS NULL THEN 'gone' ELSE e.disabled_reason END
         FROM told WHERE e.app_id = told.app_id AND e.id = told.id
;
\echo s130
PREPARE s131 AS -- Settles the messages whose claim is still valid. Messages that another transaction has locked are returned with false.
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

;
\echo s131

SELECT name, parameter_types FROM pg_prepared_statements;
