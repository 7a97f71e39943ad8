//! Outcomes of the latest sends of an app.

use std::collections::{BTreeMap, HashMap};

use domain::{AppId, Channel, SendId, Status, Timestamp};
use uuid::Uuid;

use super::status::parse;
use crate::database::instant::instant;
use crate::{Error, Sends};

/// Outcome of a send, counted up to a maximum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendOutcome {
    /// Number of recipients whose plan includes the inbox.
    pub inbox: i64,
    pub planned: i64,
    pub counts: BTreeMap<Channel, BTreeMap<Status, i64>>,
}

impl Sends<'_> {
    /// Counts the outcome of each of the sends, up to `most` deliveries and `most` recipients of each.
    pub async fn send_outcomes(
        self,
        app: AppId,
        sends: &[SendId],
        most: i64,
    ) -> Result<HashMap<SendId, SendOutcome>, Error> {
        let ids: Vec<Uuid> = sends.iter().map(|send| send.0).collect();
        let mut outcomes: HashMap<SendId, SendOutcome> = HashMap::new();
        let rows = sqlx::query!(
            r#"SELECT s.send_id AS "send_id!", d.channel, d.status, count(*) AS "count!"
             FROM unnest($2::uuid[]) AS s (send_id) CROSS JOIN LATERAL (
                 SELECT channel, status FROM delivery WHERE app_id = $1 AND send_id = s.send_id LIMIT $3
             ) AS d GROUP BY 1, 2, 3"#,
            app.0,
            &ids,
            most
        )
        .fetch_all(&self.0.pool)
        .await?;
        for row in rows {
            let counts = &mut outcomes.entry(SendId(row.send_id)).or_default().counts;
            counts.entry(parse(&row.channel)?).or_default().insert(parse(&row.status)?, row.count);
        }
        let rows = sqlx::query!(
            r#"SELECT s.send_id AS "send_id!", count(*) AS "planned!", count(*) FILTER (WHERE p.in_app) AS "inbox!"
             FROM unnest($2::uuid[]) AS s (send_id) CROSS JOIN LATERAL (
                 SELECT in_app FROM planned_recipient WHERE app_id = $1 AND send_id = s.send_id LIMIT $3
             ) AS p GROUP BY 1"#,
            app.0,
            &ids,
            most
        )
        .fetch_all(&self.0.pool)
        .await?;
        for row in rows {
            let outcome = outcomes.entry(SendId(row.send_id)).or_default();
            (outcome.planned, outcome.inbox) = (row.planned, row.inbox);
        }
        Ok(outcomes)
    }

    /// Returns the times at which the latest `limit` sends since a time were accepted, latest first.
    pub async fn recent_acceptances(
        self,
        app: AppId,
        since: Timestamp,
        limit: i64,
    ) -> Result<Vec<Timestamp>, Error> {
        let times = sqlx::query_scalar!(
            "SELECT accepted_at FROM request WHERE app_id = $1 AND send_id >= send_id_at($2) ORDER BY send_id DESC LIMIT $3",
            app.0,
            instant(since),
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(times.into_iter().map(Timestamp::from).collect())
    }
}
