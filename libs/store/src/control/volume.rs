//! Bytes that an app adds to the log and to this database within a day. Gateways count them, and add their counts here.

use std::num::NonZeroU32;

use domain::AppId;
use domain::app_setting::DEFAULT_MEGABYTES;

use crate::database::columns::columns;
use crate::{Control, Error};

/// Includes the current hour.
pub const HOURS: i64 = 24;

/// A quota of bytes that an app may add within [`HOURS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeQuota {
    /// Bytes in the log, without files.
    Sends,
    /// Bytes in this database.
    Files,
}

impl VolumeQuota {
    pub const ALL: [VolumeQuota; 2] = [VolumeQuota::Sends, VolumeQuota::Files];

    /// Limit in bytes; None means the default.
    #[must_use]
    pub fn limit(megabytes: Option<NonZeroU32>) -> u64 {
        u64::from(megabytes.map_or(DEFAULT_MEGABYTES, NonZeroU32::get)) * 1_000_000
    }

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            VolumeQuota::Sends => "sends",
            VolumeQuota::Files => "files",
        }
    }

    #[must_use]
    pub const fn switch(self) -> &'static str {
        match self {
            VolumeQuota::Sends => "max-send-megabytes",
            VolumeQuota::Files => "max-file-megabytes",
        }
    }
}

/// Bytes by quota: sends and files. A correction is negative.
pub type Bytes = [i64; VolumeQuota::ALL.len()];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HourVolume {
    pub app: AppId,
    /// Hours since 1970.
    pub hour: i64,
    pub bytes: Bytes,
}

impl Control<'_> {
    /// Returns the volumes of these apps in the [`HOURS`] up to this hour, and removes older ones.
    pub async fn add_volume(self, hour: i64, added: &[(AppId, Bytes)]) -> Result<Vec<HourVolume>, Error> {
        let mut sorted = added.to_vec();
        // Two gateways that add to the same rows lock them in the same order.
        sorted.sort_unstable_by_key(|(app, _)| app.0);
        columns! { (app, bytes) in &sorted =>
            apps = app.0,
            sends = bytes[0],
            files = bytes[1],
        }
        let oldest = hour - HOURS + 1;
        let mut transaction = self.0.begin().await?;
        sqlx::query!(
            "INSERT INTO app_bytes AS b (app_id, hour, sends, files)
             SELECT app_id, $2, sends, files FROM unnest($1::bigint[], $3::bigint[], $4::bigint[]) AS added (app_id, sends, files)
             WHERE EXISTS (SELECT FROM app WHERE id = app_id)
             ON CONFLICT (app_id, hour) DO UPDATE SET sends = b.sends + excluded.sends, files = b.files + excluded.files",
            &apps,
            hour,
            &sends,
            &files
        )
        .execute(&mut *transaction)
        .await?;
        sqlx::query!("DELETE FROM app_bytes WHERE app_id = ANY($1) AND hour < $2", &apps, oldest)
            .execute(&mut *transaction)
            .await?;
        let rows = sqlx::query!(
            "SELECT app_id, hour, sends, files FROM app_bytes WHERE app_id = ANY($1) AND hour >= $2",
            &apps,
            oldest
        )
        .fetch_all(&mut *transaction)
        .await?;
        transaction.commit().await?;
        let volumes = rows.into_iter().map(|row| HourVolume {
            app: AppId(row.app_id),
            hour: row.hour,
            bytes: [row.sends, row.files],
        });
        Ok(volumes.collect())
    }
}
