use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::sync::Arc;

use domain::content::Object;
use domain::profile::{self, Author, Change, Refusal, TokenChange, Unproven};
use domain::{AppId, UserNumber};
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::directory::push_token::{self, Naming};
use crate::directory::user::RACES;
use crate::directory::user::proof::{self, Unconfirmed};
use crate::{Directory, Error};

/// Number of users whose profiles are in memory at once.
const BATCH: usize = 100;

/// Merged in the order of the list.
pub(crate) type Updates<'a> = BTreeMap<(AppId, &'a str), Vec<&'a Object>>;

/// User's identifier, and pairs to merge in the order of the list.
type Pairs = (String, Vec<Object>);

/// App ids, user numbers, profiles and their unproven addresses.
type Profiles = (Vec<i64>, Vec<i64>, Vec<Json<Object>>, Vec<Json<Unproven>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeResult {
    Created,
    Updated,
    /// The profile would have become invalid and is unchanged.
    Refused(Refusal),
}

impl Directory<'_> {
    /// Merges pairs into the profiles of users, and creates users that do not exist. Returns one result per element of `pairs`, in order.
    /// Elements that name the same user are merged in this order. A refused merge does not affect the others. Each transaction writes up to
    /// 100 users. Like [`Directory::change_profile`], this function first computes profiles without locking their rows.
    ///
    /// # Errors
    /// Returns an error if a user is erased during the call. After an error, some users may have been merged. Merging them again does not
    /// change their profiles.
    pub async fn merge_many(
        self,
        app: AppId,
        pairs: Vec<(String, Object)>,
    ) -> Result<Vec<MergeResult>, Error> {
        let mut by_user: BTreeMap<String, Vec<(usize, Object)>> = BTreeMap::new();
        for (index, (identifier, pairs)) in pairs.into_iter().enumerate() {
            by_user.entry(identifier).or_default().push((index, pairs));
        }
        let mut answers: Vec<(usize, MergeResult)> = Vec::new();
        let mut users = by_user.into_iter();
        loop {
            let batch: Vec<_> = users.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                break;
            }
            let (named, indexes): (Vec<_>, Vec<_>) = batch
                .into_iter()
                .map(|(user, pairs)| {
                    let (indexes, pairs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
                    ((user, pairs), indexes)
                })
                .unzip();
            let merged = self.merge_batch(app, named).await?;
            for (indexes, merged) in indexes.into_iter().zip(merged) {
                answers.extend(indexes.into_iter().zip(merged));
            }
        }
        answers.sort_unstable_by_key(|(index, _)| *index);
        Ok(answers.into_iter().map(|(_, merged)| merged).collect())
    }

    async fn merge_batch(self, app: AppId, named: Vec<Pairs>) -> Result<Vec<Vec<MergeResult>>, Error> {
        let named = Arc::new(named);
        let mut answers: Vec<Option<Vec<MergeResult>>> = vec![None; named.len()];
        for _ in 0..RACES {
            let open: Vec<usize> = (0..named.len()).filter(|&place| answers[place].is_none()).collect();
            if open.is_empty() {
                break;
            }
            let versions = self.read_versions(app, &named, open).await?;
            let slot = self.0.writers.slot(app).await;
            let all = Arc::clone(&named);
            let work =
                move || versions.into_iter().map(|version| merge_version(version, &all)).collect::<Vec<_>>();
            let (computed, _) = self.0.writers.compute(slot, work).await?;
            for (place, merged) in self.replace_versions(app, &named, computed).await? {
                answers[place] = Some(merged);
            }
        }
        if answers.iter().any(Option::is_none) {
            let open = named.iter().zip(&answers).filter(|(_, answer)| answer.is_none());
            let updates =
                open.map(|((user, pairs), _)| ((app, user.as_str()), pairs.iter().collect())).collect();
            let mut transaction = self.0.begin().await?;
            let mut merged = merge_users(&mut transaction, &updates, Naming::Registers).await?;
            transaction.commit().await?;
            for ((user, _), answer) in named.iter().zip(&mut answers).filter(|(_, answer)| answer.is_none()) {
                *answer = merged.remove(&(app, user.as_str()));
            }
        }
        answers.into_iter().map(|answer| answer.ok_or(Error::Unanswered("a user was erased"))).collect()
    }

    async fn read_versions(
        self,
        app: AppId,
        named: &[Pairs],
        places: Vec<usize>,
    ) -> Result<Vec<Version>, Error> {
        let identifiers: Vec<&str> = places.iter().map(|&place| named[place].0.as_str()).collect();
        let mut connection = self.0.pool.acquire().await?;
        let rows = sqlx::query!(
            r#"SELECT identifier, number, version, profile AS "profile: Json<Object>" FROM app_user
             WHERE app_id = $1 AND identifier = ANY($2)"#,
            app.0,
            &identifiers as &[&str]
        )
        .fetch_all(&mut *connection)
        .await?;
        let users: Vec<_> = rows.iter().map(|row| (app, UserNumber(row.number))).collect();
        // Read after the profiles: a change of these addresses changes the version too.
        let mut unconfirmed = proof::read(&mut connection, &users).await?;
        let mut found: HashMap<String, (i64, i64, Object)> = HashMap::with_capacity(rows.len());
        for row in rows {
            found.insert(row.identifier, (row.number, row.version, row.profile.0));
        }
        let version = |place: usize| match found.remove(&named[place].0) {
            Some((number, version, profile)) => {
                let unconfirmed = unconfirmed.remove(&(app, UserNumber(number))).unwrap_or_default();
                Version { place, row: Some((number, version)), profile, unconfirmed }
            }
            None => Version::default_at(place),
        };
        Ok(places.into_iter().map(version).collect())
    }

    /// Skips a user if another writer has changed the profile, or created or erased the user, since the profile was read. Returns the index
    /// and the results of each user that was not skipped.
    async fn replace_versions(
        self,
        app: AppId,
        named: &[Pairs],
        computed: Vec<MergedVersion>,
    ) -> Result<Vec<(usize, Vec<MergeResult>)>, Error> {
        let missing: Vec<&str> = computed
            .iter()
            .filter(|merged| merged.row.is_none())
            .map(|merged| named[merged.place].0.as_str())
            .collect();
        let mut transaction = self.0.begin().await?;
        let mut current = HashMap::with_capacity(computed.len());
        if !missing.is_empty() {
            let created = sqlx::query!(
                "INSERT INTO app_user (app_id, identifier) SELECT $1, identifier FROM unnest($2::text[]) AS new (identifier)
                 ON CONFLICT (app_id, identifier) DO NOTHING RETURNING identifier, number",
                app.0,
                &missing as &[&str]
            )
            .fetch_all(&mut *transaction)
            .await?;
            current.extend(created.into_iter().map(|user| (user.identifier, (user.number, None))));
        }
        let existing: Vec<i64> = computed.iter().filter_map(|merged| Some(merged.row?.0)).collect();
        let locked = sqlx::query!(
            "SELECT identifier, number, version FROM app_user WHERE app_id = $1 AND number = ANY($2)
             ORDER BY number FOR NO KEY UPDATE",
            app.0,
            &existing
        )
        .fetch_all(&mut *transaction)
        .await?;
        current.extend(locked.into_iter().map(|user| (user.identifier, (user.number, Some(user.version)))));

        let mut changed = Profiles::default();
        let (mut tokens, mut ended) = (Vec::new(), Vec::new());
        let mut answers = Vec::new();
        for merged in computed {
            let Some(&(number, version)) = current.get(&named[merged.place].0) else { continue };
            if version != merged.row.map(|(_, version)| version) {
                continue;
            }
            let user = (app, UserNumber(number));
            if !merged.change.tokens.is_empty() {
                tokens.push((user.0, user.1, merged.change.tokens));
            }
            if let Some((after, unproven)) = merged.change.after {
                add(&mut changed, user, after, unproven);
            }
            ended.extend(merged.change.ends_devices.then_some(user));
            answers.push((merged.place, merged.answers));
        }
        write(&mut transaction, &changed).await?;
        proof::end_devices(&mut transaction, &ended).await?;
        push_token::record(&mut transaction, &tokens, Naming::Registers).await?;
        transaction.commit().await?;
        Ok(answers)
    }
}

