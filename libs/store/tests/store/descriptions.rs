//! The descriptions in `libs/store/.sqlx`, with which the compiler checks SQL statements without a database.

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqlSafeStr};
use testkit::Database;

use crate::source;

const REMEDY: &str = "run `cargo xtask sql` and commit the files that it writes";

/// Returns the name and the content of every description.
fn descriptions() -> Vec<(String, Value)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(".sqlx");
    let read: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            (path.file_name().unwrap().display().to_string(), serde_json::from_str(&text).unwrap())
        })
        .collect();
    assert!(read.len() > 300, "only {} descriptions are found", read.len());
    read
}

/// Returns the statement that the description is about.
fn statement(description: &Value) -> &str {
    description["query"].as_str().unwrap()
}

/// Removes what the compiler ignores: whether a column may be NULL if its name states this with `!` or `?`. For an outer join, this
/// follows from PostgreSQL's execution plan, which differs from one database to another.
fn read_by_the_compiler(mut description: Value) -> Value {
    let columns = description["columns"].as_array().unwrap();
    let stated: Vec<_> =
        columns.iter().map(|column| column["name"].as_str().unwrap().ends_with(['!', '?'])).collect();
    for (at, _) in stated.iter().enumerate().filter(|(_, stated)| **stated) {
        description["nullable"][at] = Value::Null;
    }
    description
}

/// A migration can change the types of a statement whose text stays the same. The compiler notices only a statement without a
/// description.
#[tokio::test(flavor = "multi_thread")]
async fn descriptions_agree_with_the_schema() {
    let database = Database::with_schema().await;
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let mut stale = Vec::new();
    for (file, description) in descriptions() {
        let sql = AssertSqlSafe(statement(&description)).into_sql_str();
        match connection.describe(sql).await {
            Ok(current) => {
                let current = read_by_the_compiler(serde_json::to_value(&current).unwrap());
                if current != read_by_the_compiler(description["describe"].clone()) {
                    stale.push(format!("{file}: {current:#}"));
                }
            }
            Err(error) => stale.push(format!("{file}: {error}")),
        }
    }
    assert!(stale.is_empty(), "{} descriptions are stale; {REMEDY}\n{}", stale.len(), stale.join("\n"));
}

/// Finds descriptions of statements that no longer exist, and ensures that the test of the execution plans reads all others.
#[test]
fn every_description_is_of_a_statement_in_the_source() {
    let read: HashSet<_> = source::statements().into_iter().map(|statement| statement.sql).collect();
    let superfluous: Vec<_> = descriptions()
        .into_iter()
        .filter(|(_, description)| !read.contains(statement(description)))
        .map(|(file, _)| file)
        .collect();
    assert!(
        superfluous.is_empty(),
        "no statement in the source has these descriptions; {REMEDY}: {superfluous:#?}"
    );
}
