use domain::{AppId, Channel, Timestamp};

use crate::sends::status::parse;
use crate::{Deliveries, Error};

/// A suppressed target of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuppressedTarget {
    pub channel: Channel,
    pub target: String,
    /// Code with which the provider reported the target as dead.
    pub code: String,
    pub at: Timestamp,
}

impl Deliveries<'_> {
    /// Returns the suppressed ones of the targets.
    pub async fn suppressions_of(
        self,
        app: AppId,
        targets: &[(Channel, String)],
    ) -> Result<Vec<SuppressedTarget>, Error> {
        let channels: Vec<String> = targets.iter().map(|(channel, _)| channel.to_string()).collect();
        let targets: Vec<String> = targets.iter().map(|(_, target)| target.clone()).collect();
        let rows = sqlx::query!(
            r#"SELECT wanted.channel AS "channel!", wanted.target AS "target!", s.code, s.created_at
             FROM unnest($2::text[], $3::text[]) AS wanted (channel, target)
             JOIN suppression s ON (s.app_id, s.channel, s.target) = ($1, wanted.channel, wanted.target)"#,
            app.0,
            &channels,
            &targets
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                let channel = parse(&row.channel)?;
                Ok(SuppressedTarget {
                    channel,
                    target: row.target,
                    code: row.code,
                    at: row.created_at.into(),
                })
            })
            .collect()
    }
}
