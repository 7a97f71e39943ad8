//! Creates the tables of a shadow with the definitions of the live tables, and drops them together with their schema.

use sqlx::{AssertSqlSafe, Executor, PgConnection};

use super::{Purpose, Shadow};
use crate::Error;

/// The tables that the projection writes.
const TABLES: [&str; 5] = ["inbox_item", "inbox_counter", "checkpoint", "dead_event", "message_failure"];

/// Query that generates the statements that create a shadow's tables. The tables `$3` in schema `$1` get the same
/// definitions as in schema `$2`: columns, checks, keys, indexes with the same names, storage, owner and grants on tables.
/// Roles with privileges on a table also get `USAGE` on the schema, so that erasures can delete rows there. A statement
/// `CREATE TABLE … LIKE` alone would omit the grants and give the indexes other names, but migrations find indexes by name.
const DEFINITION: &str = "
    WITH original AS (
      SELECT c.oid, c.relname AS name, c.reloptions, c.relowner, c.relacl
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $2 AND c.relkind = 'r' AND c.relname = ANY($3)
    )
    SELECT 1 AS step, format('CREATE %s TABLE %I.%I (LIKE %I.%I INCLUDING ALL EXCLUDING INDEXES)', $4, $1, name, $2, name)
    FROM original
    UNION ALL
    SELECT 2, format('ALTER TABLE %I.%I SET (%s)', $1, name, array_to_string(reloptions, ', '))
    FROM original WHERE reloptions IS NOT NULL
    UNION ALL
    SELECT 3, format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', $1, name, k.conname, pg_get_constraintdef(k.oid))
    FROM original o JOIN pg_constraint k ON k.conrelid = o.oid AND k.contype IN ('p', 'u')
    UNION ALL
    SELECT 4, replace(pg_get_indexdef(i.indexrelid), format(' ON %I.%I ', $2, name), format(' ON %I.%I ', $1, name))
    FROM original o JOIN pg_index i ON i.indrelid = o.oid
    WHERE NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid)
    UNION ALL
    SELECT 5, format('GRANT %s ON %I.%I TO %s%s', granted.privilege_type, $1, name,
      CASE granted.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(granted.grantee)) END,
      CASE WHEN granted.is_grantable THEN ' WITH GRANT OPTION' END)
    FROM original o, aclexplode(o.relacl) AS granted WHERE granted.grantee <> o.relowner
    UNION ALL
    SELECT 6, format('GRANT USAGE ON SCHEMA %I TO %s', $1,
      CASE granted.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(granted.grantee)) END)
    FROM original o, LATERAL (SELECT grantee FROM aclexplode(o.relacl) UNION SELECT o.relowner) AS granted
    UNION ALL
    SELECT 7, format('ALTER TABLE %I.%I OWNER TO %I', $1, name, pg_get_userbyid(relowner))
    FROM original WHERE relowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
    ORDER BY step";

impl Shadow {
    /// Creates empty tables. First drops the tables of an interrupted shadow with the same purpose, if they exist.
    ///
    /// # Errors
    /// Returns an error if the database fails, or if the role may not create a schema.
    pub async fn create(&self) -> Result<(), Error> {
        let mut transaction = self.store.begin().await?;
        drop_schema(&mut transaction, self.purpose).await?;
        transaction.execute(create_schema(self.purpose)).await?;
        let kind = match self.purpose {
            Purpose::Comparison => "UNLOGGED",
            Purpose::Replacement => "",
        };
        let statements: Vec<(i32, String)> = sqlx::query_as(DEFINITION)
            .bind(self.purpose.schema())
            .bind(&self.home)
            .bind(TABLES)
            .bind(kind)
            .fetch_all(&mut *transaction)
            .await?;
        for (_, statement) in statements {
            // Safe: all names in the statement are from PostgreSQL's catalog, and PostgreSQL has quoted them.
            transaction.execute(AssertSqlSafe(statement)).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Drops the shadow's tables.
    ///
    /// # Errors
    /// Returns an error if the database fails. The tables then remain until the next shadow with the same purpose is created.
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
