//! Restoring the sequences, so that numbers assigned after the backup are not assigned again.

use crate::Error;
use crate::recovery::restore::Restore;

/// The highest numbers found in the log; 0 if the log contains none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    pub app: i64,
    pub user: i64,
    pub category: i64,
    pub template: i64,
}

impl Restore {
    /// Raises each sequence to at least its number in `numbers`, so that new rows get higher numbers.
    ///
    /// # Errors
    /// The database failed; sequences raised so far stay raised.
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
