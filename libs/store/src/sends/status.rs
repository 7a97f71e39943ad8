use std::collections::BTreeMap;

use domain::{AppId, Channel, Reason, SendId, Status, Timestamp};
use sqlx::types::Json;

use crate::database::columns::integer;
use crate::deliveries::parked::ParkedSend;
use crate::{Error, Sends, sends::send};

/// Unknown recipients of a send that its status names.
const MOST_NAMED: i64 = 50;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSummary {
    pub accepted_at: Timestamp,
    /// None if the send is not scheduled.
    pub send_at: Option<Timestamp>,
    pub recipients: i32,
    /// Topics, each with the number of its subscribers that have been planned.
    pub topics: Vec<(String, u32)>,
    /// True if further subscribers may follow, so that `recipients` grows.
    pub expanding: bool,
    /// Number of recipients that have been planned.
    pub planned: i64,
    pub cancelled: bool,
    /// True if a message of the request is parked.
    pub parked: bool,
    /// Number of (recipient, channel) pairs.
    pub counts: BTreeMap<Channel, BTreeMap<Status, i64>>,
    /// Variables of the template that were missing, each with the number of recipients without it.
    pub missing: Vec<(String, i64)>,
    pub unknown: UnknownRecipients,
    /// Groups of the deliveries that wait.
    pub waiting: Vec<WaitingGroup>,
}

/// Recipients that were no users of the app when they were planned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownRecipients {
    /// Identifiers of the first [`MOST_NAMED`] of them.
    pub named: Vec<String>,
    pub count: i64,
}

/// Deliveries that wait for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingGroup {
    pub channel: Channel,
    pub reason: Reason,
    /// Provider that is to be called; None if it is not chosen yet.
    pub provider: Option<String>,
    /// Code of the answer for which the deliveries wait.
    pub code: Option<String>,
    pub deliveries: i64,
    pub next_attempt_at: Timestamp,
}

impl From<ParkedSend> for RequestSummary {
    fn from(parked: ParkedSend) -> RequestSummary {
        RequestSummary {
            accepted_at: parked.accepted_at,
            send_at: parked.send_at,
            recipients: integer(parked.recipients),
            topics: parked.topics.into_iter().map(|topic| (topic, 0)).collect(),
            expanding: false,
            planned: 0,
            cancelled: false,
            parked: true,
            counts: BTreeMap::new(),
            missing: Vec::new(),
            unknown: UnknownRecipients::default(),
            waiting: Vec::new(),
        }
    }
}

