-- The form that all spellings of a mailbox have in common; NULL for other channels. The domain is stored as A-labels, so case and the
-- Unicode form are left. The channel is an argument, so that a comparison needs no condition that the primary key could serve instead.
CREATE FUNCTION mailbox_key(channel text, target text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN channel = 'email' THEN lower(normalize(target, NFC)) END;

CREATE INDEX suppression_mailbox ON suppression (app_id, mailbox_key(channel, target)) WHERE mailbox_key(channel, target) IS NOT NULL;

-- Returns the targets among those asked for that are suppressed now. An email address is suppressed in all of its spellings. The
-- function is volatile: each call reads a new snapshot, not that of the calling statement. Its plan is kept by the session, and one made
-- while the table was empty would read the whole table later, so it uses indexes only.
CREATE OR REPLACE FUNCTION suppressed_among(apps bigint[], channels text[], targets text[])
RETURNS TABLE (app_id bigint, channel text, target text) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY
        SELECT DISTINCT asked.app_id, asked.channel, asked.target
        FROM unnest(apps, channels, targets) AS asked (app_id, channel, target)
        WHERE (SELECT true FROM suppression s WHERE (s.app_id, s.channel, s.target) = (asked.app_id, asked.channel, asked.target))
          OR (SELECT true FROM suppression s
              WHERE (s.app_id, mailbox_key(s.channel, s.target)) = (asked.app_id, mailbox_key(asked.channel, asked.target)) LIMIT 1);
END $$;

-- Reasons that the previous release cannot read. It reads `reason` and `skips`, which contain the reason that it knows.
ALTER TABLE delivery ADD COLUMN detail text;
ALTER TABLE planned_recipient ADD COLUMN details text[];
