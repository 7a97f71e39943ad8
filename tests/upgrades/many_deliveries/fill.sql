-- Fills a database with sends of 100 deliveries each, in every state. The statements use only tables and columns of release 0.2.0.
-- The setting `upgrade.sends` is the number of sends.
--
-- The schema `upgrade` belongs to the test. It describes the state of each delivery and the state in which the delivery must end.
CREATE SCHEMA upgrade;

CREATE TABLE upgrade.kind (
    number   int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    channel  text NOT NULL,
    status   text NOT NULL,
    reason   text,
    -- Number of the next attempt or, if the delivery has ended, of the last one.
    attempt  int NOT NULL,
    -- Number of rows in the table `attempt`.
    made     int NOT NULL,
    calling  boolean NOT NULL,
    -- Time from now until the lease expires.
    lease    interval,
    -- Time from now until the delivery expires.
    expires  interval,
    -- Place of the job: 'log', 'timer' or 'parked'. NULL: the job was acknowledged.
    job      text,
    -- Number of sends of this kind in each cycle of the sends without a job.
    weight   int NOT NULL,
    -- Status in which the delivery must end, and number of calls that the provider must have received by then.
    ends     text NOT NULL,
    calls    int NOT NULL
);

INSERT INTO upgrade.kind (channel, status, reason, attempt, made, calling, lease, expires, job, weight, ends, calls) VALUES
    ('email', 'queued',    NULL,                1, 0, false, NULL,       NULL,      'log',    0, 'sent',      1),
    ('sms',   'queued',    NULL,                1, 0, false, NULL,       NULL,      'log',    0, 'sent',      1),
    ('email', 'queued',    NULL,                1, 0, false, NULL,       '-1 hour', 'log',    0, 'expired',   0),
    -- The stream was full, so the job became a timer.
    ('email', 'queued',    NULL,                1, 0, false, NULL,       NULL,      'timer',  0, 'sent',      1),
    -- The worker died before it called the provider. The lease of 15 s has not ended if few deliveries are filled.
    ('email', 'sending',   NULL,                1, 0, false, '-1 min',   NULL,      'log',    0, 'sent',      1),
    ('email', 'sending',   NULL,                2, 1, false, '15 s',     NULL,      'log',    0, 'sent',      1),
    ('sms',   'sending',   NULL,                1, 0, false, '-1 min',   NULL,      'log',    0, 'sent',      1),
    -- The provider may have received the call, and the channel is never called twice.
    ('sms',   'sending',   NULL,                1, 0, true,  '-1 min',   NULL,      'log',    0, 'unknown',   0),
    ('email', 'retrying',  NULL,                2, 1, false, NULL,       NULL,      'timer',  0, 'sent',      1),
    ('sms',   'retrying',  NULL,                3, 2, false, NULL,       '1 hour',  'timer',  0, 'sent',      1),
    -- The timer has published the job.
    ('email', 'retrying',  NULL,                2, 1, false, NULL,       NULL,      'log',    0, 'sent',      1),
    -- Deliveries stay parked until the test redrives them.
    ('email', 'parked',    'retries_exhausted', 6, 5, false, NULL,       NULL,      'parked', 0, 'sent',      1),
    ('sms',   'parked',    'retries_exhausted', 6, 5, false, NULL,       NULL,      'parked', 0, 'sent',      1),
    -- The worker stopped before it acknowledged the job.
    ('email', 'sent',      NULL,                1, 1, false, NULL,       NULL,      'log',    0, 'sent',      0),
    ('sms',   'delivered', NULL,                2, 2, false, NULL,       NULL,      'log',    0, 'delivered', 0),
    ('email', 'failed',    'provider_refused',  1, 1, false, NULL,       NULL,      'log',    0, 'failed',    0),
    ('sms',   'unknown',   'outcome_unknown',   1, 0, true,  NULL,       NULL,      'log',    0, 'unknown',   0),
    ('email', 'skipped',   'suppressed',        1, 0, false, NULL,       NULL,      'log',    0, 'skipped',   0),
    ('email', 'cancelled', 'request_cancelled', 1, 0, false, NULL,       NULL,      'log',    0, 'cancelled', 0),
    ('sms',   'expired',   NULL,                2, 1, false, NULL,       '-1 hour', 'log',    0, 'expired',   0),
    ('email', 'sent',      NULL,                1, 1, false, NULL,       NULL,      NULL,     8, 'sent',      0),
    ('sms',   'sent',      NULL,                2, 2, false, NULL,       NULL,      NULL,     3, 'sent',      0),
    ('sms',   'delivered', NULL,                1, 1, false, NULL,       NULL,      NULL,     3, 'delivered', 0),
    ('email', 'failed',    'target_gone',       1, 1, false, NULL,       NULL,      NULL,     1, 'failed',    0),
    ('sms',   'unknown',   'outcome_unknown',   1, 1, false, NULL,       NULL,      NULL,     1, 'unknown',   0),
    ('email', 'skipped',   'suppressed',        1, 0, false, NULL,       NULL,      NULL,     1, 'skipped',   0),
    ('email', 'cancelled', 'request_cancelled', 1, 0, false, NULL,       NULL,      NULL,     1, 'cancelled', 0),
    ('email', 'expired',   NULL,                3, 2, false, NULL,       '-1 hour', NULL,     1, 'expired',   0);

