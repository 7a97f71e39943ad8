-- A message that becomes the head of its subject is due from then on, not from the time at which it was written. So the messages that
-- become callable are always at the end of the index of due heads, and a process that claims them need not read from its beginning, where
-- an open transaction keeps the entries of messages that were sent long ago. The expression with coalesce keeps a lookup by id from reading
-- these entries, too.
CREATE OR REPLACE FUNCTION webhook_message_passes_on() RETURNS trigger LANGUAGE plpgsql
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
    UPDATE webhook_message SET head = true, next_at = greatest(next_at, now())
    WHERE app_id = OLD.app_id AND endpoint_id = OLD.endpoint_id AND id = earliest.id;
    UPDATE webhook_message SET head = false
    WHERE app_id = OLD.app_id AND endpoint_id = OLD.endpoint_id AND id = OLD.id AND coalesce(head, false);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION webhook_messages_pass_on() RETURNS trigger LANGUAGE plpgsql
-- The transition tables are joined by hash, however few rows they had when the plan was made. Lookups in the table remain nested loops,
-- which nothing can replace.
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_nestloop = off
SET enable_hashjoin = on AS $$
DECLARE
    next_heads tid[];
    passed_over tid[];
BEGIN
    -- Claims change heads too, but end no call.
    PERFORM FROM written WHERE settled_at IS NOT NULL OR token IS NULL LIMIT 1;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    WITH ended AS MATERIALIZED (
        SELECT o.app_id, o.endpoint_id, o.subject, o.id FROM replaced o JOIN written n USING (app_id, endpoint_id, id)
        WHERE o.head AND (n.settled_at IS NOT NULL OR o.token IS NOT NULL AND n.token IS NULL)
        ORDER BY app_id, endpoint_id, subject
    ), earliest AS MATERIALIZED (
        SELECT ended.app_id, ended.endpoint_id, ended.id AS ended, m.place
        FROM ended CROSS JOIN LATERAL (
            SELECT w.ctid AS place, w.head FROM webhook_message w
            WHERE w.app_id = ended.app_id AND w.endpoint_id = ended.endpoint_id AND w.subject = ended.subject
              AND w.settled_at IS NULL
            ORDER BY w.number LIMIT 1 FOR NO KEY UPDATE
        ) AS m
        WHERE NOT m.head
    )
    SELECT array_agg(DISTINCT earliest.place), array_agg(w.place)
    INTO next_heads, passed_over
    FROM earliest LEFT JOIN LATERAL (
        SELECT m.ctid AS place FROM webhook_message m
        WHERE m.app_id = earliest.app_id AND m.endpoint_id = earliest.endpoint_id AND m.id = earliest.ended
          AND coalesce(m.head, false)
        LIMIT 1
    ) AS w ON true;
    IF next_heads IS NOT NULL THEN
        UPDATE webhook_message SET head = true, next_at = greatest(next_at, now()) WHERE ctid = ANY(next_heads);
        UPDATE webhook_message SET head = false WHERE ctid = ANY(passed_over) AND head;
    END IF;
    RETURN NULL;
END $$;
