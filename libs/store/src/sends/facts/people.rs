use std::collections::{BTreeSet, HashMap, HashSet};

use domain::content::Object;
use domain::profile::{Author, Change, Unproven};
use domain::send::Recipient;
use domain::{AppId, CategoryId, Channel, UserNumber, plan, profile};
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::Error;
use crate::database::columns::columns;
use crate::directory::push_token::Naming;
use crate::directory::user::merge::{MergeResult, Updates, merge_users};
use crate::directory::user::proof;
use crate::sends::chunk::Chunk;
use crate::sends::facts::Facts;
use crate::sends::planned_chunk::PlannedChunk;

/// Creates missing users, except erased users. Skips an inline profile that would make the stored profile invalid, so that the chunk can
/// still be planned.
pub(super) async fn merge_inline_profiles(
    connection: &mut PgConnection,
    chunks: &[PlannedChunk],
    facts: &Facts,
) -> Result<(), Error> {
    let mut updates = Updates::new();
    for PlannedChunk { chunk, .. } in chunks.iter().filter(|planned| facts.is_applied(planned)) {
        for recipient in chunk.recipients() {
            if let Some(profile) = &recipient.profile
                && !facts.is_erased(chunk, &recipient.identifier)
            {
                updates.entry((chunk.app, &recipient.identifier)).or_default().push(profile);
            }
        }
    }
    let merged = merge_users(connection, &updates, Naming::Mentions).await?;
    let refused =
        merged.values().flatten().filter(|merged| matches!(merged, MergeResult::Refused(_))).count();
    if refused > 0 {
        tracing::warn!(refused, "skipped inline profiles that would have made a stored profile invalid");
    }
    Ok(())
}

pub(super) async fn read(
    connection: &mut PgConnection,
    chunks: &[PlannedChunk],
    facts: &mut Facts,
) -> Result<(), Error> {
    let named: HashSet<(AppId, &str)> = chunks
        .iter()
        .flat_map(|PlannedChunk { chunk, .. }| {
            chunk.recipients().iter().map(|recipient| (chunk.app, recipient.identifier.as_str()))
        })
        .collect();
    let (apps, identifiers): (Vec<i64>, Vec<&str>) =
        named.into_iter().map(|(app, name)| (app.0, name)).unzip();
    // Looks each user up by the key. A join of hundreds of users was planned as a scan of all users of the app.
    let rows = sqlx::query!(
        r#"SELECT named.app_id AS "app_id!", u.number, u.identifier, u.profile AS "profile: Json<Object>"
         FROM unnest($1::bigint[], $2::text[]) AS named (app_id, identifier)
         CROSS JOIN LATERAL (
           SELECT number, identifier, profile FROM app_user
           WHERE app_id = named.app_id AND identifier BETWEEN named.identifier AND named.identifier
           ORDER BY identifier LIMIT 1
         ) AS u"#,
        &apps,
        &identifiers as &[&str]
    )
    .fetch_all(connection)
    .await?;
    for row in rows {
        let of_app = facts.users.entry(AppId(row.app_id)).or_default();
        of_app.insert(row.identifier, (UserNumber(row.number), row.profile.0));
    }
    Ok(())
}

pub(super) async fn read_unproven(
    connection: &mut PgConnection,
    chunks: &[PlannedChunk],
    facts: &mut Facts,
    is_asked: impl Fn(&Chunk, &Recipient) -> bool,
) -> Result<(), Error> {
    let asked: HashSet<(AppId, UserNumber)> = chunks
        .iter()
        .flat_map(|PlannedChunk { chunk, .. }| {
            chunk.recipients().iter().map(move |recipient| (chunk, recipient))
        })
        .filter(|(chunk, recipient)| is_asked(chunk, recipient))
        .filter_map(|(chunk, recipient)| Some((chunk.app, facts.user(chunk.app, &recipient.identifier)?.0)))
        .collect();
    if asked.is_empty() {
        return Ok(());
    }
    let asked: Vec<_> = asked.into_iter().collect();
    facts.unconfirmed = proof::read(&mut *connection, &asked).await?;
    let (apps, users): (Vec<i64>, Vec<i64>) = asked.iter().map(|(app, user)| (app.0, user.0)).unzip();
    let rows = sqlx::query!(
        "SELECT s.app_id, s.user_number, s.endpoint FROM web_push_subscription s
         JOIN unnest($1::bigint[], $2::bigint[]) AS asked (app_id, user_number)
           ON (s.app_id, s.user_number) = (asked.app_id, asked.user_number)
         JOIN device d ON (d.app_id, d.user_number, d.device_id) = (s.app_id, s.user_number, s.device_id)
         WHERE NOT (s.proven AND d.proven)",
        &apps,
        &users
    )
    .fetch_all(connection)
    .await?;
    for row in rows {
        let unconfirmed = facts.unconfirmed.entry((AppId(row.app_id), UserNumber(row.user_number)));
        unconfirmed.or_default().addresses.insert_endpoint(&row.endpoint);
    }
    Ok(())
}

