-- What a send carries beside its content, and what its links are signed with.

-- The key that links of an app are signed with, under the master key.
CREATE TABLE app_link_key (
    app_id        bigint PRIMARY KEY REFERENCES app,
    sealed        bytea NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now()
);

-- Files of sends, written before their send is accepted, so that some belong to none.
CREATE TABLE attachment (
    app_id        bigint NOT NULL REFERENCES app,
    send_id       uuid NOT NULL,
    -- From 0, in the order of the send.
    number        integer NOT NULL,
    content       bytea NOT NULL,
    -- Not before this time is it removed.
    keep_until    timestamptz NOT NULL,
    PRIMARY KEY (app_id, send_id, number)
);
-- Files rarely get smaller by being compressed once more.
ALTER TABLE attachment ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE INDEX attachment_age ON attachment (keep_until);

-- Sends a second that an app has in the transactional lane; null for the configured default.
ALTER TABLE app ADD COLUMN transactional_rate integer CHECK (transactional_rate > 0);
