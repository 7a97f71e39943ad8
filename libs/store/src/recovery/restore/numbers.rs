//! Numbers that were handed out after the backup, which must not be handed out to somebody else.

use crate::Error;
use crate::recovery::restore::Restore;

/// The highest numbers that the log names; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Of apps.
    pub app: i64,
    /// Of users.
    pub user: i64,
    /// Of categories.
    pub category: i64,
    /// Of templates.
    pub template: i64,
}

impl Restore {
    /// Has numbers go on after these.
    ///
    /// # Errors
    /// The database failed; those that were raised stay so.
    pub async fn raise_numbers(&mut self, numbers: Numbers) -> Result<(), Error> {
        let Numbers { app, user, category, template } = numbers;
        let columns = [
            ("app", "id", app),
            ("app_user", "number", user),
            ("category", "id", category),
            ("template", "id", template),
        ];
        for (table, column, number) in columns {
            sqlx::query(
                "SELECT setval(sequence, $3)
                 FROM (SELECT pg_get_serial_sequence($1, $2)::regclass AS sequence) AS named
                 WHERE $3 > coalesce(pg_sequence_last_value(sequence), 0)",
            )
            .bind(table)
            .bind(column)
            .bind(number)
            .execute(&mut self.connection)
            .await?;
        }
        Ok(())
    }
}
