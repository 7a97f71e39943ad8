//! Rows for every table. They are derived from the columns of the table, so new tables are filled automatically.

use sqlx::{AssertSqlSafe, PgConnection, Row};

/// Nullable columns that are left NULL, as they are in rows that still have to be processed.
const EMPTY: [&str; 12] = [
    "token",
    "settled_at",
    "lease_until",
    "deleted_at",
    "cancelled_at",
    "done_at",
    "disabled_at",
    "body",
    "expires_at",
    "expired_at",
    "clicked_at",
    "seen_at",
];

/// Adds `rows` rows of app 1 to a table. In row n, each id and number is n, and times grow with n. 10 consecutive rows share
/// a user.
pub(super) async fn fill(connection: &mut PgConnection, table: &str, rows: i64) {
    let columns = sqlx::query(
        "SELECT column_name::text AS name, udt_name::text AS type, is_nullable = 'YES' AS nullable,
           column_default IS NOT NULL AS has_default
         FROM information_schema.columns WHERE table_schema = 'public' AND table_name = $1 ORDER BY ordinal_position",
    )
    .bind(table)
    .fetch_all(&mut *connection)
    .await
    .unwrap();
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for column in columns {
        let (name, kind): (String, String) = (column.get("name"), column.get("type"));
        let (nullable, has_default): (bool, bool) = (column.get("nullable"), column.get("has_default"));
        if nullable && EMPTY.contains(&name.as_str())
            || has_default && name != "head" && ["text", "bool"].contains(&kind.as_str())
        {
            continue;
        }
        let value = match (name.as_str(), kind.as_str()) {
            ("head", _) => "true",
            ("app_id", _) => "1",
            ("endpoint_id", _) => "1 + n % 20",
            ("user_number", _) if ["erased", "inbox_counter"].contains(&table) => "n",
            ("user_number", _) => "1 + n / 10",
            ("send_id", _) if !["cancellation_key", "request", "inbox_item"].contains(&table) => {
                "lpad(to_hex(n / 5), 32, '0')::uuid"
            }
            ("channel", _) => "'email'",
            ("topics", _) => "'[[\"news\", 0]]'",
            (_, "int8" | "int4") => "n",
            (_, "int2") => "1",
            (_, "uuid") => "lpad(to_hex(n), 32, '0')::uuid",
            (_, "text" | "varchar") => "n::text",
            (_, "bool") => "false",
            (_, "timestamptz") => "now() - interval '1 hour' + n * interval '1 millisecond'",
            (_, "json" | "jsonb") => "'{}'",
            (_, "bytea") => "sha256(n::text::bytea)",
            (_, "float8") => "1",
            (_, kind) if kind.starts_with('_') => "'{}'",
            (name, kind) => panic!("no value for {table}.{name} of type {kind}"),
        };
        names.push(name);
        values.push(value);
    }
    let statement = format!(
        "INSERT INTO {table} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM generate_series(1::bigint, {rows}) AS n",
        names.join(", "),
        values.join(", ")
    );
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await.unwrap();
}
