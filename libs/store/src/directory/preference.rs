use std::collections::BTreeMap;

use domain::content::Object;
use domain::problem::UnknownName;
use domain::{AppId, CategoryId, Channel, UserNumber};

use crate::database::columns::columns;
use crate::directory::device::claim_user;
use crate::directory::user::proof::Writer;
use crate::{Directory, Error};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CategoryPreference {
    pub category: CategoryId,
    pub identifier: String,
    pub name: String,
    /// Channels that the user turned on (true) or off (false). Does not contain channels for which the user made no choice.
    pub channels: BTreeMap<Channel, bool>,
}

impl Directory<'_> {
    /// In the order in which the categories were created. Empty for an unknown user.
    pub async fn list_preferences(
        self,
        app: AppId,
        identifier: &str,
    ) -> Result<Vec<CategoryPreference>, Error> {
        let rows = sqlx::query!(
            "SELECT c.id, c.identifier, c.name, p.channel, p.enabled FROM app_user u
             JOIN preference p ON p.app_id = u.app_id AND p.user_number = u.number
             JOIN category c ON c.app_id = p.app_id AND c.id = p.category_id
             WHERE u.app_id = $1 AND u.identifier = $2 ORDER BY c.id",
            app.0,
            identifier
        )
        .fetch_all(&self.0.pool)
        .await?;
        let mut preferences: Vec<CategoryPreference> = Vec::new();
        for row in rows {
            let category = CategoryId(row.id);
            let channel =
                row.channel.parse().map_err(|error: UnknownName| Error::Unreadable(error.to_string()))?;
            match preferences.last_mut().filter(|last| last.category == category) {
                Some(last) => last.channels.extend([(channel, row.enabled)]),
                None => preferences.push(CategoryPreference {
                    category,
                    identifier: row.identifier,
                    name: row.name,
                    channels: BTreeMap::from([(channel, row.enabled)]),
                }),
            }
        }
        Ok(preferences)
    }

    /// Creates the user if necessary. Ignores choices for categories that do not exist.
    pub async fn set_preferences(
        self,
        app: AppId,
        writer: impl Into<Writer<'_>>,
        choices: &BTreeMap<(CategoryId, Channel), bool>,
    ) -> Result<(), Error> {
        let writer = writer.into();
        let _turn = self.0.writers.turn(app, writer.user).await;
        let mut transaction = self.0.begin().await?;
        let user = claim_user(&mut transaction, app, writer, &Object::new()).await?;
        let wanted: Vec<i64> = choices.keys().map(|(category, _)| category.0).collect();
        // Lock the categories, so that no category is deleted before its preferences are written.
        let existing = sqlx::query_scalar!(
            "SELECT id FROM category WHERE app_id = $1 AND id = ANY($2) ORDER BY id FOR KEY SHARE",
            app.0,
            &wanted
        )
        .fetch_all(&mut *transaction)
        .await?;
        let exists = |category: CategoryId| existing.binary_search(&category.0).is_ok();
        let kept: Vec<_> = choices.iter().filter(|((category, _), _)| exists(*category)).collect();
        columns! { ((category, channel), enabled) in kept =>
            categories = category.0,
            channels = channel.as_str().to_owned(),
            states = **enabled,
        }
        sqlx::query!(
            "INSERT INTO preference (app_id, user_number, category_id, channel, enabled)
             SELECT $1, $2, category_id, channel, enabled
             FROM unnest($3::bigint[], $4::text[], $5::boolean[]) AS new (category_id, channel, enabled)
             ON CONFLICT (app_id, user_number, category_id, channel) DO UPDATE SET enabled = excluded.enabled",
            app.0,
            user.0,
            &categories,
            &channels,
            &states
        )
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(())
    }
}

/// Data for the page on which a user unsubscribes from a category.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Name of the app, as its users know it.
    pub app: String,
    /// Display name of the category.
    pub category: String,
    pub critical: bool,
}

impl Directory<'_> {
    /// None if the user or the category does not exist.
    pub async fn subscription(
        self,
        app: AppId,
        user: UserNumber,
        category: CategoryId,
    ) -> Result<Option<Subscription>, Error> {
        let subscription = sqlx::query_as!(
            Subscription,
            r#"SELECT coalesce(a.brand_name, a.name) AS "app!", c.name AS category, c.critical FROM app a
             JOIN app_user u ON u.app_id = a.id AND u.number = $2
             JOIN category c ON c.app_id = a.id AND c.id = $3 WHERE a.id = $1"#,
            app.0,
            user.0,
            category.0
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(subscription)
    }

    /// Returns the choices of a user; empty for an unknown user.
    pub async fn choices(
        self,
        app: AppId,
        user: UserNumber,
    ) -> Result<BTreeMap<(CategoryId, Channel), bool>, Error> {
        let rows = sqlx::query!(
            "SELECT category_id, channel, enabled FROM preference WHERE app_id = $1 AND user_number = $2",
            app.0,
            user.0
        )
        .fetch_all(&self.0.pool)
        .await?;
        let mut choices = BTreeMap::new();
        for row in rows {
            let channel =
                row.channel.parse().map_err(|error: UnknownName| Error::Unreadable(error.to_string()))?;
            choices.insert((CategoryId(row.category_id), channel), row.enabled);
        }
        Ok(choices)
    }

    /// Sets choices of an existing user. Ignores those for critical categories and for categories that do not exist. Returns the number
    /// of choices that were set; 0 if the user does not exist.
    pub async fn choose(
        self,
        app: AppId,
        user: UserNumber,
        choices: &BTreeMap<(CategoryId, Channel), bool>,
    ) -> Result<u64, Error> {
        columns! { ((category, channel), enabled) in choices =>
            categories = category.0,
            channels = channel.as_str().to_owned(),
            states = *enabled,
        }
        let set = sqlx::query!(
            "INSERT INTO preference (app_id, user_number, category_id, channel, enabled)
             SELECT u.app_id, u.number, c.id, new.channel, new.enabled FROM app_user u
             JOIN unnest($3::bigint[], $4::text[], $5::boolean[]) AS new (category_id, channel, enabled) ON true
             JOIN category c ON c.app_id = u.app_id AND c.id = new.category_id AND NOT c.critical
             WHERE u.app_id = $1 AND u.number = $2 ORDER BY c.id, new.channel FOR KEY SHARE OF u, c
             ON CONFLICT (app_id, user_number, category_id, channel) DO UPDATE SET enabled = excluded.enabled",
            app.0,
            user.0,
            &categories,
            &channels,
            &states
        )
        .execute(&self.0.pool)
        .await?;
        Ok(set.rows_affected())
    }
}
