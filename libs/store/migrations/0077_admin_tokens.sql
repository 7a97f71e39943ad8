-- Bearer tokens of the admin API.
CREATE TABLE admin_token (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- SHA-256 of the token.
    digest        bytea NOT NULL UNIQUE,
    -- Stays taken after the token has ended, because rows of the audit log name it.
    name          text NOT NULL UNIQUE CHECK (name <> ''),
    -- NULL: in all apps and the installation itself.
    app_id        bigint REFERENCES app,
    role          text NOT NULL,
    -- Author in the form of the audit log.
    created_by    text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    expires_at    timestamptz NOT NULL,
    revoked_at    timestamptz,
    -- Time of the latest call, to the minute.
    seen_at       timestamptz
);
