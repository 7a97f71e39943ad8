use std::collections::BTreeSet;
use std::time::Duration;

use domain::send::CHUNK_RECIPIENTS;
use domain::{AppId, Channel, Expansion, Timestamp, UserNumber};
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::database::columns::{columns, integer};
use crate::database::instant::instant;
use crate::directory::topic::subscription;
use crate::sends::chunk::Chunk;
use crate::sends::planned_chunk::PlannedChunk;
use crate::{Error, Sends};

/// A send goes to everyone who subscribed before it was accepted, and to those who subscribed within this time afterwards. The clocks of
/// two gateways may differ by this much, and no subscriber may be left out because of that.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    pub user: UserNumber,
    pub identifier: String,
    /// Index of the first of the topics to which the user subscribes.
    pub topic: usize,
    /// The channels that at least one of the user's subscriptions to the topics allows; None if all are allowed.
    pub channels: Option<Vec<Channel>>,
}

/// Subscribers of several topics, in the order of their user numbers. Each is in the list once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribers {
    pub found: Vec<Subscriber>,
    /// All subscribers up to this number were looked at. None if no further one exists.
    pub up_to: Option<UserNumber>,
}

impl Sends<'_> {
    /// Lists users who subscribed before the send was accepted, from the first number after `after`. Looks at up to 500 subscriptions of
    /// each topic, so the list may be empty although further subscribers exist. Ignores topics that do not exist.
    pub async fn subscribers(
        self,
        app: AppId,
        topics: &[String],
        accepted_at: Timestamp,
        after: UserNumber,
    ) -> Result<Subscribers, Error> {
        let most = i64::try_from(CHUNK_RECIPIENTS).unwrap_or(i64::MAX);
        let rows = sqlx::query!(
            r#"WITH next AS (
                 SELECT named.place, s.user_number, s.subscribed_at, s.channels,
                   count(*) OVER (PARTITION BY named.place) AS looked_at,
                   max(s.user_number) OVER (PARTITION BY named.place) AS last
                 FROM unnest($2::text[]) WITH ORDINALITY AS named (identifier, place)
                 JOIN topic t ON t.app_id = $1 AND t.identifier = named.identifier
                 CROSS JOIN LATERAL (
                   SELECT s.user_number, s.subscribed_at, s.channels FROM topic_subscription s
                   WHERE s.app_id = $1 AND s.topic_id = t.id AND s.user_number > $3 ORDER BY s.user_number LIMIT $5
                 ) AS s
               ), ended AS (
                 SELECT min(last) FILTER (WHERE looked_at = $5) AS up_to FROM next
               ), eligible AS (
                 SELECT user_number, min(place) AS place, CASE WHEN bool_and(channels IS NOT NULL)
                   THEN string_to_array(string_agg(array_to_string(channels, ','), ','), ',') END AS channels FROM next, ended
                 WHERE subscribed_at <= $4 AND user_number <= coalesce(up_to, user_number)
                 GROUP BY user_number ORDER BY user_number LIMIT $5
               )
               SELECT ended.up_to, u.number AS "number?", u.identifier AS "identifier?", eligible.place, eligible.channels
               FROM ended LEFT JOIN (
                 eligible JOIN app_user u ON u.app_id = $1 AND u.number = eligible.user_number
               ) ON true ORDER BY u.number"#,
            app.0,
            topics,
            after.0,
            instant(accepted_at + CLOCK_DIFFERENCE),
            most
        )
        .fetch_all(&self.0.pool)
        .await?;
        let ended = rows.first().and_then(|row| row.up_to).map(UserNumber);
        let found: Vec<_> = rows
            .into_iter()
            .filter_map(|row| {
                let topic = usize::try_from(row.place? - 1).unwrap_or_default();
                let channels = row.channels.as_deref().map(subscription::parse);
                Some(Subscriber {
                    user: UserNumber(row.number?),
                    identifier: row.identifier?,
                    topic,
                    channels,
                })
            })
            .collect();
        let is_full = found.len() >= CHUNK_RECIPIENTS;
        let up_to = found.last().filter(|_| is_full).map(|last| last.user).or(ended);
        Ok(Subscribers { found, up_to })
    }
}

