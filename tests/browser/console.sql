-- An hour of the app `demo`, for the pages of the console: people, sends, answers of providers, and messages that are parked.
CREATE TEMP TABLE shop ON COMMIT DROP AS SELECT id AS app FROM app WHERE name = 'demo';

INSERT INTO category (app_id, identifier, name)
SELECT app, v.identifier, v.name FROM shop, (VALUES ('orders', 'Orders'), ('security', 'Security'), ('offers', 'Offers')) AS v (identifier, name)
ON CONFLICT DO NOTHING;
INSERT INTO template (app_id, identifier, version)
SELECT app, v.identifier, v.version FROM shop, (VALUES ('order-shipped', 4), ('new-sign-in', 2), ('weekend-offer', 11)) AS v (identifier, version)
ON CONFLICT DO NOTHING;
INSERT INTO template_version (app_id, template_id, version, name, category, channels, created_at)
SELECT app, t.id, n, v.name, v.category, replace(v.channels, 'Friday', CASE WHEN n = t.version THEN '{{ order.arrives }}' ELSE 'Friday' END)::json,
  now() - (t.version - n) * interval '9 days' - interval '3 hours'
FROM shop JOIN template t ON t.app_id = app CROSS JOIN LATERAL generate_series(1, t.version) AS n
JOIN (VALUES
  ('order-shipped', 'Order shipped', 'orders', $${
    "inApp": {"title": "Order {{ order.number }} has shipped", "message": "It arrives on Friday.", "url": "{{ order.url }}"},
    "email": {
      "subject": "Order {{ order.number }} has shipped",
      "text": "Hello {{ recipient.app.name }},\n\nyour order {{ order.number }} has left our warehouse. It arrives on Friday.\n\nFollow the parcel: {{ order.url }}\n",
      "html": "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta name=\"color-scheme\" content=\"light dark\">\n<style>\nbody { margin: 0; padding: 32px; font: 16px/1.6 Helvetica, Arial, sans-serif; color: #1b1b1f; }\nh1 { margin: 0 0 16px; font-size: 22px; }\n.button { display: inline-block; padding: 12px 20px; border-radius: 8px; background: #4649c8; color: #ffffff; text-decoration: none; }\n@media (prefers-color-scheme: dark) { body { color: #ededf2; background: #17171c; } }\n</style>\n</head>\n<body>\n<h1>On its way</h1>\n<p>Hello {{ recipient.app.name }},</p>\n<p>your order {{ order.number }} has left our warehouse. It arrives on Friday.</p>\n<p><a class=\"button\" href=\"{{ order.url }}\">Follow the parcel</a></p>\n<script>document.body.textContent = 'scripts run'</script>\n</body>\n</html>"
    },
    "mobilePush": {"title": "Order {{ order.number }} has shipped", "body": "It arrives on Friday.", "url": "{{ order.url }}"},
    "sms": {"text": "Order {{ order.number }} is on its way and arrives on Friday. {{ order.url }}"}
  }$$),
  ('new-sign-in', 'New sign-in', 'security', '{"email": {"subject": "New sign-in from {{ place }}", "text": "If it was not you, change your password."}}'),
  ('weekend-offer', 'Weekend offer', 'offers', '{"inApp": {"title": "Weekend offer: {{ percent }} % on {{ product }}"}, "email": {"subject": "Weekend offer", "text": "{{ percent }} % on {{ product }}"}}')
) AS v (identifier, name, category, channels) ON v.identifier = t.identifier;

INSERT INTO app_user (app_id, identifier, profile, created_at)
SELECT app, name, jsonb_build_object('email', name || '@example.com', 'phoneNumber', '+49170' || (1000000 + n), 'name', initcap(name), 'plan', 'plus'),
  now() - n * interval '7 hours'