/// Merges the inline profiles only into `facts`. Like a send, a merge ends the unproven targets of its user. Returns those that are not in
/// the profile: endpoints of web push subscriptions.
pub(super) fn simulate(chunks: &[PlannedChunk], facts: &mut Facts) -> Vec<((AppId, UserNumber), Unproven)> {
    let mut ended = Vec::new();
    for PlannedChunk { chunk, .. } in chunks {
        let of_app = facts.users.entry(chunk.app).or_default();
        for recipient in chunk.recipients() {
            let Some(pairs) = &recipient.profile else { continue };
            let new = || (UserNumber(0), Object::new());
            let (number, known) = of_app.entry(recipient.identifier.clone()).or_insert_with(new);
            let Ok(mut merged) = profile::merged(known, pairs) else { continue };
            let user = (chunk.app, *number);
            if let Some(unconfirmed) = facts.unconfirmed.get_mut(&user).filter(|_| !pairs.is_empty()) {
                let change = Change::Merge(pairs.clone());
                let end = unconfirmed.end;
                let changed =
                    unconfirmed.addresses.changed((known, &mut merged), &[&change], Author::App, end);
                let before = std::mem::replace(&mut unconfirmed.addresses, changed);
                ended.extend(end.then_some((user, before)));
            }
            *known = merged;
        }
    }
    ended
}

pub(super) fn end_endpoints(ended: &[((AppId, UserNumber), Unproven)], facts: &mut Facts) {
    for (user, unproven) in ended {
        if let Some(endpoints) = facts.endpoints.get_mut(user) {
            endpoints.retain(|endpoint| !unproven.has_endpoint(endpoint));
        }
    }
}

pub(super) async fn read_preferences(
    connection: &mut PgConnection,
    chunks: &[PlannedChunk],
    facts: &mut Facts,
) -> Result<(), Error> {
    let mut asked: BTreeSet<(i64, i64, i64)> = BTreeSet::new();
    for planned in chunks {
        let chunk = &planned.chunk;
        let Some(category) = planned.category_with_preferences() else { continue };
        let recipients = chunk.recipients().iter();
        let users = recipients.filter_map(|recipient| facts.user(chunk.app, &recipient.identifier));
        asked.extend(users.map(|(number, _)| (chunk.app.0, number.0, category.id.0)));
    }
    if asked.is_empty() {
        return Ok(());
    }
    columns! { (app, user, category) in asked => apps = *app, users = *user, categories = *category }
    let rows = sqlx::query!(
        "SELECT app_id, user_number, category_id, channel FROM preference
         JOIN unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS asked (app_id, user_number, category_id)
           USING (app_id, user_number, category_id)
         WHERE NOT enabled",
        &apps,
        &users,
        &categories
    )
    .fetch_all(connection)
    .await?;
    for row in rows {
        let key = (AppId(row.app_id), CategoryId(row.category_id), UserNumber(row.user_number));
        facts.turned_off.entry(key).or_default().extend(row.channel.parse::<Channel>());
    }
    Ok(())
}

pub(super) async fn read_endpoints(connection: &mut PgConnection, facts: &mut Facts) -> Result<(), Error> {
    let apps =
        facts.users.iter().filter(|(app, _)| facts.provider_channels(**app).contains(&Channel::WebPush));
    let (apps, users): (Vec<i64>, Vec<i64>) =
        apps.flat_map(|(app, users)| users.values().map(|(number, _)| (app.0, number.0))).unzip();
    if apps.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query!(
        "SELECT app_id, user_number, endpoint FROM web_push_subscription
         JOIN unnest($1::bigint[], $2::bigint[]) AS asked (app_id, user_number) USING (app_id, user_number)
         WHERE expires_at IS NULL OR expires_at > now()
         ORDER BY app_id, user_number, device_id",
        &apps,
        &users
    )
    .fetch_all(connection)
    .await?;
    for row in rows {
        let key = (AppId(row.app_id), UserNumber(row.user_number));
        facts.endpoints.entry(key).or_default().push(row.endpoint);
    }
    Ok(())
}

pub(super) async fn read_suppressions(connection: &mut PgConnection, facts: &mut Facts) -> Result<(), Error> {
    // Several spellings may be asked for one target.
    let mut asked: HashMap<(i64, Channel, String), String> = HashMap::new();
    for (app, users) in &facts.users {
        for &channel in facts.provider_channels(*app) {
            for (identifier, (number, profile)) in users {
                let endpoints = facts.endpoints(*app, *number);
                for target in plan::targets(channel, identifier, profile, endpoints).unwrap_or_default() {
                    let spellings = target.spellings(channel);
                    asked.extend(spellings.map(|spelling| ((app.0, channel, spelling), target.text.clone())));
                }
            }
        }
    }
    if asked.is_empty() {
        return Ok(());
    }
    columns! { ((app, channel, spelling), _) in asked =>
        apps = *app,
        channels = channel.as_str(),
        spellings = spelling.as_str(),
    }
    let rows = sqlx::query!(
        r#"SELECT app_id AS "app_id!", channel AS "channel!", target AS "target!" FROM suppression
         JOIN unnest($1::bigint[], $2::text[], $3::text[]) AS asked (app_id, channel, target)
           USING (app_id, channel, target)
         UNION
         SELECT asked.app_id, asked.channel, asked.target FROM suppression s
         JOIN unnest($1::bigint[], $2::text[], $3::text[]) AS asked (app_id, channel, target)
           ON (s.app_id, mailbox_key(s.channel, s.target)) = (asked.app_id, mailbox_key(asked.channel, asked.target))"#,
        &apps,
        &channels as &[&str],
        &spellings as &[&str]
    )
    .fetch_all(connection)
    .await?;
    for row in rows {
        let Ok(channel) = row.channel.parse::<Channel>() else { continue };
        if let Some(target) = asked.get(&(row.app_id, channel, row.target)) {
            facts.suppressed.entry(AppId(row.app_id)).or_default().insert((channel, target.clone()));
        }
    }
    Ok(())
}
