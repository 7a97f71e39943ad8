//! Restoring the plans of chunks from the log, and the users and categories that they name.

use std::collections::{BTreeMap, HashMap, HashSet};

use domain::event::{SendPlanned, Shape};
use domain::send::{CHUNK_RECIPIENTS, Recipient};
use domain::{AppId, CategoryId, SendId, Timestamp, UserNumber};
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection, Row};

use crate::Error;
use crate::database::instant::instant;
use crate::directory::push_token::Naming;
use crate::directory::user::merge::{Updates, merge_users};
use crate::erasure::digest;
use crate::recovery::restore::{Restore, number};
use crate::sends::plan::skips_text;

/// A planned chunk found in the log.
#[derive(Clone, Debug)]
pub struct FoundPlan {
    pub app: AppId,
    pub send_id: SendId,
    /// Time of the event.
    pub at: Timestamp,
    pub planned: SendPlanned,
}

/// Number of objects restored from plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoredPlans {
    /// Number of restored chunks.
    pub chunks: u64,
    /// Number of created users.
    pub users: u64,
    /// Number of created categories.
    pub categories: u64,
}

/// A chunk whose plan can be restored, with the body of its send.
struct Known<'a> {
    found: &'a FoundPlan,
    send: domain::SendRequest,
}

/// A recipient of a restored chunk, with the decision in the plan.
struct Decided<'a> {
    chunk: &'a Known<'a>,
    index: u32,
    recipient: &'a Recipient,
    user: Option<UserNumber>,
    shape: &'a Shape,
}

impl Decided<'_> {
    fn app(&self) -> AppId {
        self.chunk.found.app
    }
}

impl Restore {
    /// Freezes chunks again with the decisions in the log. Skips a chunk if its send is unknown, the log does not contain
    /// its decisions, or one of its jobs is missing; a skipped chunk is planned again later.
    ///
    /// # Errors
    /// The database failed; no chunk is frozen.
    pub async fn add_plans(&mut self, plans: &[FoundPlan]) -> Result<RestoredPlans, Error> {
        let mut transaction = self.connection.begin().await?;
        let chunks = restorable(&mut transaction, plans).await?;
        let decided: Vec<Decided<'_>> = chunks.iter().flat_map(each).collect();
        let restored = RestoredPlans {
            chunks: chunks.len() as u64,
            users: write_users(&mut transaction, &decided).await?,
            categories: write_categories(&mut transaction, &chunks).await?,
        };
        merge_profiles(&mut transaction, &decided).await?;
        write_chunks(&mut transaction, &chunks).await?;
        write_recipients(&mut transaction, &decided).await?;
        transaction.commit().await?;
        Ok(restored)
    }
}

/// Returns the chunks that can be restored and are not frozen yet, without duplicates.
async fn restorable<'a>(
    connection: &mut PgConnection,
    plans: &'a [FoundPlan],
) -> Result<Vec<Known<'a>>, Error> {
    let rows = sqlx::query(
        "SELECT place, r.body, (
           SELECT count(*) FROM delivery d WHERE (d.app_id, d.send_id) = (named.app_id, named.send_id)
             AND d.recipient_index >= named.turn * $4 AND d.recipient_index < (named.turn + 1) * $4
         ) AS deliveries
         FROM unnest($1::bigint[], $2::uuid[], $3::int[]) WITH ORDINALITY AS named (app_id, send_id, turn, place)
         JOIN request r USING (app_id, send_id)
         WHERE r.body IS NOT NULL AND NOT EXISTS (
           SELECT FROM plan p WHERE (p.app_id, p.send_id, p.turn) = (named.app_id, named.send_id, named.turn)
         )
         ORDER BY place",
    )
    .bind(plans.iter().map(|found| found.app.0).collect::<Vec<_>>())
    .bind(plans.iter().map(|found| found.send_id.0).collect::<Vec<_>>())
    .bind(plans.iter().map(|found| number(found.planned.chunk)).collect::<Vec<_>>())
    .bind(i32::try_from(CHUNK_RECIPIENTS).unwrap_or(i32::MAX))
    .fetch_all(connection)
    .await?;
    let mut chunks = Vec::with_capacity(rows.len());
    let mut seen = HashSet::new();
    for row in rows {
        let place: i64 = row.try_get("place")?;
        let deliveries: i64 = row.try_get("deliveries")?;
        let Some(found) = usize::try_from(place - 1).ok().and_then(|place| plans.get(place)) else {
            continue;
        };
        let Json(send): Json<domain::SendRequest> = row.try_get("body")?;
        let planned = &found.planned;
        let decided = planned.decided.as_ref().map_or(0, |decided| decided.recipients.len());
        let is_whole = decided > 0
            && decided == send.chunk(planned.chunk).len()
            && deliveries >= i64::from(planned.deliveries);
        if is_whole && seen.insert((found.app, found.send_id, planned.chunk)) {
            chunks.push(Known { found, send });
        }
    }
    Ok(chunks)
}

