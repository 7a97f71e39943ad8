//! Freezing turns: one transaction decides for good what a turn of a send does.

use std::collections::HashMap;

use domain::plan::{Decision, PlannedDelivery};
use domain::{AppId, Channel, DeliveryId, Reason, SendId, Status, UserNumber};
use sqlx::{Postgres, Row, Transaction};

use crate::facts::{self, Facts};
use crate::instant::instant;
use crate::send::{self, NewRequest};
use crate::turn::Turn;
use crate::{Error, Store};

/// A transaction in which turns are being planned. Dropped without [`Freeze::commit`], it leaves no trace.
#[derive(Debug)]
pub struct Freeze<'a> {
    transaction: Transaction<'static, Postgres>,
    turns: &'a [Turn],
    new: Vec<bool>,
}

/// What one recipient of a turn gets, with its position in the send.
pub type Decisions = Vec<(u32, Decision)>;

impl Store {
    /// Begins to freeze turns: writes their headers in key order. The header that is already there belongs to
    /// whoever wrote it, whose decisions then hold.
    ///
    /// # Errors
    /// The database failed.
    pub async fn freeze<'a>(&self, turns: &'a [Turn]) -> Result<Freeze<'a>, Error> {
        let mut transaction = self.pool.begin().await?;
        let rows = sqlx::query(
            "INSERT INTO plan (app_id, send_id, turn)
             SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::int[]) AS new (app_id, send_id, turn)
             ORDER BY app_id, send_id, turn
             ON CONFLICT DO NOTHING RETURNING app_id, send_id, turn",
        )
        .bind(turns.iter().map(|turn| turn.app.0).collect::<Vec<_>>())
        .bind(turns.iter().map(|turn| turn.send_id.0).collect::<Vec<_>>())
        .bind(turns.iter().map(|turn| number(turn.turn)).collect::<Vec<_>>())
        .fetch_all(&mut *transaction)
        .await?;
        let mut inserted = std::collections::HashSet::with_capacity(rows.len());
        for row in rows {
            inserted.insert((AppId(row.try_get(0)?), SendId(row.try_get(1)?), row.try_get::<i32, _>(2)?));
        }
        // Of two messages for the same turn in one batch, the first has the header.
        let new =
            turns.iter().map(|turn| inserted.remove(&(turn.app, turn.send_id, number(turn.turn)))).collect();
        Ok(Freeze { transaction, turns, new })
    }
}

