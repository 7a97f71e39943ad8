-- Bytes that the event log can hold, as the last `tidings migrate` found it; NULL if it is unknown.
ALTER TABLE installation ADD COLUMN log_store bigint;

-- Sequence at which a projection started if the log had removed messages before; it has committed nothing while seq is equal.
ALTER TABLE checkpoint ADD COLUMN started_at bigint;

-- Megabytes that an app may add within 24 hours: sends to the log, and files to this database.
ALTER TABLE app ADD COLUMN max_send_megabytes bigint, ADD COLUMN max_file_megabytes bigint;

-- Bytes of accepted sends and of their files, by the hour since 1970. Gateways add to the rows of the current hour, and remove
-- the rows of an app that are older than a day.
CREATE TABLE app_bytes (
    app_id        bigint NOT NULL REFERENCES app,
    hour          bigint NOT NULL,
    sends         bigint NOT NULL,
    files         bigint NOT NULL,
    PRIMARY KEY (app_id, hour)
) WITH (fillfactor = 50);
