-- What was decided for a send, and what became of its external deliveries.

-- The caller's key, reserved before the send is published. It decides nothing: the log's ack does.
CREATE TABLE idempotency_key (
    app_id        bigint NOT NULL REFERENCES app,
    key           text NOT NULL,
    send_id       uuid NOT NULL,
    body_hash     bytea NOT NULL,
    lane          text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app_id, key)
);
CREATE INDEX idempotency_key_age ON idempotency_key (created_at);

CREATE TABLE request (
    app_id           bigint NOT NULL REFERENCES app,
    send_id          uuid NOT NULL,
    accepted_at      timestamptz NOT NULL,
    send_at          timestamptz,
    expires_at       timestamptz,
    lane             text NOT NULL,
    title            text,
    category_id      bigint,
    template_id      bigint,
    template_version integer,
    recipients       integer NOT NULL,
    cancelled_at     timestamptz,
    -- The send itself, as written in the log, while turns of it are still to come.
    body             json,
    PRIMARY KEY (app_id, send_id)
);

-- Header of a planned turn: its row is what freezes the turn.
CREATE TABLE plan (
    app_id        bigint NOT NULL,
    send_id       uuid NOT NULL,
    turn          integer NOT NULL,
    planned_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app_id, send_id, turn)
);

-- One row per recipient: whether the inbox gets it, and the channels decided against, as 'channel:reason'.
CREATE TABLE planned_recipient (
    app_id          bigint NOT NULL,
    send_id         uuid NOT NULL,
    recipient_index integer NOT NULL,
    turn            integer NOT NULL,
    identifier      text NOT NULL,
    user_number     bigint,
    in_app          boolean NOT NULL,
    skips           text[] NOT NULL,
    PRIMARY KEY (app_id, send_id, recipient_index)
);

-- The ledger: one row per external delivery.
CREATE TABLE delivery (
    app_id          bigint NOT NULL,
    id              uuid NOT NULL,
    send_id         uuid NOT NULL,
    recipient_index integer NOT NULL,
    user_number     bigint NOT NULL,
    channel         text NOT NULL,
    target          text NOT NULL,
    status          text NOT NULL DEFAULT 'queued',
    reason          text,
    -- Number of the attempt that comes next, or that is under way.
    attempt         integer NOT NULL DEFAULT 1,
    -- Names the claim under way; only its holder may settle.
    token           uuid,
    lease_until     timestamptz,
    provider        text,
    provider_id     text,
    expires_at      timestamptz,
    settled_at      timestamptz,
    PRIMARY KEY (app_id, id)
);
CREATE INDEX delivery_send ON delivery (app_id, send_id, recipient_index);

CREATE TABLE attempt (
    app_id           bigint NOT NULL,
    delivery_id      uuid NOT NULL,
    number           integer NOT NULL,
    started_at       timestamptz NOT NULL,
    ended_at         timestamptz NOT NULL,
    provider         text,
    outcome          text NOT NULL,
    provider_code    text NOT NULL,
    provider_message text NOT NULL,
    provider_id      text,
    PRIMARY KEY (app_id, delivery_id, number)
);

-- A message to publish at its time. The row's id is the message's id: a new timer is never taken for an old one.
CREATE TABLE timer (
    id            uuid PRIMARY KEY,
    due_at        timestamptz NOT NULL,
    stream        text NOT NULL,
    message       bytea NOT NULL,
    app_id        bigint NOT NULL,
    send_id       uuid,
    user_number   bigint,
    created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX timer_due ON timer (due_at);
CREATE INDEX timer_send ON timer (app_id, send_id);

-- Jobs set aside after their last retry, and messages that fail by themselves, with what is needed to put them back.
CREATE TABLE parked (
    id            uuid PRIMARY KEY,
    app_id        bigint,
    send_id       uuid,
    delivery_id   uuid,
    user_number   bigint,
    stream        text NOT NULL,
    message       bytea NOT NULL,
    cause         text NOT NULL,
    parked_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX parked_delivery ON parked (app_id, delivery_id);

-- How often a message failed by itself. Rows leave when it is done or parked.
CREATE TABLE message_failure (
    stream        text NOT NULL,
    seq           bigint NOT NULL,
    failures      integer NOT NULL,
    cause         text NOT NULL,
    PRIMARY KEY (stream, seq)
);
