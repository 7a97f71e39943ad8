use sqlx::{AssertSqlSafe, Executor, PgConnection};

use super::{Purpose, Shadow};
use crate::Error;

const TABLES: [&str; 5] = ["inbox_item", "inbox_counter", "checkpoint", "dead_event", "message_failure"];

impl Shadow {
    /// First drops the tables of an interrupted shadow with the same purpose.
    ///
    /// # Errors
    /// Returns an error if the role may not create a schema.
    pub async fn create(&self) -> Result<(), Error> {
        let mut transaction = self.store.begin().await?;
        drop_schema(&mut transaction, self.purpose).await?;
        transaction.execute(create_schema(self.purpose)).await?;
        let kind = match self.purpose {
            Purpose::Comparison => "UNLOGGED",
            Purpose::Replacement => "",
        };
        let definitions = sqlx::query_file!(
            "src/recovery/shadow/definitions.sql",
            self.purpose.schema(),
            self.home,
            &TABLES as &[&str],
            kind
        )
        .fetch_all(&mut *transaction)
        .await?;
        for row in definitions {
            // Safe: all names in the statement are from PostgreSQL's catalog, and PostgreSQL has quoted them.
            transaction.execute(AssertSqlSafe(row.statement)).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// After an error, the tables remain until the next shadow with the same purpose is created.
    pub async fn discard(self) -> Result<(), Error> {
        self.store.close().await;
        drop_schema(&mut *self.live.acquire().await?, self.purpose).await
    }
}

fn create_schema(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Comparison => "CREATE SCHEMA inbox_verify",
        Purpose::Replacement => "CREATE SCHEMA inbox_rebuild",
    }
}

pub(super) async fn drop_schema(connection: &mut PgConnection, purpose: Purpose) -> Result<(), Error> {
    let statement = match purpose {
        Purpose::Comparison => "DROP SCHEMA IF EXISTS inbox_verify CASCADE",
        Purpose::Replacement => "DROP SCHEMA IF EXISTS inbox_rebuild CASCADE",
    };
    connection.execute(statement).await?;
    Ok(())
}