FROM shop, unnest(ARRAY['ada', 'grace', 'alan', 'edsger', 'barbara', 'donald', 'frances', 'john', 'margaret', 'ken', 'radia', 'dennis', 'hedy',
  'linus', 'katherine', 'tim', 'joan', 'niklaus', 'shafi', 'leslie']) WITH ORDINALITY AS people (name, n)
ON CONFLICT DO NOTHING;
INSERT INTO device (app_id, user_number, device_id, device_type, connected_at)
SELECT app, number, 'phone-' || number, 'ios', now() - interval '3 hours' FROM shop, app_user WHERE app_id = app AND identifier IN ('ada', 'grace');
INSERT INTO preference (app_id, user_number, category_id, channel, enabled)
SELECT app, u.number, c.id, 'sms', c.identifier = 'security' FROM shop
JOIN app_user u ON u.app_id = app AND u.identifier = 'ada' JOIN category c ON c.app_id = app AND c.identifier IN ('orders', 'security');

INSERT INTO request (app_id, send_id, accepted_at, lane, title, category_id, template_id, template_version, recipients, send_at)
SELECT app, (left(send_id_at(at)::text, 14) || '7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, at, 'transactional', kind.title, c.id, t.id, t.version,
  kind.recipients, CASE WHEN kind.title LIKE 'Weekend%' AND n % 3 = 0 THEN now() + interval '2 days' END
FROM shop CROSS JOIN generate_series(1, 90) AS n
CROSS JOIN LATERAL (SELECT now() - (n * n * 0.4 + n * 3) * interval '1 second' AS at) AS times
JOIN LATERAL (SELECT * FROM (VALUES
  (0, 'Your order 10' || (400 - n) || ' has shipped', 'orders', 'order-shipped', 1), (1, 'New sign-in from Lisbon', 'security', 'new-sign-in', 1),
  (2, 'Order 10' || (400 - n) || ' arrives today', 'orders', 'order-shipped', 1), (3, 'Weekend offer: 20 % on coffee', 'offers', 'weekend-offer', 20)
) AS v (kind, title, category, template, recipients) WHERE v.kind = CASE WHEN n % 17 = 0 THEN 3 ELSE n % 3 END) AS kind ON true
JOIN category c ON c.app_id = app AND c.identifier = kind.category
JOIN template t ON t.app_id = app AND t.identifier = kind.template;

INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
SELECT app, r.send_id, p.place, 0, u.identifier, u.number, true, CASE WHEN u.identifier = 'ada' THEN ARRAY['sms:preference_off', 'webPush:no_address'] ELSE ARRAY['webPush:no_address'] END
FROM shop JOIN request r ON r.app_id = app AND r.send_at IS NULL AND r.lane = 'transactional' AND r.template_id IS NOT NULL
CROSS JOIN LATERAL (SELECT generate_series(0, r.recipients - 1)::integer AS place) AS p
JOIN LATERAL (SELECT number, identifier FROM app_user WHERE app_id = app ORDER BY number
  OFFSET (('x' || right(r.send_id::text, 4))::bit(16)::integer + p.place) % 20 LIMIT 1) AS u ON true
ON CONFLICT DO NOTHING;
INSERT INTO plan (app_id, send_id, turn, planned_at) SELECT DISTINCT app, p.send_id, 0, r.accepted_at + interval '6 milliseconds' FROM shop
JOIN planned_recipient p ON p.app_id = app JOIN request r ON (r.app_id, r.send_id) = (app, p.send_id) ON CONFLICT DO NOTHING;

CREATE TEMP TABLE made ON COMMIT DROP AS
SELECT app, gen_random_uuid() AS id, p.send_id, p.recipient_index, p.user_number, v.channel, r.accepted_at AS at,
  CASE v.channel WHEN 'email' THEN p.identifier || '@example.com' WHEN 'sms' THEN u.profile ->> 'phoneNumber' ELSE 'fcm:' || md5(p.identifier) END AS target,
  ('x' || left(md5(p.send_id::text || v.channel), 4))::bit(16)::integer % 100 AS luck
FROM shop JOIN planned_recipient p ON p.app_id = app JOIN request r ON (r.app_id, r.send_id) = (app, p.send_id)
JOIN app_user u ON (u.app_id, u.number) = (app, p.user_number)
CROSS JOIN (VALUES ('email'), ('mobilePush'), ('sms')) AS v (channel)
WHERE NOT (v.channel = 'sms' AND p.identifier = 'ada') AND NOT (v.channel = 'sms' AND r.recipients > 1);

-- Some SMS are parked in every run.
UPDATE made SET luck = 1 WHERE id IN (SELECT id FROM made WHERE channel = 'sms' ORDER BY at LIMIT 3);
-- An email waits in every run.
UPDATE made SET luck = 8 WHERE id IN (SELECT id FROM made WHERE channel = 'email' ORDER BY at LIMIT 1);

INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status, reason, attempt, provider, settled_at)
SELECT app, id, send_id, recipient_index, user_number, channel, target,
  CASE WHEN luck < 4 THEN 'parked' WHEN luck < 7 THEN 'failed' WHEN luck < 9 THEN 'retrying' WHEN luck < 60 THEN 'delivered' ELSE 'sent' END,
  CASE WHEN luck < 4 THEN 'retries_exhausted' WHEN luck < 7 THEN 'target_gone' END, CASE WHEN luck < 4 THEN 8 ELSE 1 END,
  CASE channel WHEN 'email' THEN 'stand-in' WHEN 'sms' THEN 'stand-in-sms' ELSE 'stand-in-fcm' END,
  CASE WHEN luck < 7 OR luck >= 9 THEN at + interval '340 milliseconds' END FROM made;
INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, provider, outcome, provider_code, provider_message)
SELECT app, id, 1, at + interval '10 milliseconds', at + interval '330 milliseconds',
  CASE channel WHEN 'email' THEN 'stand-in' WHEN 'sms' THEN 'stand-in-sms' ELSE 'stand-in-fcm' END,
  CASE WHEN luck < 4 OR luck BETWEEN 7 AND 8 THEN 'retry' WHEN luck < 7 THEN 'target_gone' ELSE 'sent' END,
  CASE WHEN luck < 4 THEN CASE channel WHEN 'email' THEN '535' WHEN 'sms' THEN '20429' ELSE 'QUOTA_EXCEEDED' END
    WHEN luck < 7 THEN CASE channel WHEN 'email' THEN '550' WHEN 'sms' THEN '21610' ELSE 'UNREGISTERED' END
    WHEN luck < 9 THEN CASE channel WHEN 'email' THEN '421' WHEN 'sms' THEN '503' ELSE 'UNAVAILABLE' END ELSE '250' END,
  CASE WHEN luck < 4 THEN CASE channel WHEN 'email' THEN '5.7.8 Authentication credentials invalid' WHEN 'sms' THEN 'Too many requests' ELSE 'Sending limit exceeded for the message target' END
    WHEN luck < 7 THEN CASE channel WHEN 'email' THEN '5.1.1 no such user' WHEN 'sms' THEN 'Attempt to send to unsubscribed recipient' ELSE 'Requested entity was not found' END
    WHEN luck < 9 THEN 'service not available, try again later' ELSE 'accepted' END FROM made;
INSERT INTO parked (id, app_id, send_id, delivery_id, user_number, stream, message, cause, parked_at)
SELECT gen_random_uuid(), app, send_id, id, user_number, 'JOB_' || channel || '_transactional', '',
  CASE channel WHEN 'email' THEN '535' WHEN 'sms' THEN '20429' ELSE 'QUOTA_EXCEEDED' END, at + interval '1 minute' FROM made WHERE luck < 4;
