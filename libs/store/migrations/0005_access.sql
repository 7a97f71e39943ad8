-- How an app's callers prove themselves, and what they may do.

ALTER TABLE app
    ADD COLUMN secure_mode      boolean NOT NULL DEFAULT false,
    ADD COLUMN hmac             boolean NOT NULL DEFAULT false,
    ADD COLUMN require_exp      boolean NOT NULL DEFAULT false,
    -- NULL: guarded unless the app is in development.
    ADD COLUMN guard_addresses  boolean,
    -- NULL: any origin. Empty: none.
    ADD COLUMN cors_origins     text[],
    -- Requests a second. NULL: the configured default.
    ADD COLUMN rate_limit       integer CHECK (rate_limit > 0);

-- Keys that bearer tokens are signed with. Of a pair only the public half is kept, a shared secret under the master key.
CREATE TABLE signing_key (
    app_id        bigint NOT NULL REFERENCES app,
    kid           text NOT NULL CHECK (kid <> ''),
    algorithm     text NOT NULL,
    public_key    text,
    sealed        bytea,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app_id, kid),
    CHECK ((public_key IS NULL) <> (sealed IS NULL))
);
