//! What the decisions of a batch of turns rest on, read in the transaction that freezes them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use domain::content::Object;
use domain::id::TemplateId;
use domain::plan::{self, Suppressed};
use domain::send::TemplateRef;
use domain::{AppId, CategoryId, Channel, UserNumber};
use sqlx::types::Json;
use sqlx::{PgConnection, Row};

use crate::Error;
use crate::template::{self, TemplateVersion};
use crate::turn::Turn;
use crate::user;

/// A category as planning needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanCategory {
    /// Its number.
    pub id: CategoryId,
    /// The app's identifier of it.
    pub identifier: String,
    /// Its display name.
    pub name: String,
    /// Whether preferences do not apply to it.
    pub critical: bool,
}

/// The facts of a batch of turns; turns are named by their position in it.
#[derive(Debug, Default)]
pub struct Facts {
    templates: Vec<Option<Arc<TemplateVersion>>>,
    categories: Vec<Option<Arc<PlanCategory>>>,
    app_names: HashMap<AppId, String>,
    providers: HashMap<AppId, Vec<Channel>>,
    users: HashMap<AppId, HashMap<String, (UserNumber, Object)>>,
    turned_off: HashMap<(AppId, CategoryId, UserNumber), Vec<Channel>>,
    suppressed: HashMap<AppId, Suppressed>,
}

impl Facts {
    /// The template version that the send is pinned to.
    #[must_use]
    pub fn template(&self, turn: usize) -> Option<&Arc<TemplateVersion>> {
        self.templates.get(turn)?.as_ref()
    }

    /// The send's category.
    #[must_use]
    pub fn category(&self, turn: usize) -> Option<&Arc<PlanCategory>> {
        self.categories.get(turn)?.as_ref()
    }

    /// The app's name.
    #[must_use]
    pub fn app_name(&self, app: AppId) -> &str {
        self.app_names.get(&app).map_or("", String::as_str)
    }

    /// External channels that the app has an enabled provider for.
    #[must_use]
    pub fn providers(&self, app: AppId) -> &[Channel] {
        self.providers.get(&app).map_or(&[], Vec::as_slice)
    }

    /// The user behind a recipient.
    #[must_use]
    pub fn user(&self, app: AppId, identifier: &str) -> Option<(UserNumber, &Object)> {
        self.users.get(&app)?.get(identifier).map(|(number, profile)| (*number, profile))
    }

    /// Channels that the user turned off for a category.
    #[must_use]
    pub fn turned_off(&self, app: AppId, category: CategoryId, user: UserNumber) -> &[Channel] {
        self.turned_off.get(&(app, category, user)).map_or(&[], Vec::as_slice)
    }

    /// The app's dead targets among those of the batch.
    #[must_use]
    pub fn suppressed(&self, app: AppId) -> Option<&Suppressed> {
        self.suppressed.get(&app)
    }
}

pub(crate) async fn gather(
    connection: &mut PgConnection,
    turns: &[Turn],
    new: &[bool],
) -> Result<Facts, Error> {
    let mut facts =
        Facts { templates: vec![None; turns.len()], categories: vec![None; turns.len()], ..Facts::default() };
    read_apps(connection, turns, &mut facts).await?;
    read_templates(connection, turns, &mut facts).await?;
    read_categories(connection, turns, new, &mut facts).await?;
    merge_inline_profiles(connection, turns, new).await?;
    facts.users = read_users(connection, turns).await?;
    read_preferences(connection, turns, &mut facts).await?;
    read_suppressions(connection, &mut facts).await?;
    Ok(facts)
}

