-- The head of a subject is its earliest message that is not settled; it alone may be called. Heads are marked and indexed in
-- the order in which they are due, so that taking reads what it takes and never what waits behind. The marks are kept by the
-- triggers below, whichever statement, release or operator writes the rows.
SET LOCAL statement_timeout = 0;

ALTER TABLE webhook_message ADD COLUMN head boolean NOT NULL DEFAULT false;

UPDATE webhook_message m SET head = true
FROM (
  SELECT DISTINCT ON (app_id, endpoint_id, subject) app_id, endpoint_id, id FROM webhook_message
  WHERE settled_at IS NULL ORDER BY app_id, endpoint_id, subject, number
) AS earliest
WHERE (m.app_id, m.endpoint_id, m.id) = (earliest.app_id, earliest.endpoint_id, earliest.id);

DROP INDEX webhook_message_due;
CREATE INDEX webhook_message_due ON webhook_message (app_id, endpoint_id, next_at, number) WHERE head;
-- By this the oldest message of an endpoint is found, and given up in the end.
CREATE INDEX webhook_message_age ON webhook_message (app_id, endpoint_id, created_at) WHERE head;
-- One for each time that messages are kept, so that removing old ones reads none that stay.
DROP INDEX webhook_message_settled;
CREATE INDEX webhook_message_taken ON webhook_message (settled_at) WHERE settled_at IS NOT NULL AND status <> 'failed';
CREATE INDEX webhook_message_given_up ON webhook_message (settled_at) WHERE status = 'failed';

-- When to look at an app's webhooks: written with every change after which one of its messages may be called, removed by
-- the process that looks. Apps without a row here cost nothing. Rows are only ever added, never changed: a change that is not
-- committed yet has its own row, and no look that misses the change can remove that row.
CREATE TABLE webhook_wake (
    app_id        bigint NOT NULL,
    at            timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);
CREATE INDEX webhook_wake_at ON webhook_wake (at);

-- Times that have passed are now, and those to come are rounded up to a tenth of a second: messages of one statement share a
-- row, so that an app with much to tell has few rows before those of the others.
CREATE FUNCTION webhook_wake_at(due timestamptz) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN due <= now() THEN now() ELSE to_timestamp(ceil(extract(epoch FROM due) * 10) / 10) END
$$;

-- A message that is added or delivered again: the head, if its subject has no other, or if it comes before one that is not
-- under way. Locking the present head makes sure that it is not settled at the same time: each sees what the other wrote.
CREATE FUNCTION webhook_message_arrives() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    earliest record;
BEGIN
    SELECT id, number, token, head INTO earliest FROM webhook_message
    WHERE app_id = NEW.app_id AND endpoint_id = NEW.endpoint_id AND subject = NEW.subject AND settled_at IS NULL
    ORDER BY number LIMIT 1 FOR NO KEY UPDATE;
    NEW.head := NOT FOUND;
    IF FOUND AND earliest.head AND earliest.token IS NULL AND earliest.number > NEW.number THEN
        UPDATE webhook_message SET head = false
        WHERE app_id = NEW.app_id AND endpoint_id = NEW.endpoint_id AND id = earliest.id;
        NEW.head := true;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER webhook_message_added BEFORE INSERT ON webhook_message
    FOR EACH ROW WHEN (NEW.settled_at IS NULL) EXECUTE FUNCTION webhook_message_arrives();
CREATE TRIGGER webhook_message_again BEFORE UPDATE ON webhook_message
    FOR EACH ROW WHEN (OLD.settled_at IS NOT NULL AND NEW.settled_at IS NULL) EXECUTE FUNCTION webhook_message_arrives();

CREATE FUNCTION webhook_message_ends() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.head := false;
    RETURN NEW;
END $$;
CREATE TRIGGER webhook_message_settled BEFORE UPDATE ON webhook_message
    FOR EACH ROW WHEN (NEW.head AND NEW.settled_at IS NOT NULL) EXECUTE FUNCTION webhook_message_ends();

-- A head was settled or removed, or its call ended without success: the earliest message of its subject is the head.
CREATE FUNCTION webhook_message_passes_on() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    earliest record;
BEGIN
    SELECT id, head INTO earliest FROM webhook_message
    WHERE app_id = OLD.app_id AND endpoint_id = OLD.endpoint_id AND subject = OLD.subject AND settled_at IS NULL
    ORDER BY number LIMIT 1 FOR NO KEY UPDATE;
    IF NOT FOUND OR earliest.head THEN
        RETURN NULL;
    END IF;
    UPDATE webhook_message SET head = true
    WHERE app_id = OLD.app_id AND endpoint_id = OLD.endpoint_id AND id = earliest.id;
    UPDATE webhook_message SET head = false
    WHERE app_id = OLD.app_id AND endpoint_id = OLD.endpoint_id AND id = OLD.id AND head;
    RETURN NULL;
END $$;
CREATE TRIGGER webhook_message_passed_on AFTER UPDATE ON webhook_message FOR EACH ROW
    WHEN (OLD.head AND (NEW.settled_at IS NOT NULL OR OLD.token IS NOT NULL AND NEW.token IS NULL))
    EXECUTE FUNCTION webhook_message_passes_on();
CREATE TRIGGER webhook_message_removed AFTER DELETE ON webhook_message
    FOR EACH ROW WHEN (OLD.head) EXECUTE FUNCTION webhook_message_passes_on();

-- Each message that is written is looked at when it is due, when its lease ends, or now if its call ended.
CREATE FUNCTION webhook_message_wakes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO webhook_wake (app_id, at) SELECT DISTINCT app_id, webhook_wake_at(next_at) FROM written;
    RETURN NULL;
END $$;
CREATE TRIGGER webhook_message_wakes_added AFTER INSERT ON webhook_message
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION webhook_message_wakes();
CREATE TRIGGER webhook_message_wakes_changed AFTER UPDATE ON webhook_message
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION webhook_message_wakes();

CREATE FUNCTION webhook_endpoint_wakes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO webhook_wake (app_id, at) VALUES (NEW.app_id, webhook_wake_at(coalesce(NEW.paused_until, now())));
    RETURN NULL;
END $$;
CREATE TRIGGER webhook_endpoint_wakes AFTER UPDATE ON webhook_endpoint FOR EACH ROW
    WHEN (OLD.paused_until IS DISTINCT FROM NEW.paused_until OR OLD.disabled_at IS DISTINCT FROM NEW.disabled_at)
    EXECUTE FUNCTION webhook_endpoint_wakes();

INSERT INTO webhook_wake (app_id, at)
SELECT DISTINCT app_id, webhook_wake_at(next_at) FROM webhook_message WHERE head
UNION SELECT app_id, webhook_wake_at(paused_until) FROM webhook_endpoint WHERE paused_until IS NOT NULL;

-- By this the endpoints are found whose messages are given up.
CREATE INDEX webhook_endpoint_failing ON webhook_endpoint (failing_since) WHERE failing_since IS NOT NULL;
CREATE INDEX webhook_endpoint_disabled ON webhook_endpoint (disabled_at) WHERE disabled_at IS NOT NULL;