INSERT INTO timer (id, due_at, stream, message, app_id, send_id, user_number, delivery_id, wait_reason, provider, code)
SELECT gen_random_uuid(), now() + interval '1 hour', 'JOB_' || channel || '_transactional', '', app, send_id, user_number, id,
  CASE channel WHEN 'email' THEN 'breaker_open' ELSE 'retry_later' END,
  CASE channel WHEN 'email' THEN 'stand-in' WHEN 'sms' THEN 'stand-in-sms' ELSE 'stand-in-fcm' END,
  CASE channel WHEN 'email' THEN '421' WHEN 'sms' THEN '503' ELSE 'UNAVAILABLE' END FROM made WHERE luck BETWEEN 7 AND 8;
INSERT INTO suppression (app_id, channel, target, delivery_id, code, created_at)
SELECT app, 'email', 'ada@example.com', '00000000-0000-7000-8000-00000000dead', '550', now() - interval '40 minutes' FROM shop ON CONFLICT DO NOTHING;
INSERT INTO suppression (app_id, channel, target, delivery_id, code, created_at, pruned)
SELECT app, 'mobilePush', 'fcm:bk3RNwTe3H0', gen_random_uuid(), 'UNREGISTERED', now() - interval '2 hours',
  jsonb_build_object('users', jsonb_build_array(jsonb_build_object('number', number))) FROM shop
JOIN app_user ON app_id = app AND identifier = 'ada' ON CONFLICT DO NOTHING;
INSERT INTO redrive_run (app_id, id, channel, cause, parked_before, selected, expected, per_second, state, pause, pause_detail, redriven, skipped,
  created_by, created_at, ended_at) OVERRIDING SYSTEM VALUE
SELECT app, v.id, v.channel, v.cause, now() - v.age, v.selected, v.expected, 50, v.state, v.pause, v.detail, v.redriven, v.skipped::jsonb,
  'operator:' || (SELECT min(id) FROM operator), now() - v.age, CASE WHEN v.state = 'done' THEN now() - v.age + interval '9 seconds' END
FROM shop CROSS JOIN (VALUES
  (3, 'email', '535', interval '4 minutes', 412, 391, 'paused', 'failing', '23', 218, '{"read": 8, "expired": 4, "suppressed": 1}'),
  (2, 'mobilePush', 'QUOTA_EXCEEDED', interval '3 hours', 87, 80, 'done', NULL, NULL, 80, '{"read": 7}')
) AS v (id, channel, cause, age, selected, expected, state, pause, detail, redriven, skipped);
INSERT INTO refused_call (app_id, at, times, status, method, route, code, fields, api_key, client, proven)
SELECT app, now() - (30 - n) * interval '97 seconds', CASE WHEN v.status = 429 THEN 40 + n ELSE 1 END, v.status, v.method, v.route, v.code, v.fields, left(a.api_key, 8), v.client, v.proven
FROM shop JOIN app a ON a.id = app CROSS JOIN generate_series(1, 28) AS n
JOIN (VALUES
  (0, 400, 'POST', '/v3/notifications', 'required', ARRAY['notification.title'], '203.0.113.x', true),
  (1, 400, 'POST', '/v3/notifications', 'invalid_type', ARRAY['sendTo.recipients[3].email', 'notification.data'], '203.0.113.x', true),
  (2, 401, 'GET', '/v3/notifications', 'invalid_credentials', ARRAY[]::text[], '198.51.100.x', false),
  (3, 403, 'PATCH', '/v3/profile', 'address_guarded', ARRAY[]::text[], '2001:db8:7::/48', false),
  (4, 409, 'POST', '/v3/notifications', 'idempotency_conflict', ARRAY[]::text[], '203.0.113.x', true),
  (5, 429, 'GET', '/v3/notifications/counts', 'rate_limited', ARRAY[]::text[], '192.0.2.x', true)
) AS v (kind, status, method, route, code, fields, client, proven) ON v.kind = (n * n + n / 3) % 6 ORDER BY n;

