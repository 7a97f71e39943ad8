//! Erasing users: what is written at once, and what readers and replays drop from then on.

use domain::{AppId, UserNumber};

use crate::{Error, Store};

impl Store {
    /// Every user that was ever erased: what a replay of the inbox leaves out.
    ///
    /// # Errors
    /// The database failed.
    pub async fn erased_users(&self) -> Result<Vec<(AppId, UserNumber)>, Error> {
        let rows: Vec<(i64, i64)> =
            sqlx::query_as("SELECT app_id, user_number FROM erased").fetch_all(&self.pool).await?;
        Ok(rows.into_iter().map(|(app, user)| (AppId(app), UserNumber(user))).collect())
    }
}
