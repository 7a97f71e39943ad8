-- When push tokens were registered, and what it takes to lift a suppression.

-- A token of a user's profile, and when it was written there last. One that was written before this table was has no row:
-- it was registered long ago.
CREATE TABLE push_token (
    app_id        bigint NOT NULL,
    target        text NOT NULL,
    user_number   bigint NOT NULL,
    registered_at timestamptz NOT NULL,
    PRIMARY KEY (app_id, target, user_number),
    FOREIGN KEY (app_id, user_number) REFERENCES app_user (app_id, number) ON DELETE CASCADE
);
CREATE INDEX push_token_user ON push_token (app_id, user_number);

-- What was taken away with the target: {"users": [{"number", "registeredAt"}]} whose profiles had the token, or
-- {"subscription": {…}} of a browser.
ALTER TABLE suppression ADD COLUMN pruned jsonb;
CREATE INDEX suppression_delivery ON suppression (app_id, delivery_id);
CREATE INDEX suppression_age ON suppression (created_at DESC);

-- Which targets are suppressed now. As it is volatile, it looks when it is called, not when the statement began.
CREATE FUNCTION suppressed_among(apps bigint[], channels text[], targets text[])
RETURNS TABLE (app_id bigint, channel text, target text) LANGUAGE sql VOLATILE AS $$
    SELECT DISTINCT s.app_id, s.channel, s.target FROM suppression s
    JOIN unnest(apps, channels, targets) AS asked (app_id, channel, target)
      ON (asked.app_id, asked.channel, asked.target) = (s.app_id, s.channel, s.target)
$$;
