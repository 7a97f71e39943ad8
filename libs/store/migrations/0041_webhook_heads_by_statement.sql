-- A head was settled, or its call ended without success: the earliest message of its subject is the head. One look for all messages of
-- a statement replaces one for each message, because messages are settled in batches.
CREATE FUNCTION webhook_messages_pass_on() RETURNS trigger LANGUAGE plpgsql
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
        WHERE m.app_id = earliest.app_id AND m.endpoint_id = earliest.endpoint_id AND m.id = earliest.ended AND m.head
        LIMIT 1
    ) AS w ON true;
    IF next_heads IS NOT NULL THEN
        UPDATE webhook_message SET head = true WHERE ctid = ANY(next_heads);
        UPDATE webhook_message SET head = false WHERE ctid = ANY(passed_over) AND head;
    END IF;
    RETURN NULL;
END $$;

DROP TRIGGER webhook_message_passed_on ON webhook_message;
CREATE TRIGGER webhook_message_passed_on AFTER UPDATE ON webhook_message
    REFERENCING OLD TABLE AS replaced NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION webhook_messages_pass_on();
