-- {sends} sends of the last 30 days in the app {app}: ten deliveries each, and a person for ten sends.
SET synchronous_commit = off;
INSERT INTO category (app_id, identifier, name) SELECT {app}, c, initcap(c) FROM unnest('{orders,news,comments,security}'::text[]) AS c;
INSERT INTO app_user (app_id, identifier, profile, created_at)
SELECT {app}, 'user-' || n, jsonb_build_object('email', 'user-' || n || '@example.com', 'phoneNumber', '+49151' || (10000000 + n), 'name', 'Person ' || n),
  now() - n * interval '1 second' FROM generate_series(1, greatest({sends} / 10, 20)) AS n;
CREATE TABLE made AS
SELECT n, now() - n * interval '30 days' / {sends} AS at,
  (substr(send_id_at(now() - n * interval '30 days' / {sends})::text, 1, 14) || '7' || substr(md5(n::text), 1, 3) || '-8' || substr(md5(n::text), 4, 3)
    || '-' || lpad(to_hex(n), 12, '0'))::uuid AS send
FROM generate_series(1, {sends}) AS n;
INSERT INTO request (app_id, send_id, accepted_at, lane, title, category_id, recipients)
SELECT {app}, send, at, 'transactional', 'Order ' || n || ' has shipped',
  (SELECT min(id) FROM category WHERE app_id = {app}) + n % 4, 10 FROM made;
INSERT INTO plan (app_id, send_id, turn, planned_at) SELECT {app}, send, 0, at FROM made;
CREATE TABLE people AS SELECT row_number() OVER (ORDER BY number) - 1 AS place, number, identifier FROM app_user WHERE app_id = {app};
CREATE INDEX ON people (place);
ANALYZE people;
CREATE TABLE pairs AS
SELECT m.send, m.at, i AS place, p.number, p.identifier, gen_random_uuid() AS delivery, (m.n * 7 + i * 13) % 1000 AS luck
FROM made m CROSS JOIN generate_series(0, 9) AS i
JOIN people p ON p.place = (m.n::bigint * 10 + i) * 7919 % greatest({sends} / 10, 20);
INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
SELECT {app}, send, place, 0, identifier, number, true, '{sms:preference_off,webPush:no_address}' FROM pairs;
INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status, reason, attempt, provider, settled_at)
SELECT {app}, delivery, send, place, number, 'email', identifier || '@example.com',
  CASE WHEN luck < 2 THEN 'parked' WHEN luck < 10 THEN 'failed' WHEN luck < 12 THEN 'retrying' ELSE 'sent' END,
  CASE WHEN luck < 2 THEN 'retries_exhausted' WHEN luck < 10 THEN 'target_gone' END, 1, 'main',
  CASE WHEN luck BETWEEN 2 AND 9 OR luck > 11 THEN at END
FROM pairs;
INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, provider, outcome, provider_code, provider_message)
SELECT {app}, delivery, 1, at, at, 'main', CASE WHEN luck < 2 OR luck IN (10, 11) THEN 'retry' WHEN luck < 10 THEN 'target_gone' ELSE 'sent' END,
  CASE WHEN luck < 2 THEN '451' WHEN luck < 10 THEN '550' WHEN luck < 12 THEN '421' ELSE '250' END,
  CASE WHEN luck < 2 THEN '4.3.0 try again later' WHEN luck < 10 THEN '5.1.1 no such user' ELSE 'ok' END FROM pairs;
INSERT INTO parked (id, app_id, send_id, delivery_id, user_number, stream, message, cause, parked_at)
SELECT gen_random_uuid(), {app}, send, delivery, number, 'JOB_email_transactional', '', '451', at FROM pairs WHERE luck < 2;
INSERT INTO timer (id, due_at, stream, message, app_id, send_id, user_number, delivery_id, wait_reason, provider, code)
SELECT gen_random_uuid(), now() + interval '1 hour', 'JOB_email_transactional', '', {app}, send, number, delivery, 'breaker_open', 'main', '421'
FROM pairs WHERE luck IN (10, 11);
INSERT INTO inbox_item (app_id, user_number, id, send_id, created_at, event_id, content)
SELECT {app}, number, -row_number() OVER (), send, at, delivery, json_build_object('title', 'Your order has shipped') FROM pairs WHERE place = 0;
INSERT INTO suppression (app_id, channel, target, delivery_id, code, created_at)
SELECT DISTINCT ON (identifier) {app}, 'email', identifier || '@example.com', delivery, '550', at FROM pairs WHERE luck BETWEEN 2 AND 9
ON CONFLICT DO NOTHING;
INSERT INTO refused_call (app_id, at, times, status, method, route, code, fields, api_key, client, proven)
SELECT {app}, now() - n * interval '30 seconds', 1, 400, 'POST', '/v3/notifications', 'required', ARRAY['notification.title'], left(a.api_key, 8), '203.0.113.x', true
FROM app a CROSS JOIN generate_series(1, least({sends} / 20, 20000)) AS n WHERE a.id = {app};
DROP TABLE made, people, pairs;
