//! Items whose snooze has ended. Events in the log return them to the list.

use chrono::{DateTime, Utc};
use domain::{AppId, ItemId, Timestamp, UserNumber};

use crate::database::instant::instant;
use crate::inbox::projection::ItemKey;
use crate::{Error, Inbox};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueSnooze {
    pub key: ItemKey,
    pub until: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnoozePosition(Timestamp, AppId, ItemId);

impl SnoozePosition {
    pub const START: SnoozePosition = SnoozePosition(Timestamp::from_millis(0), AppId(0), ItemId(0));
}

impl DueSnooze {
    #[must_use]
    pub fn position(&self) -> SnoozePosition {
        SnoozePosition(self.until, self.key.0, self.key.2)
    }
}

impl Inbox<'_> {
    /// Earliest first.
    pub async fn due_snoozes(
        self,
        after: SnoozePosition,
        due: Timestamp,
        most: u32,
    ) -> Result<Vec<DueSnooze>, Error> {
        let rows = sqlx::query!(
            r#"SELECT app_id, user_number, id, snoozed_until AS "until!: DateTime<Utc>" FROM inbox_item
               WHERE (snoozed_until, app_id, id) > ($1, $2, $3) AND snoozed_until <= $4
               ORDER BY snoozed_until, app_id, id LIMIT $5"#,
            instant(after.0),
            after.1.0,
            after.2.0,
            instant(due),
            i64::from(most)
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| DueSnooze {
                key: (AppId(row.app_id), UserNumber(row.user_number), ItemId(row.id)),
                until: row.until.into(),
            })
            .collect())
    }
}