INSERT INTO app (id, name, api_key, development) OVERRIDING SYSTEM VALUE
SELECT n, 'shop-' || n, 'shop-' || n, true FROM generate_series(1, 3) AS n;

INSERT INTO app_user (app_id, number, identifier, profile) OVERRIDING SYSTEM VALUE
SELECT app.id, app.id * 1000 + n, 'person-' || n,
  jsonb_build_object('email', format('person-%s@example.com', n), 'phone', '+1415' || lpad(n::text, 7, '0'))
FROM app, generate_series(0, 999) AS n;

-- Each kind with a job gets one send of each app. The other sends are divided among the other kinds. The sends were accepted in the
-- last 20 days, so that none of them is removed because of its age. Their ids are UUIDs of version 7.
CREATE TABLE upgrade.send AS
WITH place AS (
    SELECT row_number() OVER (ORDER BY number, again) - 1 AS place, count(*) OVER () AS places, number
    FROM upgrade.kind, generate_series(1, weight) AS again
), held AS (
    SELECT row_number() OVER (ORDER BY number) - 1 AS place, count(*) OVER () AS places, number FROM upgrade.kind WHERE job IS NOT NULL
), dated AS (
    SELECT n, now() - n * (interval '20 days' / current_setting('upgrade.sends')::int) AS accepted_at
    FROM generate_series(0, current_setting('upgrade.sends')::int - 1) AS n
)
SELECT n AS number, n % 3 + 1 AS app_id, accepted_at, CASE n % 2 WHEN 0 THEN 'transactional' ELSE 'bulk' END AS lane,
  (lpad(to_hex(floor(extract(epoch FROM accepted_at) * 1000)::bigint), 12, '0') || '7000' || '8' || lpad(to_hex(n), 15, '0'))::uuid AS id,
  CASE WHEN n < 3 * (SELECT count(*) FROM held) THEN (SELECT number FROM held WHERE place = n / 3)
    ELSE (SELECT number FROM place WHERE place = (n / 3) % places) END AS kind
FROM dated;

-- The first half of a delivery's id is that of the send's id, as release 0.4 and later derive it.
CREATE TABLE upgrade.filled AS
SELECT send.app_id::bigint, (left(send.id::text, 19) || 'b000-' || lpad(to_hex(send.number * 100 + n), 12, '0'))::uuid AS id,
  send.id AS send_id, send.kind, n AS recipient, (send.app_id * 1000 + person)::bigint AS user_number, 'person-' || person AS identifier,
  CASE channel WHEN 'email' THEN format('person-%s@example.com', person) ELSE '+1415' || lpad(person::text, 7, '0') END AS target,
  CASE channel WHEN 'email' THEN 'smtp' ELSE 'sms-http' END AS provider, accepted_at