impl Sends<'_> {
    /// A request becomes known when its first chunk is planned or its send is scheduled or parked.
    pub async fn find_request(self, app: AppId, send: SendId) -> Result<Option<RequestSummary>, Error> {
        let row = sqlx::query!(
            r#"SELECT accepted_at, send_at, recipients, topics AS "topics: Json<Vec<(String, u32)>>", expanding,
                    cancelled_at IS NOT NULL AS "cancelled!",
                    (SELECT count(*) FROM planned_recipient WHERE app_id = $1 AND send_id = $2) AS "planned!",
                    EXISTS (SELECT FROM parked WHERE app_id = $1 AND send_id = $2 AND stream = ANY($3)) AS "parked!"
             FROM request WHERE app_id = $1 AND send_id = $2"#,
            app.0,
            send.0,
            &send::streams()
        )
        .fetch_optional(&self.0.pool)
        .await?;
        let Some(row) = row else {
            return Ok(self.0.deliveries().find_parked_send(app, send).await?.map(RequestSummary::from));
        };
        let mut counts = self.count_deliveries(app, send).await?;
        let is_open = |statuses: &BTreeMap<Status, i64>| {
            Status::WAITING.iter().any(|status| statuses.contains_key(status))
        };
        let waiting = if counts.values().any(is_open) {
            self.count_waiting(app, send, &mut counts).await?
        } else {
            Vec::new()
        };
        let has_skips = counts.values().any(|statuses| statuses.contains_key(&Status::Skipped));
        let unknown = if has_skips { self.unknown_recipients(app, send).await? } else { Default::default() };
        Ok(Some(RequestSummary {
            accepted_at: row.accepted_at.into(),
            send_at: row.send_at.map(Into::into),
            recipients: row.recipients,
            topics: row.topics.map(|Json(topics)| topics).unwrap_or_default(),
            expanding: row.expanding,
            planned: row.planned,
            cancelled: row.cancelled,
            parked: row.parked,
            counts,
            waiting,
            missing: self.missing_variables(app, send).await?,
            unknown,
        }))
    }

    async fn missing_variables(self, app: AppId, send: SendId) -> Result<Vec<(String, i64)>, Error> {
        let rows = sqlx::query!(
            r#"SELECT split_part(detail, ':', 2) AS "variable!", count(*) AS "recipients!"
               FROM planned_recipient CROSS JOIN unnest(details) AS detail
               WHERE app_id = $1 AND send_id = $2 AND detail LIKE 'missing:%' GROUP BY 1 ORDER BY 1"#,
            app.0,
            send.0
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows.into_iter().map(|row| (row.variable, row.recipients)).collect())
    }

    async fn unknown_recipients(self, app: AppId, send: SendId) -> Result<UnknownRecipients, Error> {
        // The identifier of an erased user is empty.
        let rows = sqlx::query!(
            r#"SELECT identifier, count(*) OVER () AS "count!" FROM planned_recipient
               WHERE app_id = $1 AND send_id = $2 AND user_number IS NULL AND identifier <> ''
               ORDER BY recipient_index LIMIT $3"#,
            app.0,
            send.0,
            MOST_NAMED
        )
        .fetch_all(&self.0.pool)
        .await?;
        let count = rows.first().map_or(0, |row| row.count);
        Ok(UnknownRecipients { named: rows.into_iter().map(|row| row.identifier).collect(), count })
    }

    async fn count_deliveries(
        self,
        app: AppId,
        send: SendId,
    ) -> Result<BTreeMap<Channel, BTreeMap<Status, i64>>, Error> {
        // An item that the retention may have removed counts as delivered.
        // The statement scans the rows of one send three times, without joins. The query plan is then good even if
        // PostgreSQL's statistics do not contain a new send yet.
        let rows = sqlx::query!(
            r#"SELECT 'inApp' AS "channel!", status AS "status!", pairs AS "pairs!" FROM (
               SELECT (SELECT count(*) FROM planned_recipient WHERE app_id = $1 AND send_id = $2 AND in_app) AS planned,
                      (SELECT count(*) FROM inbox_item WHERE app_id = $1 AND send_id = $2) AS shown,
                      EXISTS (SELECT FROM request, installation WHERE app_id = $1 AND send_id = $2
                        AND coalesce(send_at, accepted_at) < inbox_removed_before) AS removed
             ) AS inbox CROSS JOIN LATERAL (VALUES
               ('delivered', CASE WHEN removed THEN greatest(planned, shown) ELSE shown END),
               ('queued', CASE WHEN removed THEN 0 ELSE planned - shown END)
             ) AS v (status, pairs)
             WHERE pairs > 0
             UNION ALL
             SELECT split_part(skip, ':', 1), coalesce($3::jsonb ->> split_part(skip, ':', 2), 'skipped'),
                    count(*)
             FROM planned_recipient CROSS JOIN unnest(skips) AS skip WHERE app_id = $1 AND send_id = $2 GROUP BY 1, 2
             UNION ALL
             SELECT channel, status, count(*) FROM delivery WHERE app_id = $1 AND send_id = $2 GROUP BY channel, status"#,
            app.0,
            send.0,
            planned_statuses() as _
        )
        .fetch_all(&self.0.pool)
        .await?;
        let mut counts: BTreeMap<Channel, BTreeMap<Status, i64>> = BTreeMap::new();
        for row in rows {
            *counts.entry(parse(&row.channel)?).or_default().entry(parse(&row.status)?).or_default() +=
                row.pairs;
        }
        Ok(counts)
    }

    /// Moves the deliveries that wait from the statuses of their rows to [`Status::Waiting`].
    async fn count_waiting(
        self,
        app: AppId,
        send: SendId,
        counts: &mut BTreeMap<Channel, BTreeMap<Status, i64>>,
    ) -> Result<Vec<WaitingGroup>, Error> {
        let rows = sqlx::query!(
            r#"SELECT d.channel, d.status, t.wait_reason AS "reason!", t.provider, t.code, count(*) AS "deliveries!",
                 min(t.due_at) AS "due_at!"
               FROM (SELECT DISTINCT ON (delivery_id) delivery_id, wait_reason, provider, code, due_at FROM timer
                     WHERE app_id = $1 AND send_id = $2 AND delivery_id IS NOT NULL ORDER BY delivery_id, due_at) AS t
               JOIN delivery d ON d.app_id = $1 AND d.id = t.delivery_id AND d.status = ANY($3)
               GROUP BY 1, 2, 3, 4, 5 ORDER BY 6 DESC"#,
            app.0,
            send.0,
            &Status::WAITING.map(Status::as_str) as &[&str]
        )
        .fetch_all(&self.0.pool)
        .await?;
        let mut groups = Vec::new();
        for row in rows {
            let (channel, stored): (Channel, Status) = (parse(&row.channel)?, parse(&row.status)?);
            let statuses = counts.entry(channel).or_default();
            if let Some(rest) = statuses.get_mut(&stored) {
                *rest -= row.deliveries;
            }
            statuses.retain(|_, count| *count > 0);
            *statuses.entry(Status::Waiting).or_default() += row.deliveries;
            groups.push(WaitingGroup {
                channel,
                reason: parse(&row.reason)?,
                provider: row.provider,
                code: row.code,
                deliveries: row.deliveries,
                next_attempt_at: row.due_at.into(),
            });
        }
        Ok(groups)
    }

    /// None in the same cases as [`Sends::find_request`].
    pub async fn find_acceptance(self, app: AppId, send: SendId) -> Result<Option<Timestamp>, Error> {
        let accepted_at = sqlx::query_scalar!(
            "SELECT accepted_at FROM request WHERE app_id = $1 AND send_id = $2",
            app.0,
            send.0
        )
        .fetch_optional(&self.0.pool)
        .await?;
        match accepted_at {
            Some(accepted_at) => Ok(Some(accepted_at.into())),
            None => {
                Ok(self.0.deliveries().find_parked_send(app, send).await?.map(|parked| parked.accepted_at))
            }
        }
    }
}

/// Statuses that planning sets for reasons, without those for which it sets `skipped`.
pub(super) fn planned_statuses() -> Json<BTreeMap<Reason, Status>> {
    let statuses = Reason::ALL.iter().map(|reason| (*reason, reason.planned_status()));
    Json(statuses.filter(|(_, status)| *status != Status::Skipped).collect())
}

pub(crate) fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, Error> {
    text.parse().map_err(|error| Error::Unreadable(format!("{error}")))
}
