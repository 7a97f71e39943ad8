//! Facts about the categories of sends.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use domain::CategoryId;
use sqlx::PgConnection;

use crate::Error;
use crate::control::quota;
use crate::sends::chunk::Chunk;
use crate::sends::facts::{Facts, PlanCategory};

type CategoryKey = (i64, String);
type KnownCategories = HashMap<CategoryKey, Arc<PlanCategory>>;

/// Reads the categories of chunks, and creates missing categories for new chunks. If an app has reached its quota of
/// categories, a missing category is not created and the chunk has no category.
pub(super) async fn read_or_create(
    connection: &mut PgConnection,
    chunks: &[Chunk],
    new: &[bool],
    facts: &mut Facts,
) -> Result<(), Error> {
    let named = category_keys(chunks, facts);
    let mut known = select(connection, &named).await?;
    let missing: Vec<_> = named
        .iter()
        .zip(new)
        .map(|(named, new)| named.clone().filter(|named| *new && !known.contains_key(named)))
        .collect();
    if missing.iter().any(Option::is_some) {
        insert(connection, &missing).await?;
        known.extend(select(connection, &missing).await?);
    }
    facts.categories = named.iter().map(|named| known.get(named.as_ref()?).cloned()).collect();
    Ok(())
}

/// Reads the categories of chunks. Missing categories are added only to the facts, with the id 0.
pub(super) async fn simulate(
    connection: &mut PgConnection,
    chunks: &[Chunk],
    facts: &mut Facts,
) -> Result<(), Error> {
    let named = category_keys(chunks, facts);
    let known = select(connection, &named).await?;
    let category = |key: CategoryKey| known.get(&key).cloned().unwrap_or_else(|| Arc::new(simulated(key.1)));
    facts.categories = named.into_iter().map(|named| named.map(category)).collect();
    Ok(())
}

fn simulated(identifier: String) -> PlanCategory {
    PlanCategory { id: CategoryId(0), name: identifier.clone(), identifier, critical: false }
}

/// Returns the category of each chunk: the category that the send names or, if it names none, the category of its template.
/// None if neither names a category.
fn category_keys(chunks: &[Chunk], facts: &Facts) -> Vec<Option<CategoryKey>> {
    let named = chunks.iter().enumerate().map(|(index, chunk)| {
        let own = chunk.send.category.as_ref();
        let identifier = own.or_else(|| facts.template(index)?.category.as_ref())?;
        Some((chunk.app.0, identifier.clone()))
    });
    named.collect()
}

async fn select(
    connection: &mut PgConnection,
    named: &[Option<CategoryKey>],
) -> Result<KnownCategories, Error> {
    let (apps, identifiers) = columns(named);
    if apps.is_empty() {
        return Ok(KnownCategories::new());
    }
    let rows = sqlx::query!(
        "SELECT app_id, id, identifier, name, critical FROM category
         JOIN unnest($1::bigint[], $2::text[]) AS named (app_id, identifier) USING (app_id, identifier)",
        &apps,
        &identifiers as &[&str]
    )
    .fetch_all(connection)
    .await?;
    let known = rows.into_iter().map(|row| {
        let category = PlanCategory {
            id: CategoryId(row.id),
            identifier: row.identifier,
            name: row.name,
            critical: row.critical,
        };
        ((row.app_id, category.identifier.clone()), Arc::new(category))
    });
    Ok(known.collect())
}

async fn insert(connection: &mut PgConnection, missing: &[Option<CategoryKey>]) -> Result<(), Error> {
    let (apps, identifiers) = within_quota(connection, columns(missing)).await?;
    sqlx::query!(
        "INSERT INTO category (app_id, identifier, name)
         SELECT app_id, identifier, identifier FROM unnest($1::bigint[], $2::text[]) AS new (app_id, identifier)
         ON CONFLICT (app_id, identifier) DO NOTHING",
        &apps,
        &identifiers as &[&str]
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Removes new categories that would exceed the quotas of their apps, and returns the others in the same order.
async fn within_quota<'a>(
    connection: &mut PgConnection,
    (apps, identifiers): (Vec<i64>, Vec<&'a str>),
) -> Result<(Vec<i64>, Vec<&'a str>), Error> {
    let named: Vec<i64> = BTreeSet::from_iter(apps.iter().copied()).into_iter().collect();
    let mut room: HashMap<i64, i64> = quota::category_room(connection, &named).await?.into_iter().collect();
    let new = apps.into_iter().zip(identifiers);
    let kept = new.filter(|(app, _)| {
        let left = room.entry(*app).or_default();
        *left -= 1;
        if *left < 0 {
            tracing::warn!(app, "the quota of categories is reached; planning a send without its category");
        }
        *left >= 0
    });
    Ok(kept.unzip())
}

/// Returns the distinct keys as columns. They are in key order, so that concurrent transactions do not deadlock.
fn columns(keys: &[Option<CategoryKey>]) -> (Vec<i64>, Vec<&str>) {
    let keys: BTreeSet<_> = keys.iter().flatten().collect();
    keys.into_iter().map(|(app, identifier)| (*app, identifier.as_str())).unzip()
}