fn each<'a>(chunk: &'a Known<'a>) -> impl Iterator<Item = Decided<'a>> {
    let planned = &chunk.found.planned;
    let first = planned.chunk.saturating_mul(number_of(CHUNK_RECIPIENTS));
    let decided = planned.decided.iter().flat_map(|decided| decided.each());
    let recipients = chunk.send.chunk(planned.chunk).iter();
    (first..).zip(recipients).zip(decided).filter_map(move |((index, recipient), (user, shape))| {
        Some(Decided { chunk, index, recipient, user, shape: shape? })
    })
}

/// Creates missing users. An erased user is not created again. Instead, the user's digest is stored with the erasure, so
/// that the planning of earlier sends leaves the user out.
async fn write_users(connection: &mut PgConnection, decided: &[Decided<'_>]) -> Result<u64, Error> {
    let users: BTreeMap<_, &str> = decided
        .iter()
        .filter_map(|decided| {
            Some(((decided.app().0, decided.user?.0), decided.recipient.identifier.as_str()))
        })
        .filter(|(_, identifier)| !identifier.is_empty())
        .collect();
    let apps: Vec<i64> = users.keys().map(|(app, _)| *app).collect();
    let numbers: Vec<i64> = users.keys().map(|(_, number)| *number).collect();
    let identifiers: Vec<&str> = users.values().copied().collect();
    sqlx::query(concat!(
        "UPDATE erased e SET digest = ",
        digest!("named.app_id", "named.identifier"),
        " FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS named (app_id, number, identifier)
         WHERE (e.app_id, e.user_number) = (named.app_id, named.number) AND e.digest IS NULL AND e.done_at IS NULL"
    ))
    .bind(&apps)
    .bind(&numbers)
    .bind(&identifiers)
    .execute(&mut *connection)
    .await?;
    let written = sqlx::query(
        "INSERT INTO app_user (app_id, number, identifier) OVERRIDING SYSTEM VALUE
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS named (app_id, number, identifier)
         WHERE NOT EXISTS (SELECT FROM erased e WHERE (e.app_id, e.user_number) = (named.app_id, named.number))
         ON CONFLICT DO NOTHING",
    )
    .bind(&apps)
    .bind(&numbers)
    .bind(&identifiers)
    .execute(connection)
    .await?;
    Ok(written.rows_affected())
}

/// Creates the missing categories of chunks. The identifier is from the send or, if the send names no category, from its
/// template.
async fn write_categories(connection: &mut PgConnection, chunks: &[Known<'_>]) -> Result<u64, Error> {
    let categories: BTreeMap<(i64, CategoryId), _> = chunks
        .iter()
        .filter_map(|chunk| {
            let decided = chunk.found.planned.decided.as_ref()?;
            Some(((chunk.found.app.0, decided.category?), (chunk.send.category.as_deref(), decided.template)))
        })
        .collect();
    let written = sqlx::query(
        "INSERT INTO category (app_id, id, identifier, name) OVERRIDING SYSTEM VALUE
         SELECT app_id, id, identifier, identifier FROM (
           SELECT named.app_id, named.id, coalesce(own, (
             SELECT category FROM template_version t
             WHERE (t.app_id, t.template_id, t.version) = (named.app_id, named.template, named.version)
           )) AS identifier
           FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::int[])
             AS named (app_id, id, own, template, version)
         ) AS found WHERE identifier IS NOT NULL
         ON CONFLICT DO NOTHING",
    )
    .bind(categories.keys().map(|(app, _)| *app).collect::<Vec<_>>())
    .bind(categories.keys().map(|(_, id)| id.0).collect::<Vec<_>>())
    .bind(categories.values().map(|(own, _)| *own).collect::<Vec<_>>())
    .bind(categories.values().map(|(_, template)| template.map(|(id, _)| id.0)).collect::<Vec<_>>())
    .bind(categories.values().map(|(_, template)| template.map(|(_, version)| version)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(written.rows_affected())
}

/// Merges the inline profiles of the sends into the users' profiles, if the user with the number in the plan still has the
/// recipient's identifier.
async fn merge_profiles(connection: &mut PgConnection, decided: &[Decided<'_>]) -> Result<(), Error> {
    let inline: Vec<_> = decided
        .iter()
        .filter_map(|decided| Some((decided, decided.user?, decided.recipient.profile.as_ref()?)))
        .collect();
    if inline.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query(
        "SELECT u.app_id, u.number, u.identifier FROM app_user u
         JOIN unnest($1::bigint[], $2::bigint[]) AS named (app_id, number) USING (app_id, number)",
    )
    .bind(inline.iter().map(|(decided, ..)| decided.app().0).collect::<Vec<_>>())
    .bind(inline.iter().map(|(_, user, _)| user.0).collect::<Vec<_>>())
    .fetch_all(&mut *connection)
    .await?;
    let mut known: HashMap<(AppId, UserNumber), String> = HashMap::with_capacity(rows.len());
    for row in rows {
        known.insert((AppId(row.try_get(0)?), UserNumber(row.try_get(1)?)), row.try_get(2)?);
    }
    let mut updates = Updates::new();
    for (decided, user, profile) in inline {
        let identifier = decided.recipient.identifier.as_str();
        if known.get(&(decided.app(), user)).is_some_and(|known| known == identifier) {
            updates.entry((decided.app(), identifier)).or_default().push(profile);
        }
    }
    merge_users(connection, &updates, Naming::Mentions).await?;
    Ok(())
}

async fn write_chunks(connection: &mut PgConnection, chunks: &[Known<'_>]) -> Result<(), Error> {
    let category = |chunk: &Known<'_>| chunk.found.planned.decided.as_ref()?.category;
    let template = |chunk: &Known<'_>| chunk.found.planned.decided.as_ref()?.template;
    sqlx::query(
        "WITH named AS (
           SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::timestamptz[], $5::bigint[], $6::bigint[], $7::int[])
             AS named (app_id, send_id, turn, at, category, template, version)
         ), pinned AS (
           UPDATE request r SET category_id = coalesce(r.category_id, named.category),
             template_id = coalesce(r.template_id, named.template),
             template_version = coalesce(r.template_version, named.version)
           FROM named WHERE (r.app_id, r.send_id) = (named.app_id, named.send_id)
         )
         INSERT INTO plan (app_id, send_id, turn, planned_at) SELECT app_id, send_id, turn, at FROM named",
    )
    .bind(chunks.iter().map(|chunk| chunk.found.app.0).collect::<Vec<_>>())
    .bind(chunks.iter().map(|chunk| chunk.found.send_id.0).collect::<Vec<_>>())
    .bind(chunks.iter().map(|chunk| number(chunk.found.planned.chunk)).collect::<Vec<_>>())
    .bind(chunks.iter().map(|chunk| instant(chunk.found.at)).collect::<Vec<_>>())
    .bind(chunks.iter().map(|chunk| category(chunk).map(|id| id.0)).collect::<Vec<_>>())
    .bind(chunks.iter().map(|chunk| template(chunk).map(|(id, _)| id.0)).collect::<Vec<_>>())
    .bind(chunks.iter().map(|chunk| template(chunk).map(|(_, version)| version)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

async fn write_recipients(connection: &mut PgConnection, decided: &[Decided<'_>]) -> Result<(), Error> {
    let identifier = |decided: &Decided<'_>| {
        if decided.shape.is_of_erased() { String::new() } else { decided.recipient.identifier.clone() }
    };
    sqlx::query(
        "INSERT INTO planned_recipient (app_id, send_id, turn, recipient_index, identifier, user_number, in_app, skips)
         SELECT app_id, send_id, turn, recipient_index, identifier, user_number, in_app, string_to_array(skips, ',')
         FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::int[], $5::text[], $6::bigint[], $7::bool[], $8::text[])
           AS new (app_id, send_id, turn, recipient_index, identifier, user_number, in_app, skips)
         ON CONFLICT DO NOTHING",
    )
    .bind(decided.iter().map(|decided| decided.app().0).collect::<Vec<_>>())
    .bind(decided.iter().map(|decided| decided.chunk.found.send_id.0).collect::<Vec<_>>())
    .bind(decided.iter().map(|decided| number(decided.chunk.found.planned.chunk)).collect::<Vec<_>>())
    .bind(decided.iter().map(|decided| number(decided.index)).collect::<Vec<_>>())
    .bind(decided.iter().map(identifier).collect::<Vec<_>>())
    .bind(decided.iter().map(|decided| decided.user.map(|user| user.0)).collect::<Vec<_>>())
    .bind(decided.iter().map(|decided| decided.shape.in_app).collect::<Vec<_>>())
    .bind(decided.iter().map(|decided| skips_text(&decided.shape.skips)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

fn number_of(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