INSERT INTO operator (email, created_at, signed_in_at, disabled_at)
SELECT v.email, now() - v.age, now() - v.seen, CASE WHEN v.email LIKE 'ken%' THEN now() END FROM (VALUES
  ('grace@example.com', interval '41 days', interval '12 minutes'), ('radia@example.com', interval '19 days', interval '2 hours'),
  ('ken@example.com', interval '80 days', interval '30 days'), ('joan@example.com', interval '1 hour', NULL)
) AS v (email, age, seen) ON CONFLICT DO NOTHING;
INSERT INTO operator_grant (operator_id, app_id, role, by_claim)
SELECT o.id, CASE WHEN v.in_app THEN app END, v.role, v.by_claim FROM shop CROSS JOIN (VALUES
  ('grace@example.com', false, 'viewer', false), ('grace@example.com', true, 'editor', false), ('grace@example.com', true, 'operator', true),
  ('radia@example.com', true, 'support', false), ('ken@example.com', false, 'admin', false), ('joan@example.com', true, 'editor', false)
) AS v (email, in_app, role, by_claim) JOIN operator o ON o.email = v.email ON CONFLICT DO NOTHING;
INSERT INTO operator_session (digest, operator_id, created_at, seen_at, expires_at, method, network, browser)
SELECT sha256(v.browser::bytea), o.id, now() - v.age, now() - v.seen, now() + interval '6 days', v.method, v.network, v.browser
FROM operator o CROSS JOIN (VALUES
  ('password', '198.51.100.x', 'Firefox on Linux', interval '2 days', interval '3 hours'),
  ('link', '2001:db8:7::/48', 'Safari on iPhone', interval '4 days', interval '20 minutes')
) AS v (method, network, browser, age, seen) WHERE o.email NOT IN ('grace@example.com', 'radia@example.com', 'ken@example.com', 'joan@example.com');
INSERT INTO audit (app_id, at, actor, actor_kind, action, subject, before, after, ip, request_id)
SELECT CASE WHEN v.in_app THEN app END, now() - v.age, replace(v.actor, 'grace', o.id::text), v.kind, v.action, replace(v.subject, 'joan', j.id::text), v.before, v.after,
  v.ip, CASE WHEN v.kind = 'operator' THEN gen_random_uuid() END
FROM shop CROSS JOIN (VALUES
  (true, interval '9 days', 'cli:ken', 'cli', 'provider.set', 'stand-in', NULL::jsonb, NULL::jsonb, NULL),
  (true, interval '6 days', 'cli:ken', 'cli', 'app.set', 'max-users', '{"maxUsers": 10000}', '{"maxUsers": 50000}', NULL),
  (true, interval '5 days', 'operator:grace', 'operator', 'template.put', 'order-shipped', '{"version": 3}', '{"version": 4}', '198.51.100.24'),
  (true, interval '4 days', 'api:203.0.113.9', 'app', 'user.erase', 'user 31', NULL, NULL, '203.0.113.9'),
  (true, interval '2 days', 'operator:grace', 'operator', 'suppression.lift', 'email', NULL, NULL, '198.51.100.24'),
  (false, interval '65 minutes', 'operator:grace', 'operator', 'operator.create', 'joan', NULL, NULL, '198.51.100.24'),
  (true, interval '64 minutes', 'operator:grace', 'operator', 'operator.grant', 'joan', '{"role": "support"}', '{"role": "editor"}', '198.51.100.24'),
  (true, interval '31 minutes', 'operator:grace', 'operator', 'target.reveal', 'user 1', NULL, '{"channel": "email", "reason": "ticket 4711"}', '198.51.100.24'),
  (true, interval '4 minutes', 'operator:grace', 'operator', 'redrive.start', '3', NULL, '{"cause": "535", "selected": 412}', '198.51.100.24')
) AS v (in_app, age, actor, kind, action, subject, before, after, ip)
JOIN operator o ON o.email = 'grace@example.com' JOIN operator j ON j.email = 'joan@example.com' ORDER BY v.age DESC;

