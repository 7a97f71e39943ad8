-- Returns the targets that are suppressed now. The function is volatile: each call reads a new snapshot, not that of the calling
-- statement. In PL/pgSQL a session plans the query once; as an SQL function, every call parsed and planned it again.
CREATE OR REPLACE FUNCTION suppressed_among(apps bigint[], channels text[], targets text[])
RETURNS TABLE (app_id bigint, channel text, target text) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN QUERY
        SELECT DISTINCT s.app_id, s.channel, s.target FROM suppression s
        JOIN unnest(apps, channels, targets) AS asked (app_id, channel, target)
          ON (asked.app_id, asked.channel, asked.target) = (s.app_id, s.channel, s.target);
END $$;