impl Freeze<'_> {
    /// Whether this transaction wrote the header of the turn at `index`, and so decides it.
    #[must_use]
    pub fn is_new(&self, index: usize) -> bool {
        self.new.get(index).copied().unwrap_or(false)
    }

    /// Applies inline profiles and missing categories of the new turns that are not cancelled, then reads all that the
    /// decisions and the rendering of every turn rest on. Until the transaction ends, none of their requests can be
    /// cancelled.
    ///
    /// # Errors
    /// The database failed.
    pub async fn facts(&mut self) -> Result<Facts, Error> {
        facts::gather(&mut self.transaction, self.turns, &self.new).await
    }

    /// The decisions of a turn that was frozen before, without the deliveries that have gone on since.
    ///
    /// # Errors
    /// The database failed, or a row cannot be read.
    pub async fn stored(&mut self, index: usize) -> Result<Decisions, Error> {
        let Some(turn) = self.turns.get(index) else {
            return Ok(Vec::new());
        };
        let rows = sqlx::query(
            "SELECT recipient_index, identifier, user_number, in_app, skips FROM planned_recipient
             WHERE app_id = $1 AND send_id = $2 AND turn = $3 ORDER BY recipient_index",
        )
        .bind(turn.app.0)
        .bind(turn.send_id.0)
        .bind(number(turn.turn))
        .fetch_all(&mut *self.transaction)
        .await?;
        let mut waiting = self.waiting_deliveries(turn).await?;
        rows.iter()
            .map(|row| {
                let index: i32 = row.try_get("recipient_index")?;
                let skips: Vec<String> = row.try_get("skips")?;
                let decision = Decision {
                    identifier: row.try_get("identifier")?,
                    user: row.try_get::<Option<i64>, _>("user_number")?.map(UserNumber),
                    in_app: row.try_get("in_app")?,
                    deliveries: waiting.remove(&index).unwrap_or_default(),
                    skips: skips.iter().map(|skip| read_skip(skip)).collect::<Result<_, _>>()?,
                };
                Ok((u32::try_from(index).unwrap_or_default(), decision))
            })
            .collect()
    }

    async fn waiting_deliveries(&mut self, turn: &Turn) -> Result<HashMap<i32, Vec<PlannedDelivery>>, Error> {
        let rows = sqlx::query(
            "SELECT d.recipient_index, d.id, d.channel, d.target FROM delivery d
             JOIN planned_recipient r USING (app_id, send_id, recipient_index)
             WHERE app_id = $1 AND send_id = $2 AND r.turn = $3 AND d.status = $4 AND d.attempt = 1",
        )
        .bind(turn.app.0)
        .bind(turn.send_id.0)
        .bind(number(turn.turn))
        .bind(Status::Queued.as_str())
        .fetch_all(&mut *self.transaction)
        .await?;
        let mut deliveries: HashMap<i32, Vec<PlannedDelivery>> = HashMap::new();
        for row in rows {
            let channel: &str = row.try_get("channel")?;
            deliveries.entry(row.try_get("recipient_index")?).or_default().push(PlannedDelivery {
                id: DeliveryId(row.try_get("id")?),
                channel: channel.parse().map_err(unreadable)?,
                target: row.try_get("target")?,
            });
        }
        Ok(deliveries)
    }

    /// Writes the decisions of the new turns and commits. From here on they hold.
    ///
    /// # Errors
    /// The database failed; then nothing of any turn is written.
    pub async fn commit(mut self, facts: &Facts, decisions: &[Decisions]) -> Result<(), Error> {
        let new: Vec<(usize, &Turn, &Decisions)> = self
            .turns
            .iter()
            .zip(decisions)
            .enumerate()
            .filter(|(index, _)| self.is_new(*index))
            .map(|(index, (turn, decisions))| (index, turn, decisions))
            .collect();
        write_requests(&mut self.transaction, facts, &new).await?;
        write_recipients(&mut self.transaction, &new).await?;
        write_deliveries(&mut self.transaction, &new).await?;
        self.transaction.commit().await?;
        Ok(())
    }
}

async fn write_requests(
    transaction: &mut Transaction<'static, Postgres>,
    facts: &Facts,
    new: &[(usize, &Turn, &Decisions)],
) -> Result<(), Error> {
    let first: Vec<_> = new
        .iter()
        .filter(|(_, turn, _)| turn.turn == 0)
        .map(|(index, turn, _)| (index, *turn, facts.without_erased(turn)))
        .collect();
    let requests: Vec<_> = first
        .iter()
        .map(|(index, turn, without_erased)| (index, without_erased.as_ref().unwrap_or(turn)))
        .map(|(index, turn)| NewRequest {
            turn,
            category: facts.category(**index).map(|category| category.id),
            template: facts.template(**index).map(|template| (template.id, template.version)),
            body: turn.send.is_kept().then(|| &*turn.send),
        })
        .collect();
    send::write_requests(transaction, &requests).await
}

async fn write_recipients(
    transaction: &mut Transaction<'static, Postgres>,
    new: &[(usize, &Turn, &Decisions)],
) -> Result<(), Error> {
    let rows = || {
        new.iter().flat_map(|(_, turn, decisions)| {
            decisions.iter().map(move |(index, decision)| (turn, *index, decision))
        })
    };
    sqlx::query(
        "INSERT INTO planned_recipient (app_id, send_id, turn, recipient_index, identifier, user_number, in_app, skips)
         SELECT app_id, send_id, turn, recipient_index, identifier, user_number, in_app, string_to_array(skips, ',')
         FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::int[], $5::text[], $6::bigint[], $7::bool[], $8::text[])
           AS new (app_id, send_id, turn, recipient_index, identifier, user_number, in_app, skips)",
    )
    .bind(rows().map(|(turn, _, _)| turn.app.0).collect::<Vec<_>>())
    .bind(rows().map(|(turn, _, _)| turn.send_id.0).collect::<Vec<_>>())
    .bind(rows().map(|(turn, _, _)| number(turn.turn)).collect::<Vec<_>>())
    .bind(rows().map(|(_, index, _)| number(index)).collect::<Vec<_>>())
    .bind(rows().map(|(_, _, decision)| decision.identifier.as_str()).collect::<Vec<_>>())
    .bind(rows().map(|(_, _, decision)| decision.user.map(|user| user.0)).collect::<Vec<_>>())
    .bind(rows().map(|(_, _, decision)| decision.in_app).collect::<Vec<_>>())
    .bind(rows().map(|(_, _, decision)| skips_text(&decision.skips)).collect::<Vec<_>>())
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

