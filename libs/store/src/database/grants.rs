use sqlx::AssertSqlSafe;

use crate::{Database, Error};

impl Database<'_> {
    /// Grants an existing role the privileges of services and routine commands, also for tables that the schema's owner creates later, such
    /// as the shadow tables of a rebuild. The role may not change rows of the audit log or write the table of migrations. Safe to repeat.
    ///
    /// # Errors
    /// Returns an error if the role does not exist, or if this connection's role does not own the schema.
    pub async fn grant_to_services(self, role: &str) -> Result<(), Error> {
        let mut transaction = self.0.begin().await?;
        let quoted = sqlx::query!(
            r#"SELECT quote_ident($1) AS "role!", quote_ident(current_schema()) AS "schema!""#,
            role
        )
        .fetch_one(&mut *transaction)
        .await?;
        for grant in grants(&quoted.role, &quoted.schema) {
            sqlx::query(AssertSqlSafe(grant)).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(())
    }
}

/// `role` and `schema` must already be quoted.
fn grants(role: &str, schema: &str) -> [String; 9] {
    [
        format!("GRANT USAGE ON SCHEMA {schema} TO {role}"),
        format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}"),
        format!("GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {role}"),
        format!("REVOKE UPDATE, DELETE ON audit FROM {role}"),
        format!("REVOKE INSERT, UPDATE, DELETE ON _sqlx_migrations FROM {role}"),
        format!("REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC"),
        format!("ALTER DEFAULT PRIVILEGES GRANT USAGE ON SCHEMAS TO {role}"),
        format!("ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {role}"),
        format!("ALTER DEFAULT PRIVILEGES GRANT USAGE, SELECT ON SEQUENCES TO {role}"),
    ]
}