/// A profile before the merge. `place` is the index of its user in the batch.
struct Version {
    place: usize,
    /// Number of the user and version of the profile; None if the user does not exist.
    row: Option<(i64, i64)>,
    profile: Object,
    unconfirmed: Unconfirmed,
}

impl Version {
    fn default_at(place: usize) -> Version {
        Version { place, row: None, profile: Object::new(), unconfirmed: Unconfirmed::default() }
    }
}

struct MergedVersion {
    place: usize,
    row: Option<(i64, i64)>,
    change: MergedProfile,
    answers: Vec<MergeResult>,
}

struct MergedProfile {
    /// None if the merges change neither the profile nor its unproven addresses.
    after: Option<(Object, Unproven)>,
    tokens: TokenChange,
    ends_devices: bool,
}

fn merge_version(Version { place, row, profile, unconfirmed }: Version, named: &[Pairs]) -> MergedVersion {
    let pairs: Vec<&Object> = named[place].1.iter().collect();
    let (change, answers) = merge_profile(&profile, &unconfirmed, &pairs, row.is_none());
    MergedVersion { place, row, change, answers }
}

/// Merges pairs that the app's backend sent. They end the user's unproven targets, unless all merges are refused.
fn merge_profile(
    before: &Object,
    unconfirmed: &Unconfirmed,
    pairs: &[&Object],
    created: bool,
) -> (MergedProfile, Vec<MergeResult>) {
    let (mut after, merged) = merge_in_turn(before, pairs, created);
    let changes: Vec<Change> = (pairs.iter().zip(&merged))
        .filter(|(_, result)| !matches!(result, MergeResult::Refused(_)))
        .map(|(pairs, _)| Change::Merge((*pairs).clone()))
        .collect();
    let ends = unconfirmed.end && !changes.is_empty();
    let unproven = if unconfirmed.addresses.is_empty() {
        Unproven::default()
    } else {
        let changes: Vec<&Change> = changes.iter().collect();
        unconfirmed.addresses.changed((before, &mut after), &changes, Author::App, ends)
    };
    let tokens = TokenChange::merged(before, &after, pairs);
    let tokens = if tokens.is_empty() { TokenChange::patched(before, &after) } else { tokens };
    let is_changed = after != *before || unproven != unconfirmed.addresses;
    let change = MergedProfile {
        after: is_changed.then_some((after, unproven)),
        tokens,
        ends_devices: ends && unconfirmed.ends_devices(Author::App),
    };
    (change, merged)
}

