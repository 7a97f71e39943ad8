//! Merging pairs onto the profiles of many users at a time.

use std::collections::{BTreeMap, HashSet};
use std::mem;

use domain::content::Object;
use domain::profile::{self, Refusal, TokenChange};
use domain::{AppId, UserNumber};
use sqlx::types::Json;
use sqlx::{PgConnection, Row};

use crate::push_token::{self, Naming};
use crate::{Error, Store};

/// Users whose profiles are in memory at a time.
const BATCH: usize = 100;

/// What is to be merged, in order, by whose profile.
pub(crate) type Updates<'a> = BTreeMap<(AppId, &'a str), Vec<&'a Object>>;

/// Apps, users and profiles, row by row.
type Profiles = (Vec<i64>, Vec<i64>, Vec<Json<Object>>);

/// What became of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The user was created with it.
    Created,
    /// It was merged onto what was there.
    Updated,
    /// It would have made the profile unsound; the profile is as before.
    Refused(Refusal),
}

impl Store {
    /// Merges pairs onto the profiles of the users named, creating who is missing, all in one transaction; what is
    /// refused leaves the others alone. Answers in the order given; several pairs for one user are merged in that
    /// order.
    ///
    /// # Errors
    /// The database failed, or a user was erased meanwhile; nothing was written.
    pub async fn merge_many(&self, app: AppId, pairs: &[(String, Object)]) -> Result<Vec<Merged>, Error> {
        let mut by_user: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, (identifier, _)) in pairs.iter().enumerate() {
            by_user.entry(identifier).or_default().push(index);
        }
        let mut answers: Vec<(usize, Merged)> = Vec::with_capacity(pairs.len());
        let mut transaction = self.begin().await?;
        for users in Vec::from_iter(by_user).chunks(BATCH) {
            let of = |indexes: &[usize]| indexes.iter().map(|&index| &pairs[index].1).collect();
            let updates = users.iter().map(|(user, indexes)| ((app, *user), of(indexes))).collect();
            let mut merged = merge_users(&mut transaction, &updates, Naming::Registers).await?;
            for (user, indexes) in users {
                let merged = merged.remove(&(app, *user)).ok_or(Error::Unanswered("a user was erased"))?;
                answers.extend(indexes.iter().copied().zip(merged));
            }
        }
        transaction.commit().await?;
        answers.sort_unstable_by_key(|(index, _)| *index);
        Ok(answers.into_iter().map(|(_, merged)| merged).collect())
    }
}

/// Creates what is missing of the named users, then merges onto each, in order, the pairs given for it. Locks rows
/// in key order. Answers for each user with what became of its pairs; a user erased meanwhile is not among them.
///
/// # Errors
/// The database failed; the transaction is then void.
pub(crate) async fn merge_users<'a>(
    connection: &mut PgConnection,
    updates: &Updates<'a>,
    naming: Naming,
) -> Result<BTreeMap<(AppId, &'a str), Vec<Merged>>, Error> {
    if updates.is_empty() {
        return Ok(BTreeMap::new());
    }
    let apps: Vec<i64> = updates.keys().map(|(app, _)| app.0).collect();
    let identifiers: Vec<&str> = updates.keys().map(|(_, identifier)| *identifier).collect();
    let created = create_missing(connection, &apps, &identifiers).await?;
    let rows = sqlx::query(
        "SELECT place, app_id, number, profile FROM app_user
         JOIN unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS named (app_id, identifier, place)
           USING (app_id, identifier)
         ORDER BY app_id, number FOR UPDATE OF app_user",
    )
    .bind(&apps)
    .bind(&identifiers)
    .fetch_all(&mut *connection)
    .await?;

    let mut changed = Profiles::default();
    let mut tokens = Vec::new();
    let mut answers = BTreeMap::new();
    let named: Vec<_> = updates.iter().collect();
    for row in rows {
        let (app, number): (i64, i64) = (row.try_get("app_id")?, row.try_get("number")?);
        let place: i64 = row.try_get("place")?;
        let Some(&(user, pairs)) = usize::try_from(place - 1).ok().and_then(|place| named.get(place)) else {
            continue;
        };
        let Json(before): Json<Object> = row.try_get("profile")?;
        let (after, merged) = merge_in_turn(&before, pairs, created.contains(&number));
        let change = TokenChange::merged(&before, &after, pairs);
        if !change.is_empty() {
            tokens.push((AppId(app), UserNumber(number), change));
        }
        if after != before {
            changed.0.push(app);
            changed.1.push(number);
            changed.2.push(Json(after));
        }
        answers.insert(*user, merged);
    }
    write(&mut *connection, &changed).await?;
    push_token::record(connection, &tokens, naming).await?;
    Ok(answers)
}

/// The numbers of the users created.
async fn create_missing(
    connection: &mut PgConnection,
    apps: &[i64],
    identifiers: &[&str],
) -> Result<HashSet<i64>, Error> {
    let numbers = sqlx::query_scalar(
        "INSERT INTO app_user (app_id, identifier) SELECT * FROM unnest($1::bigint[], $2::text[])
         ON CONFLICT (app_id, identifier) DO NOTHING RETURNING number",
    )
    .bind(apps)
    .bind(identifiers)
    .fetch_all(connection)
    .await?;
    Ok(numbers.into_iter().collect())
}

fn merge_in_turn(before: &Object, pairs: &[&Object], mut created: bool) -> (Object, Vec<Merged>) {
    let mut profile = before.clone();
    let merged = pairs.iter().map(|pairs| match profile::merged(&profile, pairs) {
        Ok(after) => {
            profile = after;
            if mem::take(&mut created) { Merged::Created } else { Merged::Updated }
        }
        Err(refusal) => Merged::Refused(refusal),
    });
    let merged = merged.collect();
    (profile, merged)
}

async fn write(connection: &mut PgConnection, changed: &Profiles) -> Result<(), Error> {
    if changed.0.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "UPDATE app_user SET profile = new.profile, updated_at = now()
         FROM unnest($1::bigint[], $2::bigint[], $3::jsonb[]) AS new (app_id, number, profile)
         WHERE app_user.app_id = new.app_id AND app_user.number = new.number",
    )
    .bind(&changed.0)
    .bind(&changed.1)
    .bind(&changed.2)
    .execute(connection)
    .await?;
    Ok(())
}
