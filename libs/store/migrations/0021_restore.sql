-- What a restored backup is known by, and where the log is to be read again for it.

-- The database that this row was written in. A dump takes the row along into another database, which has another
-- identity: whoever starts there sees that it is restored. NULL: not recorded yet, or a restore is under way.
ALTER TABLE installation
    ADD COLUMN system_identifier bigint,
    ADD COLUMN database_oid      bigint;

-- What the log says up to here was in this database when the mark was written, and so is in every dump with the mark.
CREATE TABLE log_mark (
    stream        text PRIMARY KEY,
    seq           bigint NOT NULL,
    at            timestamptz NOT NULL
);

-- Jobs of the log that a restore has read, while it runs.
CREATE TABLE restored_job (
    app_id        bigint NOT NULL,
    delivery_id   uuid NOT NULL,
    attempt       integer NOT NULL,
    stream        text NOT NULL,
    seq           bigint NOT NULL,
    -- Whether a worker may have had it.
    handed_out    boolean NOT NULL,
    PRIMARY KEY (app_id, delivery_id, attempt)
);
