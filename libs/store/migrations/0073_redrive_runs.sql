-- Redrives of parked messages that the dispatcher makes page by page.
CREATE TABLE redrive_run (
    app_id        bigint NOT NULL REFERENCES app,
    id            bigint GENERATED ALWAYS AS IDENTITY,
    -- The messages of the run. NULL: any.
    channel       text,
    provider      text,
    cause         text,
    category      text,
    delivery_id   uuid,
    parked_since  timestamptz,
    -- The moment of the preview, or an earlier one.
    parked_before timestamptz NOT NULL,
    -- Numbers of the preview: messages that the run selects, and those that would be redriven.
    selected      bigint NOT NULL,
    expected      bigint NOT NULL,
    per_second    integer NOT NULL,
    state         text NOT NULL DEFAULT 'running',
    -- Why the run paused itself, and the provider or number that it names. NULL: an operator paused it.
    pause         text,
    pause_detail  text,
    -- The last message that the run judged.
    after_at      timestamptz,
    after_id      uuid,
    redriven      bigint NOT NULL DEFAULT 0,
    -- Numbers of messages that stay parked, by reason.
    skipped       jsonb NOT NULL DEFAULT '{}',
    -- The latest redriven deliveries, at most 100.
    latest        uuid[] NOT NULL DEFAULT '{}',
    created_by    text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    ended_at      timestamptz,
    -- Earliest time of the next page.
    next_at       timestamptz NOT NULL DEFAULT now(),
    -- The dispatcher that makes the pages, until its lease ends.
    leased_by     uuid,
    leased_until  timestamptz,
    PRIMARY KEY (app_id, id)
);
