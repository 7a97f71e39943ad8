use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use domain::CategoryId;
use sqlx::PgConnection;

use crate::Error;
use crate::control::quota;
use crate::database::columns::columns;
use crate::sends::facts::Facts;
use crate::sends::planned_chunk::{PlanCategory, PlannedChunk};

type CategoryKey = (i64, String);
/// In key order, so that concurrent transactions that insert them do not deadlock.
type CategoryKeys = BTreeSet<CategoryKey>;
type KnownCategories = HashMap<CategoryKey, Arc<PlanCategory>>;

/// Creates missing categories for new chunks of sends that are not cancelled. If an app has reached its quota of categories, a missing
/// category is not created and the chunk has no category.
pub(super) async fn read_or_create(
    connection: &mut PgConnection,
    chunks: &mut [PlannedChunk],
    facts: &Facts,
) -> Result<(), Error> {
    let mut known = select(connection, &chunks.iter().filter_map(category_key).collect()).await?;
    let applied = chunks.iter().filter(|planned| facts.is_applied(planned));
    let missing: CategoryKeys =
        applied.filter_map(category_key).filter(|key| !known.contains_key(key)).collect();
    if !missing.is_empty() {
        insert(connection, &missing).await?;
        known.extend(select(connection, &missing).await?);
    }
    for planned in chunks {
        planned.category = category_key(planned).and_then(|key| known.get(&key).cloned());
    }
    Ok(())
}

/// Missing categories are added only to the chunks, with the id 0.
pub(super) async fn simulate(
    connection: &mut PgConnection,
    chunks: &mut [PlannedChunk],
) -> Result<(), Error> {
    let known = select(connection, &chunks.iter().filter_map(category_key).collect()).await?;
    let category = |key: CategoryKey| known.get(&key).cloned().unwrap_or_else(|| Arc::new(simulated(key.1)));
    for planned in chunks {
        planned.category = category_key(planned).map(category);
    }
    Ok(())
}

fn simulated(identifier: String) -> PlanCategory {
    PlanCategory { id: CategoryId(0), name: identifier.clone(), identifier, critical: false }
}

/// Category that the send names, else that of its template.
fn category_key(planned: &PlannedChunk) -> Option<CategoryKey> {
    let own = planned.chunk.send.category.as_ref();
    let identifier = own.or_else(|| planned.template.as_ref()?.category.as_ref())?;
    Some((planned.chunk.app.0, identifier.clone()))
}

async fn select(connection: &mut PgConnection, named: &CategoryKeys) -> Result<KnownCategories, Error> {
    if named.is_empty() {
        return Ok(KnownCategories::new());
    }
    columns! { (app, identifier) in named => apps = *app, identifiers = identifier.as_str() }
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

async fn insert(connection: &mut PgConnection, missing: &CategoryKeys) -> Result<(), Error> {
    let within_quota = within_quota(connection, missing).await?;
    columns! { (app, identifier) in within_quota => apps = *app, identifiers = identifier.as_str() }
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

async fn within_quota<'a>(
    connection: &mut PgConnection,
    missing: &'a CategoryKeys,
) -> Result<Vec<&'a CategoryKey>, Error> {
    let apps: BTreeSet<i64> = missing.iter().map(|(app, _)| *app).collect();
    let apps: Vec<i64> = apps.into_iter().collect();
    let mut room: HashMap<i64, i64> = quota::category_room(connection, &apps).await?.into_iter().collect();
    let kept = missing.iter().filter(|(app, _)| {
        let left = room.entry(*app).or_default();
        *left -= 1;
        if *left < 0 {
            tracing::warn!(app, "the quota of categories is reached; planning a send without its category");
        }
        *left >= 0
    });
    Ok(kept.collect())
}
