-- The form that all spellings of a mailbox have in common. The domain is stored as A-labels, so case and the Unicode form are left.
CREATE FUNCTION mailbox_key(address text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN lower(normalize(address, NFC));

CREATE INDEX suppression_mailbox ON suppression (app_id, mailbox_key(target)) WHERE channel = 'email';

-- Returns the targets among those asked for that are suppressed now. An email address is suppressed in all of its spellings. The
-- function is volatile: each call reads a new snapshot, not that of the calling statement. Its plan is kept by the session, and one made
-- while the table was empty would read the whole table later, so it uses indexes only.
CREATE OR REPLACE FUNCTION suppressed_among(apps bigint[], channels text[], targets text[])
RETURNS TABLE (app_id bigint, channel text, target text) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY
        SELECT asked.app_id, asked.channel, asked.target
        FROM unnest(apps, channels, targets) AS asked (app_id, channel, target)
        JOIN suppression s ON (s.app_id, s.channel, s.target) = (asked.app_id, asked.channel, asked.target)
        UNION
        SELECT asked.app_id, asked.channel, asked.target
        FROM unnest(apps, channels, targets) AS asked (app_id, channel, target)
        JOIN suppression s ON s.channel = 'email' AND (s.app_id, mailbox_key(s.target)) = (asked.app_id, mailbox_key(asked.target))
        WHERE asked.channel = 'email';
END $$;

-- Reasons that the previous release cannot read. It reads `reason` and `skips`, which contain the reason that it knows.
ALTER TABLE delivery ADD COLUMN detail text;
ALTER TABLE planned_recipient ADD COLUMN details text[];