FROM upgrade.send JOIN upgrade.kind ON kind.number = kind, generate_series(0, 99) AS n,
  LATERAL (SELECT (send.number * 100 + n) % 1000 AS person) AS one;
CREATE UNIQUE INDEX ON upgrade.filled (app_id, id);
CREATE UNIQUE INDEX ON upgrade.filled (id);

INSERT INTO request (app_id, send_id, accepted_at, expires_at, lane, title, recipients, cancelled_at)
SELECT app_id, id, accepted_at, now() + expires, lane, 'Order shipped', 100, CASE status WHEN 'cancelled' THEN accepted_at END
FROM upgrade.send JOIN upgrade.kind ON kind.number = kind;

INSERT INTO idempotency_key (app_id, key, send_id, body_hash, lane, created_at)
SELECT app_id, 'order-' || number, id, sha256(number::text::bytea), lane, accepted_at FROM upgrade.send;

INSERT INTO plan (app_id, send_id, turn, planned_at) SELECT app_id, id, 0, accepted_at FROM upgrade.send;

INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
SELECT app_id, send_id, recipient, 0, identifier, user_number, true, '{webPush:no_address}' FROM upgrade.filled;

INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status, reason, attempt, token, lease_until,
  provider, expires_at, settled_at, calling)
SELECT app_id, id, send_id, recipient, user_number, channel, target, status, reason, attempt,
  CASE WHEN made > 0 OR status = 'sending' OR calling THEN gen_random_uuid() END, now() + lease,
  CASE WHEN made > 0 OR status = 'sending' OR calling THEN provider END, now() + expires,
  CASE WHEN status NOT IN ('queued', 'sending', 'retrying') THEN accepted_at END, calling
FROM upgrade.filled JOIN upgrade.kind ON kind.number = kind;

-- All attempts but the last failed temporarily.
INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, provider, outcome, provider_code, provider_message)
SELECT app_id, id, n, accepted_at, accepted_at, provider,
  CASE WHEN n < attempt THEN 'retry' WHEN reason = 'target_gone' THEN 'target_gone' WHEN status = 'delivered' THEN 'sent' ELSE status END,
  CASE WHEN n < attempt THEN '451' ELSE '250' END, 'Answer'
FROM upgrade.filled JOIN upgrade.kind ON kind.number = kind, generate_series(1, made) AS n;

-- Each recipient has an inbox item. A redrive leaves out items that were read, so items of parked deliveries are unread. The ids are
-- higher than those that the projection gives to new items.
INSERT INTO inbox_item (app_id, user_number, id, send_id, created_at, seen_at, clicked_at, content, event_id)
SELECT app_id, user_number, (1::bigint << 40) + row_number() OVER (), send_id, accepted_at,
  CASE WHEN is_read THEN accepted_at END, CASE WHEN is_read THEN accepted_at END, '{"title": "Order shipped"}', gen_random_uuid()
FROM upgrade.filled JOIN upgrade.kind ON kind.number = kind, LATERAL (SELECT job IS NULL AND recipient % 3 = 0 AS is_read) AS one;

INSERT INTO inbox_counter (app_id, user_number, total, unread, unseen)
SELECT app_id, user_number, count(*), count(*) FILTER (WHERE clicked_at IS NULL), count(*) FILTER (WHERE seen_at IS NULL)
FROM inbox_item GROUP BY app_id, user_number;

-- Columns that never change: of ended deliveries, and of attempts.
CREATE TABLE upgrade.ended_delivery AS
SELECT id, delivery.reason, delivery.attempt, token, delivery.provider, settled_at
FROM delivery JOIN upgrade.filled USING (app_id, id) JOIN upgrade.kind ON kind.number = kind
WHERE delivery.status NOT IN ('queued', 'sending', 'retrying', 'parked');
CREATE TABLE upgrade.made_attempt AS SELECT delivery_id, number, ended_at, provider, outcome FROM attempt;

-- Messages that the providers accepted.
CREATE TABLE upgrade.call (delivery_id uuid NOT NULL);

ANALYZE;