INSERT INTO operator_identity (issuer, subject, operator_id)
SELECT 'https://login.example.com', 'grace', id FROM operator WHERE email = 'grace@example.com' ON CONFLICT DO NOTHING;
INSERT INTO category (app_id, id, identifier, name, critical, position) OVERRIDING SYSTEM VALUE
SELECT app, 1007, 'alarms', 'Alarms', true, 9 FROM shop;
INSERT INTO topic (app_id, id, identifier, name, open, updated_at) OVERRIDING SYSTEM VALUE
SELECT app, 1007 + v.n, v.identifier, v.name, v.open, now() - v.n * interval '5 days' FROM shop CROSS JOIN (VALUES
  (0, 'news', 'News of the shop', true), (1, 'beta', 'Beta testers', false), (2, 'team', 'Staff', false)) AS v (n, identifier, name, open);
INSERT INTO topic_subscription (app_id, topic_id, user_number, subscribed_at)
SELECT app, 1007 + t, number, now() FROM shop JOIN app_user ON app_id = app CROSS JOIN generate_series(0, 2) AS t WHERE number % (t + 2) = 0;
-- The events of the enabled endpoints are rare, so that nothing is called while pages are opened.
INSERT INTO webhook_endpoint (app_id, id, url, events, since, failing_since, disabled_at, disabled_reason) OVERRIDING SYSTEM VALUE
SELECT app, v.id, v.url, v.events, now() - interval '40 days', now() - v.failing, now() - v.disabled, v.reason FROM shop CROSS JOIN (VALUES
  (1007, 'https://shop.example.com/tidings', ARRAY['delivery.suppressed'], NULL::interval, NULL::interval, NULL),
  (1008, 'https://warehouse.example.com/hooks/deliveries', ARRAY['delivery.suppressed', 'notification.read'], interval '3 hours', NULL, NULL),
  (1009, 'https://old.example.com/hook', ARRAY['delivery.failed'], NULL, interval '12 days', 'the endpoint answered 410 Gone')
) AS v (id, url, events, failing, disabled, reason);
INSERT INTO webhook_secret (app_id, endpoint_id, sealed) SELECT app, id, '' FROM shop CROSS JOIN generate_series(1007, 1009) AS id;
INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, body, status, attempts, last_answer, next_at, created_at, settled_at)
SELECT app, 1008, ('0197b5a2-0000-7000-8000-00000000' || lpad(n::text, 4, '0'))::uuid, gen_random_uuid(), 'notification.read', '',
  CASE WHEN n < 5 THEN 'failed' ELSE 'pending' END, CASE WHEN n < 5 THEN 13 ELSE 2 END, CASE WHEN n % 2 = 0 THEN '503' ELSE 'timed out' END,
  now() + interval '1 hour', now() - interval '30 hours', CASE WHEN n < 5 THEN now() - n * interval '40 minutes' END
FROM shop CROSS JOIN generate_series(1, 16) AS n;
INSERT INTO admin_token (id, digest, name, app_id, role, created_by, created_at, expires_at, revoked_at, seen_at) OVERRIDING SYSTEM VALUE
SELECT v.id, sha256(v.name::bytea), v.name, CASE WHEN v.in_app THEN app END, v.role, replace(v.by, 'ID', o.id::text), now() - v.age, now() - v.age + interval '90 days',
  now() - v.revoked, now() - v.seen FROM shop CROSS JOIN (VALUES
  (1007, 'ci', true, 'editor', 'operator:ID', interval '20 days', NULL::interval, interval '3 minutes'),
  (1008, 'terraform', false, 'admin', 'cli:ken', interval '60 days', NULL, interval '5 hours'),
  (1009, 'assistant', true, 'support', 'operator:ID', interval '2 days', NULL, NULL),
  (1010, 'old-pipeline', false, 'operator', 'cli:ken', interval '80 days', interval '9 days', interval '10 days')
) AS v (id, name, in_app, role, by, age, revoked, seen) JOIN operator o ON o.email = 'grace@example.com';