/// Creates users that do not exist, then merges the given pairs into each profile, in order. Locks the users' rows in key order until the
/// transaction ends. Users that were erased meanwhile have no result. After an error, the caller must not commit the transaction.
///
/// Planning uses this function because its merges must commit together with the plans. [`Directory::merge_many`] uses it for users whose
/// profiles other writers changed too often.
pub(crate) async fn merge_users<'a>(
    connection: &mut PgConnection,
    updates: &Updates<'a>,
    naming: Naming,
) -> Result<BTreeMap<(AppId, &'a str), Vec<MergeResult>>, Error> {
    if updates.is_empty() {
        return Ok(BTreeMap::new());
    }
    let apps: Vec<i64> = updates.keys().map(|(app, _)| app.0).collect();
    let identifiers: Vec<&str> = updates.keys().map(|(_, identifier)| *identifier).collect();
    let created = create_missing(connection, &apps, &identifiers).await?;
    let rows = sqlx::query!(
        r#"SELECT place AS "place!", app_id, number, profile AS "profile: Json<Object>" FROM app_user
         JOIN unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS named (app_id, identifier, place)
           USING (app_id, identifier)
         ORDER BY app_id, number FOR NO KEY UPDATE OF app_user"#,
        &apps,
        &identifiers as &[&str]
    )
    .fetch_all(&mut *connection)
    .await?;

    let users: Vec<_> = rows.iter().map(|row| (AppId(row.app_id), UserNumber(row.number))).collect();
    let mut unconfirmed = proof::read(&mut *connection, &users).await?;

    let mut changed = Profiles::default();
    let (mut tokens, mut ended) = (Vec::new(), Vec::new());
    let mut answers = BTreeMap::new();
    let named: Vec<_> = updates.iter().collect();
    for (row, key) in rows.into_iter().zip(users) {
        let place = usize::try_from(row.place - 1).ok();
        let Some(&(user, pairs)) = place.and_then(|place| named.get(place)) else { continue };
        // An inline profile without pairs names the recipient, but writes nothing.
        let writes = naming == Naming::Registers || pairs.iter().any(|pairs| !pairs.is_empty());
        let unconfirmed = unconfirmed.remove(&key).filter(|_| writes).unwrap_or_default();
        let created = created.contains(&row.number);
        let (change, merged) = merge_profile(&row.profile.0, &unconfirmed, pairs, created);
        if !change.tokens.is_empty() {
            tokens.push((key.0, key.1, change.tokens));
        }
        if let Some((after, unproven)) = change.after {
            add(&mut changed, key, after, unproven);
        }
        ended.extend(change.ends_devices.then_some(key));
        answers.insert(*user, merged);
    }
    write(&mut *connection, &changed).await?;
    proof::end_devices(&mut *connection, &ended).await?;
    push_token::record(connection, &tokens, naming).await?;
    Ok(answers)
}

