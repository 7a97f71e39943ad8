-- Users that were erased. A row stays for ever: replays and rebuilds drop what the log still says of its number.
CREATE TABLE erased (
    app_id        bigint NOT NULL REFERENCES app,
    user_number   bigint NOT NULL,
    -- SHA-256 over app and identifier: how a send of before the erasure is known to name the user. Gone once no such
    -- send is left to be planned.
    digest        bytea,
    erased_at     timestamptz NOT NULL,
    -- When the eraser looks through what is left of the user next.
    next_pass_at  timestamptz NOT NULL DEFAULT now(),
    -- When nothing was left, and nothing could come any more.
    done_at       timestamptz,
    PRIMARY KEY (app_id, user_number)
);
CREATE INDEX erased_digest ON erased (app_id, digest) WHERE done_at IS NULL;
CREATE INDEX erased_recent ON erased (app_id, erased_at) WHERE done_at IS NULL;
CREATE INDEX erased_pass ON erased (next_pass_at) WHERE done_at IS NULL;

-- By these an erasure finds the user's rows.
CREATE INDEX delivery_user ON delivery (app_id, user_number);
CREATE INDEX planned_recipient_user ON planned_recipient (app_id, user_number) WHERE user_number IS NOT NULL;
CREATE INDEX planned_recipient_unknown ON planned_recipient (app_id, identifier) WHERE user_number IS NULL;
CREATE INDEX request_kept ON request (app_id, send_id) WHERE body IS NOT NULL;
CREATE INDEX timer_user ON timer (app_id, user_number) WHERE user_number IS NOT NULL;
CREATE INDEX parked_user ON parked (app_id, user_number) WHERE user_number IS NOT NULL;
