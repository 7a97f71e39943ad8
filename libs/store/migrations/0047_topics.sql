-- Topics, and the users who subscribed to them.

CREATE TABLE topic (
    app_id        bigint NOT NULL REFERENCES app,
    id            bigint GENERATED ALWAYS AS IDENTITY,
    identifier    text NOT NULL,
    name          text NOT NULL,
    -- Whether users may subscribe themselves.
    open          boolean NOT NULL DEFAULT false,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app_id, id),
    UNIQUE (app_id, identifier)
);

-- No reference to `topic`: a topic can have millions of subscriptions, which are removed in steps after their topic.
CREATE TABLE topic_subscription (
    app_id        bigint NOT NULL,
    topic_id      bigint NOT NULL,
    user_number   bigint NOT NULL,
    subscribed_at timestamptz NOT NULL,
    PRIMARY KEY (app_id, topic_id, user_number),
    FOREIGN KEY (app_id, user_number) REFERENCES app_user (app_id, number) ON DELETE CASCADE
);
CREATE INDEX topic_subscription_user ON topic_subscription (app_id, user_number, topic_id);

-- Deleted topics whose subscriptions have not all been removed yet.
CREATE TABLE deleted_topic (
    app_id        bigint NOT NULL,
    topic_id      bigint NOT NULL,
    PRIMARY KEY (app_id, topic_id)
);

ALTER TABLE app ADD COLUMN max_topics bigint, ADD COLUMN max_subscriptions bigint;
CREATE TRIGGER topic_added AFTER INSERT ON topic REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_added('topics');
CREATE TRIGGER topic_removed AFTER DELETE ON topic REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION count_removed('topics');
CREATE TRIGGER topic_subscription_added AFTER INSERT ON topic_subscription REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_added('subscriptions');
CREATE TRIGGER topic_subscription_removed AFTER DELETE ON topic_subscription REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION count_removed('subscriptions');

-- The topics of a send, each with the number of its planned subscribers: [["news", 500], ["sport", 0]]. NULL: the send has no topics.
-- While `expanding` is true, chunks with further subscribers follow, and `recipients` grows.
ALTER TABLE request ADD COLUMN topics jsonb, ADD COLUMN expanding boolean NOT NULL DEFAULT false;

-- For a chunk that goes to subscribers: where it ended (`Expansion` in libs/domain, without the recipients).
ALTER TABLE plan ADD COLUMN expansion jsonb;

-- The timers that publish sends. They are few, and an erasure searches those of its app.
CREATE INDEX timer_publishes_send ON timer (app_id, id) WHERE stream IN ('SEND_transactional', 'SEND_bulk');