/// Returns the numbers of the users that it created.
pub(crate) async fn create_missing(
    connection: &mut PgConnection,
    apps: &[i64],
    identifiers: &[&str],
) -> Result<HashSet<i64>, Error> {
    let numbers = sqlx::query_scalar!(
        "INSERT INTO app_user (app_id, identifier) SELECT * FROM unnest($1::bigint[], $2::text[])
         ON CONFLICT (app_id, identifier) DO NOTHING RETURNING number",
        apps,
        identifiers as &[&str]
    )
    .fetch_all(connection)
    .await?;
    Ok(numbers.into_iter().collect())
}

fn merge_in_turn(before: &Object, pairs: &[&Object], mut created: bool) -> (Object, Vec<MergeResult>) {
    let mut profile = before.clone();
    let merged = pairs.iter().map(|pairs| match profile::merged(&profile, pairs) {
        Ok(after) => {
            profile = after;
            if mem::take(&mut created) { MergeResult::Created } else { MergeResult::Updated }
        }
        Err(refusal) => MergeResult::Refused(refusal),
    });
    let merged = merged.collect();
    (profile, merged)
}

fn add(changed: &mut Profiles, (app, user): (AppId, UserNumber), profile: Object, unproven: Unproven) {
    changed.0.push(app.0);
    changed.1.push(user.0);
    changed.2.push(Json(profile));
    changed.3.push(Json(unproven));
}

async fn write(connection: &mut PgConnection, changed: &Profiles) -> Result<(), Error> {
    if changed.0.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "UPDATE app_user SET profile = new.profile, unproven = new.unproven, updated_at = now()
         FROM unnest($1::bigint[], $2::bigint[], $3::jsonb[], $4::jsonb[]) AS new (app_id, number, profile, unproven)
         WHERE app_user.app_id = new.app_id AND app_user.number = new.number",
        &changed.0,
        &changed.1,
        &changed.2 as &[Json<Object>],
        &changed.3 as &[Json<Unproven>]
    )
    .execute(connection)
    .await?;
    Ok(())
}
