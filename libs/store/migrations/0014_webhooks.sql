-- Status webhooks: where apps want to hear what became of their deliveries, and what is still to be told.

CREATE TABLE webhook_endpoint (
    app_id          bigint NOT NULL REFERENCES app,
    id              bigint GENERATED ALWAYS AS IDENTITY,
    url             text NOT NULL CHECK (url <> ''),
    events          text[] NOT NULL,
    -- What happened before is not told.
    since           timestamptz NOT NULL DEFAULT now(),
    -- Failures since the last success, when they began, and until when nothing is tried.
    failures        integer NOT NULL DEFAULT 0,
    failing_since   timestamptz,
    paused_until    timestamptz,
    -- When it was turned off, and why; nothing is written for it then.
    disabled_at     timestamptz,
    disabled_reason text,
    PRIMARY KEY (app_id, id),
    UNIQUE (app_id, url)
);

-- Two may live at once while rotating; calls are signed with each.
CREATE TABLE webhook_secret (
    app_id          bigint NOT NULL,
    endpoint_id     bigint NOT NULL,
    id              bigint GENERATED ALWAYS AS IDENTITY,
    sealed          bytea NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz,
    PRIMARY KEY (app_id, endpoint_id, id),
    FOREIGN KEY (app_id, endpoint_id) REFERENCES webhook_endpoint (app_id, id) ON DELETE CASCADE
);

-- One row per event and endpoint, kept for a while when it is done: by then nothing tells of the event again.
CREATE TABLE webhook_message (
    app_id          bigint NOT NULL,
    endpoint_id     bigint NOT NULL,
    -- The same whenever the event is read, so that it is told once.
    id              uuid NOT NULL,
    -- Messages of one subject (a delivery, an inbox item) go out in this order, one after the other.
    number          bigint GENERATED ALWAYS AS IDENTITY,
    subject         uuid NOT NULL,
    event           text NOT NULL,
    user_number     bigint,
    body            text NOT NULL,
    status          text NOT NULL DEFAULT 'pending',
    attempts        integer NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL DEFAULT now(),
    next_at         timestamptz NOT NULL DEFAULT now(),
    -- Names the call under way, until next_at; only its holder may settle.
    token           uuid,
    last_answer     text,
    settled_at      timestamptz,
    PRIMARY KEY (app_id, endpoint_id, id),
    FOREIGN KEY (app_id, endpoint_id) REFERENCES webhook_endpoint (app_id, id) ON DELETE CASCADE
);
CREATE INDEX webhook_message_due ON webhook_message (app_id, endpoint_id, next_at) WHERE status = 'pending';
CREATE INDEX webhook_message_order ON webhook_message (app_id, endpoint_id, subject, number) WHERE status = 'pending';
CREATE INDEX webhook_message_under_way ON webhook_message (app_id, endpoint_id) WHERE token IS NOT NULL;
CREATE INDEX webhook_message_failed ON webhook_message (app_id, settled_at) WHERE status = 'failed';
CREATE INDEX webhook_message_settled ON webhook_message (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX webhook_message_user ON webhook_message (app_id, user_number);
