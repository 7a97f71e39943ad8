//! The inbox tables, which a rebuild replaces.

/// SQL that returns columns, checks, keys, indexes, storage, owner and grants of the inbox tables as one text.
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