async fn read_apps(connection: &mut PgConnection, turns: &[Turn], facts: &mut Facts) -> Result<(), Error> {
    let apps: BTreeSet<i64> = turns.iter().map(|turn| turn.app.0).collect();
    let rows = sqlx::query(
        "SELECT id, name, ARRAY(SELECT DISTINCT channel FROM provider WHERE app_id = app.id AND enabled) AS channels
         FROM app WHERE id = ANY($1)",
    )
    .bind(apps.into_iter().collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    for row in rows {
        let app = AppId(row.try_get("id")?);
        let channels: Vec<String> = row.try_get("channels")?;
        facts.providers.insert(app, channels.iter().filter_map(|channel| channel.parse().ok()).collect());
        facts.app_names.insert(app, row.try_get("name")?);
    }
    Ok(())
}

async fn read_templates(
    connection: &mut PgConnection,
    turns: &[Turn],
    facts: &mut Facts,
) -> Result<(), Error> {
    let named: Vec<_> = turns
        .iter()
        .enumerate()
        .filter_map(|(index, turn)| turn.send.template.as_ref().map(|template| (index, turn, template)))
        .collect();
    if named.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query(
        "SELECT named.turn, t.id, t.identifier, v.version, v.name, v.category, v.channels
         FROM unnest($1::int[], $2::bigint[], $3::uuid[], $4::text[], $5::bigint[])
           AS named (turn, app_id, send_id, identifier, id)
         JOIN template t ON t.app_id = named.app_id AND (t.identifier = named.identifier OR t.id = named.id)
         LEFT JOIN request r ON (r.app_id, r.send_id) = (named.app_id, named.send_id)
         JOIN template_version v ON (v.app_id, v.template_id, v.version)
           = (t.app_id, t.id, coalesce(r.template_version, t.version))",
    )
    .bind(named.iter().map(|(index, ..)| i32::try_from(*index).unwrap_or(i32::MAX)).collect::<Vec<_>>())
    .bind(named.iter().map(|(_, turn, _)| turn.app.0).collect::<Vec<_>>())
    .bind(named.iter().map(|(_, turn, _)| turn.send_id.0).collect::<Vec<_>>())
    .bind(named.iter().map(|(.., template)| identifier_of(template)).collect::<Vec<_>>())
    .bind(named.iter().map(|(.., template)| number_of(template)).collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    for row in rows {
        let index: i32 = row.try_get("turn")?;
        if let Some(slot) = usize::try_from(index).ok().and_then(|index| facts.templates.get_mut(index)) {
            *slot = Some(Arc::new(template::read_version(&row)?));
        }
    }
    Ok(())
}

fn identifier_of(template: &TemplateRef) -> Option<&str> {
    match template {
        TemplateRef::Identifier(identifier) => Some(identifier),
        TemplateRef::Id(_) => None,
    }
}

fn number_of(template: &TemplateRef) -> Option<i64> {
    match template {
        TemplateRef::Identifier(_) => None,
        TemplateRef::Id(TemplateId(id)) => Some(*id),
    }
}

async fn read_categories(
    connection: &mut PgConnection,
    turns: &[Turn],
    new: &[bool],
    facts: &mut Facts,
) -> Result<(), Error> {
    let named: Vec<Option<(i64, String)>> = turns
        .iter()
        .enumerate()
        .map(|(index, turn)| {
            let own = turn.send.category.as_ref();
            let identifier = own.or_else(|| facts.template(index)?.category.as_ref())?;
            Some((turn.app.0, identifier.clone()))
        })
        .collect();
    if named.iter().all(Option::is_none) {
        return Ok(());
    }
    let wanted: BTreeSet<_> = named.iter().flatten().cloned().collect();
    let mut known = select_categories(connection, &wanted).await?;
    let missing: BTreeSet<_> = named
        .iter()
        .zip(new)
        .filter_map(|(named, new)| {
            named.as_ref().filter(|named| *new && !known.contains_key(*named)).cloned()
        })
        .collect();
    if !missing.is_empty() {
        insert_categories(connection, &missing).await?;
        known.extend(select_categories(connection, &missing).await?);
    }
    facts.categories = named.iter().map(|named| known.get(named.as_ref()?).cloned()).collect();
    Ok(())
}

type CategoryKey = (i64, String);

async fn select_categories(
    connection: &mut PgConnection,
    keys: &BTreeSet<CategoryKey>,
) -> Result<HashMap<CategoryKey, Arc<PlanCategory>>, Error> {
    let (apps, identifiers): (Vec<i64>, Vec<&str>) =
        keys.iter().map(|(app, name)| (*app, name.as_str())).unzip();
    let rows = sqlx::query(
        "SELECT app_id, id, identifier, name, critical FROM category
         JOIN unnest($1::bigint[], $2::text[]) AS named (app_id, identifier) USING (app_id, identifier)",
    )
    .bind(apps)
    .bind(identifiers)
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|row| {
            let category = PlanCategory {
                id: CategoryId(row.try_get("id")?),
                identifier: row.try_get("identifier")?,
                name: row.try_get("name")?,
                critical: row.try_get("critical")?,
            };
            Ok(((row.try_get("app_id")?, category.identifier.clone()), Arc::new(category)))
        })
        .collect()
}

async fn insert_categories(connection: &mut PgConnection, keys: &BTreeSet<CategoryKey>) -> Result<(), Error> {
    let (apps, identifiers): (Vec<i64>, Vec<&str>) =
        keys.iter().map(|(app, name)| (*app, name.as_str())).unzip();
    sqlx::query(
        "INSERT INTO category (app_id, identifier, name)
         SELECT app_id, identifier, identifier FROM unnest($1::bigint[], $2::text[]) AS new (app_id, identifier)
         ON CONFLICT (app_id, identifier) DO NOTHING",
    )
    .bind(apps)
    .bind(identifiers)
    .execute(connection)
    .await?;
    Ok(())
}

async fn merge_inline_profiles(
    connection: &mut PgConnection,
    turns: &[Turn],
    new: &[bool],
) -> Result<(), Error> {
    let mut updates: BTreeMap<(AppId, &str), Vec<&Object>> = BTreeMap::new();
    for (turn, _) in turns.iter().zip(new).filter(|(_, new)| **new) {
        for recipient in turn.send.turn(turn.turn) {
            if let Some(profile) = &recipient.profile {
                updates.entry((turn.app, &recipient.identifier)).or_default().push(profile);
            }
        }
    }
    user::merge_users(connection, &updates).await
}

type UsersByApp = HashMap<AppId, HashMap<String, (UserNumber, Object)>>;

async fn read_users(connection: &mut PgConnection, turns: &[Turn]) -> Result<UsersByApp, Error> {
    let named: HashSet<(AppId, &str)> = turns
        .iter()
        .flat_map(|turn| {
            turn.send.turn(turn.turn).iter().map(|recipient| (turn.app, recipient.identifier.as_str()))
        })
        .collect();
    let (apps, identifiers): (Vec<i64>, Vec<&str>) =
        named.into_iter().map(|(app, name)| (app.0, name)).unzip();
    let rows = sqlx::query(
        "SELECT app_id, number, identifier, profile FROM app_user
         JOIN unnest($1::bigint[], $2::text[]) AS named (app_id, identifier) USING (app_id, identifier)",
    )
    .bind(apps)
    .bind(identifiers)
    .fetch_all(connection)
    .await?;
    let mut users: UsersByApp = HashMap::new();
    for row in rows {
        let Json(profile): Json<Object> = row.try_get("profile")?;
        let of_app = users.entry(AppId(row.try_get("app_id")?)).or_default();
        of_app.insert(row.try_get("identifier")?, (UserNumber(row.try_get("number")?), profile));
    }
    Ok(users)
}

async fn read_preferences(
    connection: &mut PgConnection,
    turns: &[Turn],
    facts: &mut Facts,
) -> Result<(), Error> {
    let mut asked: BTreeSet<(i64, i64, i64)> = BTreeSet::new();
    for (index, turn) in turns.iter().enumerate() {
        let Some(category) = facts.category(index).filter(|category| !category.critical) else {
            continue;
        };
        let recipients = turn.send.turn(turn.turn).iter();
        let users = recipients.filter_map(|recipient| facts.user(turn.app, &recipient.identifier));
        asked.extend(users.map(|(number, _)| (turn.app.0, number.0, category.id.0)));
    }
    if asked.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query(
        "SELECT app_id, user_number, category_id, channel FROM preference
         JOIN unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS asked (app_id, user_number, category_id)
           USING (app_id, user_number, category_id)
         WHERE NOT enabled",
    )
    .bind(asked.iter().map(|(app, ..)| *app).collect::<Vec<_>>())
    .bind(asked.iter().map(|(_, user, _)| *user).collect::<Vec<_>>())
    .bind(asked.iter().map(|(.., category)| *category).collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    for row in rows {
        let key = (AppId(row.try_get(0)?), CategoryId(row.try_get(2)?), UserNumber(row.try_get(1)?));
        let channel: &str = row.try_get(3)?;
        facts.turned_off.entry(key).or_default().extend(channel.parse::<Channel>());
    }
    Ok(())
}

async fn read_suppressions(connection: &mut PgConnection, facts: &mut Facts) -> Result<(), Error> {
    let mut asked: (Vec<i64>, Vec<&str>, Vec<String>) = Default::default();
    for (app, users) in &facts.users {
        for &channel in facts.providers(*app) {
            for (identifier, (_, profile)) in users {
                for target in plan::targets(channel, identifier, profile) {
                    asked.0.push(app.0);
                    asked.1.push(channel.as_str());
                    asked.2.push(target);
                }
            }
        }
    }
    if asked.0.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query(
        "SELECT app_id, channel, target FROM suppression
         JOIN unnest($1::bigint[], $2::text[], $3::text[]) AS asked (app_id, channel, target)
           USING (app_id, channel, target)",
    )
    .bind(asked.0)
    .bind(asked.1)
    .bind(asked.2)
    .fetch_all(connection)
    .await?;
    for row in rows {
        let channel: &str = row.try_get(1)?;
        let Ok(channel) = channel.parse::<Channel>() else {
            continue;
        };
        facts.suppressed.entry(AppId(row.try_get(0)?)).or_default().insert((channel, row.try_get(2)?));
    }
    Ok(())
}
