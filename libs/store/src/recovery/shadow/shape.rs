//! Comparing the definitions of tables: new tables must have the same definition as the live tables that they replace.

use sqlx::PgConnection;

use crate::Error;

/// Lists the properties that differ between the inbox tables of the schemas `$1` (live) and `$2`, one per row. Includes
/// properties that are not copied to new tables (triggers, policies, publications), so that none is lost unnoticed.
const DIFFERENCES: &str = "
    WITH made AS (
      SELECT c.*, c.relname AS name, n.nspname, n.nspname = $1 AS is_live
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname IN ($1, $2) AND c.relkind = 'r' AND c.relname IN ('inbox_item', 'inbox_counter')
    ), col AS (
      SELECT m.name, m.is_live, m.relowner, a.* FROM made m
      JOIN pg_attribute a ON a.attrelid = m.oid AND a.attnum > 0 AND NOT a.attisdropped
    ), line (is_live, text) AS (
      SELECT is_live, format('%s: column %s %s%s%s%s%s', name, attname, format_type(atttypid, atttypmod),
        CASE WHEN attnotnull THEN ' NOT NULL' END, ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid),
        ' STATISTICS ' || nullif(attstattarget, -1), ' WITH ' || attoptions::text)
      FROM col LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (col.attrelid, col.attnum)
      UNION ALL
      SELECT is_live, format('%s: constraint %s %s', name, k.conname, pg_get_constraintdef(k.oid))
      FROM made JOIN pg_constraint k ON k.conrelid = made.oid
      UNION ALL
      SELECT is_live, replace(pg_get_indexdef(i.indexrelid), format(' ON %I.%I ', nspname, name), format(' ON %I ', name))
      FROM made JOIN pg_index i ON i.indrelid = made.oid
      UNION ALL
      SELECT is_live, format('%s: WITH (%s)', name, option) FROM made, unnest(reloptions) AS option
      UNION ALL
      SELECT is_live, format('%s: owner %s', name, pg_get_userbyid(relowner)) FROM made
      UNION ALL
      SELECT is_live, format('%s: %s granted to %s', name, privilege_type, grantee::regrole)
      FROM made, aclexplode(relacl) WHERE grantee <> relowner
      UNION ALL
      SELECT is_live, format('%s: %s (%s) granted to %s', name, privilege_type, attname, grantee::regrole)
      FROM col, aclexplode(attacl) WHERE grantee <> relowner
      UNION ALL
      SELECT is_live, format('%s: trigger %s', name, t.tgname)
      FROM made JOIN pg_trigger t ON t.tgrelid = made.oid AND NOT t.tgisinternal
      UNION ALL
      SELECT is_live, format('%s: rule %s', name, r.rulename) FROM made JOIN pg_rewrite r ON r.ev_class = made.oid
      UNION ALL
      SELECT is_live, format('%s: policy %s', name, p.polname) FROM made JOIN pg_policy p ON p.polrelid = made.oid
      UNION ALL
      SELECT is_live, format('%s: row security', name) FROM made WHERE relrowsecurity OR relforcerowsecurity
      UNION ALL
      SELECT is_live, format('%s: replica identity %s', name, relreplident) FROM made
      UNION ALL
      SELECT is_live, format('%s: publication %s', name, p.pubname)
      FROM made JOIN pg_publication_rel r ON r.prrelid = made.oid JOIN pg_publication p ON p.oid = r.prpubid
    )
    SELECT text || CASE WHEN bool_or(is_live) THEN ' (the live table alone)' ELSE ' (the new table alone)' END
    FROM line GROUP BY text HAVING bool_and(is_live) OR NOT bool_or(is_live) ORDER BY text";

/// Checks that the inbox tables have the same definition in both schemas. Otherwise returns [`Error::Differs`].
pub(super) async fn check(connection: &mut PgConnection, live: &str, new: &str) -> Result<(), Error> {
    let differences: Vec<String> =
        sqlx::query_scalar(DIFFERENCES).bind(live).bind(new).fetch_all(connection).await?;
    if differences.is_empty() { Ok(()) } else { Err(Error::Differs(differences)) }
}
