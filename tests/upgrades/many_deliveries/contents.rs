//! Contents of all tables, to compare a database before and after an upgrade.

use std::collections::BTreeMap;

use sqlx::{AssertSqlSafe, PgPool};

/// Contents of the tables of Tidings, by the name of the table.
pub(super) struct Contents(BTreeMap<String, Table>);

struct Table {
    /// Columns, separated by commas.
    columns: String,
    rows: Rows,
}

/// Number of rows, and the sum of their hashes.
type Rows = (i64, String);

const TABLES: &str = "
    SELECT table_name::text, string_agg(quote_ident(column_name), ', ' ORDER BY ordinal_position)
    FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
    WHERE table_schema = 'public' AND table_type = 'BASE TABLE' GROUP BY table_name";

impl Contents {
    /// Reads all tables.
    pub(super) async fn read(database: &PgPool) -> Contents {
        let tables: Vec<(String, String)> = sqlx::query_as(TABLES).fetch_all(database).await.unwrap();
        let mut contents = BTreeMap::new();
        for (name, columns) in tables {
            let rows = rows(database, &name, &columns).await;
            contents.insert(name, Table { columns, rows });
        }
        Contents(contents)
    }

    /// Checks that all tables except `changed` still have the same rows. Columns that were added since do not count.
    ///
    /// # Panics
    /// Rows differ, or a table or column is missing.
    pub(super) async fn assert_kept(&self, database: &PgPool, changed: &[&str]) {
        let mut differing = Vec::new();
        for (name, table) in self.0.iter().filter(|(name, _)| !changed.contains(&name.as_str())) {
            let now = rows(database, name, &table.columns).await;
            if now != table.rows {
                differing.push(format!("{name}: {:?} before, {now:?} now", table.rows));
            }
        }
        assert!(differing.is_empty(), "rows and the sum of their hashes differ: {}", differing.join("; "));
    }
}

async fn rows(database: &PgPool, table: &str, columns: &str) -> Rows {
    let query = format!(
        "SELECT count(*), coalesce(sum(hashtextextended(row({columns})::text, 0)), 0)::text FROM {table}"
    );
    sqlx::query_as(AssertSqlSafe(query)).fetch_one(database).await.unwrap()
}