/// Leaves out the recipients, which have rows of their own, and their channels, which are in the decisions.
pub(crate) fn stored(chunk: &Chunk) -> Option<Json<Expansion>> {
    let expansion = chunk.expansion.as_deref()?;
    let Expansion { up_to, ref by_topic, is_last, .. } = *expansion;
    let (recipients, channels) = (Vec::new(), Vec::new());
    Some(Json(Expansion { recipients, up_to, by_topic: by_topic.clone(), is_last, channels }))
}

/// Each topic has the number of its planned subscribers, which is still 0. None if the send has no topics.
pub(crate) fn topics_without_recipients(send: &domain::SendRequest) -> Option<Json<Vec<(&str, u32)>>> {
    send.has_topics().then(|| Json(send.topics.iter().map(|topic| (topic.as_str(), 0)).collect()))
}

pub(crate) async fn add_to_requests<'t>(
    connection: &mut PgConnection,
    chunks: impl Iterator<Item = &'t Chunk>,
) -> Result<(), Error> {
    let expanded: Vec<_> = chunks.filter_map(|chunk| Some((chunk, chunk.expansion.as_deref()?))).collect();
    if expanded.is_empty() {
        return Ok(());
    }
    let by_topic = expanded.iter().flat_map(|(chunk, expansion)| {
        (1_i64..).zip(&expansion.by_topic).map(move |(place, number)| (chunk, place, *number))
    });
    let by_topic: Vec<_> = by_topic.collect();
    columns! { (chunk, expansion) in expanded =>
        app_id = chunk.app.0,
        send_id = chunk.send_id.0,
        recipients = integer(expansion.recipients.len()),
        is_last = expansion.is_last,
    }
    columns! { (chunk, place, number) in by_topic =>
        counted_app = chunk.app.0,
        counted_send = chunk.send_id.0,
        places = *place,
        numbers = i64::from(*number),
    }
    sqlx::query!(
        "WITH new AS (
           SELECT app_id, send_id, sum(recipients) AS recipients, bool_or(is_last) AS is_last
           FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::bool[]) AS new (app_id, send_id, recipients, is_last)
           GROUP BY app_id, send_id
         ), counted AS (
           SELECT app_id, send_id, place, sum(number) AS number
           FROM unnest($5::bigint[], $6::uuid[], $7::bigint[], $8::bigint[]) AS new (app_id, send_id, place, number)
           GROUP BY app_id, send_id, place
         )
         UPDATE request r SET recipients = r.recipients + new.recipients::int,
           expanding = r.expanding AND NOT new.is_last,
           topics = (
             SELECT jsonb_agg(jsonb_build_array(topic -> 0, (topic ->> 1)::bigint + coalesce(counted.number, 0)) ORDER BY place)
             FROM jsonb_array_elements(r.topics) WITH ORDINALITY AS known (topic, place)
             LEFT JOIN (
               SELECT place, number FROM counted WHERE (counted.app_id, counted.send_id) = (r.app_id, r.send_id)
             ) AS counted USING (place)
           )
         FROM new WHERE (r.app_id, r.send_id) = (new.app_id, new.send_id)",
        &app_id,
        &send_id,
        &recipients,
        &is_last,
        &counted_app,
        &counted_send,
        &places,
        &numbers
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Locks the requests to which [`add_to_requests`] will add subscribers. The transaction locks them again in share mode afterwards, which
/// must not be its first lock of them: two transactions would then wait for each other.
pub(crate) async fn lock_requests(
    connection: &mut PgConnection,
    chunks: &[PlannedChunk],
) -> Result<(), Error> {
    let expanded = chunks.iter().filter(|planned| planned.is_new && planned.chunk.expansion.is_some());
    let requests: BTreeSet<_> =
        expanded.map(|planned| (planned.chunk.app.0, planned.chunk.send_id.0)).collect();
    if requests.is_empty() {
        return Ok(());
    }
    let (app_id, send_id): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
    sqlx::query!(
        "SELECT FROM request r JOIN unnest($1::bigint[], $2::uuid[]) AS named (app_id, send_id) USING (app_id, send_id)
         ORDER BY r.app_id, r.send_id FOR NO KEY UPDATE OF r",
        &app_id,
        &send_id
    )
    .execute(connection)
    .await?;
    Ok(())
}