async fn write_deliveries(
    transaction: &mut Transaction<'static, Postgres>,
    new: &[(usize, &Turn, &Decisions)],
) -> Result<(), Error> {
    let rows: Vec<_> = new
        .iter()
        .flat_map(|(_, turn, decisions)| {
            decisions.iter().flat_map(move |(index, decision)| {
                decision.deliveries.iter().map(move |delivery| (turn, *index, decision.user, delivery))
            })
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, expires_at)
         SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::int[], $5::bigint[], $6::text[], $7::text[],
           $8::timestamptz[])
         ON CONFLICT DO NOTHING",
    )
    .bind(rows.iter().map(|(turn, ..)| turn.app.0).collect::<Vec<_>>())
    .bind(rows.iter().map(|(.., delivery)| delivery.id.0).collect::<Vec<_>>())
    .bind(rows.iter().map(|(turn, ..)| turn.send_id.0).collect::<Vec<_>>())
    .bind(rows.iter().map(|(_, index, ..)| number(*index)).collect::<Vec<_>>())
    .bind(rows.iter().map(|(_, _, user, _)| user.map(|user| user.0)).collect::<Vec<_>>())
    .bind(rows.iter().map(|(.., delivery)| delivery.channel.as_str()).collect::<Vec<_>>())
    .bind(rows.iter().map(|(.., delivery)| delivery.target.as_str()).collect::<Vec<_>>())
    .bind(rows.iter().map(|(turn, ..)| turn.send.expires_at.map(instant)).collect::<Vec<_>>())
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

/// A (recipient, channel) whose template failed while its frozen turn was acted on.
#[derive(Clone, Copy, Debug)]
pub struct RenderFailure {
    /// The app.
    pub app: AppId,
    /// The send.
    pub send_id: SendId,
    /// The recipient's position in the send.
    pub recipient_index: u32,
    /// The channel.
    pub channel: Channel,
}

impl Store {
    /// Records that nothing could be rendered for these: the inbox does not get it, deliveries end as failed.
    ///
    /// # Errors
    /// The database failed.
    pub async fn record_render_failures(&self, failures: &[RenderFailure]) -> Result<(), Error> {
        if failures.is_empty() {
            return Ok(());
        }
        sqlx::query(
            "WITH failure AS (
               SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[])
                 AS failure (app_id, send_id, recipient_index, channel)
             ), inbox AS (
               UPDATE planned_recipient r SET in_app = false, skips = r.skips || (failure.channel || ':' || $5)
               FROM failure WHERE failure.channel = $6 AND r.in_app AND (r.app_id, r.send_id, r.recipient_index)
                 = (failure.app_id, failure.send_id, failure.recipient_index)
             )
             UPDATE delivery d SET status = $7, reason = $5, settled_at = now()
             FROM failure WHERE d.status = $8 AND (d.app_id, d.send_id, d.recipient_index, d.channel)
               = (failure.app_id, failure.send_id, failure.recipient_index, failure.channel)",
        )
        .bind(failures.iter().map(|failure| failure.app.0).collect::<Vec<_>>())
        .bind(failures.iter().map(|failure| failure.send_id.0).collect::<Vec<_>>())
        .bind(failures.iter().map(|failure| number(failure.recipient_index)).collect::<Vec<_>>())
        .bind(failures.iter().map(|failure| failure.channel.as_str()).collect::<Vec<_>>())
        .bind(Reason::TemplateError.as_str())
        .bind(Channel::InApp.as_str())
        .bind(Status::Failed.as_str())
        .bind(Status::Queued.as_str())
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}

fn skips_text(skips: &[(Channel, Reason)]) -> String {
    let texts: Vec<_> = skips.iter().map(|(channel, reason)| format!("{channel}:{reason}")).collect();
    texts.join(",")
}

/// Reads one `channel:reason` of `planned_recipient.skips`.
pub(crate) fn read_skip(text: &str) -> Result<(Channel, Reason), Error> {
    let (channel, reason) = text.split_once(':').ok_or_else(|| unreadable(format!("skip {text:?}")))?;
    Ok((channel.parse().map_err(unreadable)?, reason.parse().map_err(unreadable)?))
}

fn unreadable(cause: impl std::fmt::Display) -> Error {
    Error::Unreadable(cause.to_string())
}

fn number(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
