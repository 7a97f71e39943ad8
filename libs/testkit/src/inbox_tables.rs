/// Users whose stored counters differ from a recount of their items.
pub const WRONG_COUNTERS: &str = "
    SELECT count(*) FROM inbox_counter AS kept
    FULL JOIN (
      SELECT app_id, user_number, count(*) FILTER (WHERE listed) AS total,
        count(*) FILTER (WHERE listed AND clicked_at IS NULL) AS unread,
        count(*) FILTER (WHERE listed AND seen_at IS NULL) AS unseen, count(*) FILTER (WHERE NOT listed) AS hidden
      FROM (
        SELECT *, archived_at IS NULL AND snoozed_until IS NULL AS listed FROM inbox_item WHERE deleted_at IS NULL
      ) AS existing
      GROUP BY app_id, user_number
    ) AS counted USING (app_id, user_number)
    WHERE (kept.total, kept.unread, kept.unseen, kept.hidden) IS DISTINCT FROM (coalesce(counted.total, 0),
      coalesce(counted.unread, 0), coalesce(counted.unseen, 0), coalesce(counted.hidden, 0))";

/// Columns, checks, keys, indexes, storage, owner and grants of the inbox tables as one text.
pub const INBOX_TABLES: &str = "
    SELECT string_agg(line, E'\\n' ORDER BY line) FROM (
      SELECT indexdef AS line FROM pg_indexes WHERE schemaname = 'public' AND tablename LIKE 'inbox_%'
      UNION ALL SELECT conname || pg_get_constraintdef(oid) FROM pg_constraint
        WHERE conrelid IN ('inbox_item'::regclass, 'inbox_counter'::regclass)
      UNION ALL SELECT relname || coalesce(reloptions::text, '') || relpersistence::text || relowner::text
          || coalesce((SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM aclexplode(relacl) a), '')
        FROM pg_class WHERE oid IN ('inbox_item'::regclass, 'inbox_counter'::regclass)
      UNION ALL SELECT table_name || to_jsonb(c)::text FROM information_schema.columns c
        WHERE table_schema = 'public' AND table_name IN ('inbox_item', 'inbox_counter')
    ) AS lines";
