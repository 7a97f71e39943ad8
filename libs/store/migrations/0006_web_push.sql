-- Browsers that take web push, and the key pairs that apps sign it with (RFC 8292).

-- An app may connect a user without saying on what.
ALTER TABLE device ALTER COLUMN device_type DROP NOT NULL;
UPDATE device SET device_type = NULL WHERE device_type = 'unknown';

-- The subscription of a device. An endpoint is one browser's: it has one owner in an app, the last that sent it.
CREATE TABLE web_push_subscription (
    app_id        bigint NOT NULL,
    user_number   bigint NOT NULL,
    device_id     text NOT NULL,
    endpoint      text NOT NULL,
    p256dh        bytea NOT NULL,
    auth          bytea NOT NULL,
    expires_at    timestamptz,
    updated_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app_id, user_number, device_id),
    UNIQUE (app_id, endpoint),
    FOREIGN KEY (app_id, user_number, device_id) REFERENCES device (app_id, user_number, device_id) ON DELETE CASCADE
);

CREATE TABLE vapid_key (
    app_id        bigint PRIMARY KEY REFERENCES app,
    public_key    text NOT NULL,
    sealed        bytea NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now()
);

-- A category that is deleted takes its preferences along.
CREATE INDEX preference_category ON preference (app_id, category_id);
