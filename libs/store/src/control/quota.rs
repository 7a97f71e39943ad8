//! Quotas: maximum numbers of users, categories and devices of an app.

use std::fmt;

use domain::AppId;
use sqlx::PgConnection;

use crate::{Control, Error};

/// Kind of object whose number is limited per app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Users created by calls made on behalf of users.
    Users,
    Categories,
    /// Devices of all users together.
    Devices,
}

impl Quota {
    /// Limit of an app without its own limit.
    #[must_use]
    pub const fn default_limit(self) -> i64 {
        match self {
            Quota::Users => 1_000_000,
            Quota::Categories => 1_000,
            Quota::Devices => 2_000_000,
        }
    }

    /// Name of the switch that sets the limit.
    #[must_use]
    pub const fn switch(self) -> &'static str {
        match self {
            Quota::Users => "max-users",
            Quota::Categories => "max-categories",
            Quota::Devices => "max-devices",
        }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Quota::Users => "users",
            Quota::Categories => "categories",
            Quota::Devices => "devices",
        })
    }
}

const USERS: &str = "
    SELECT coalesce(sum(used), 0) <= (SELECT coalesce(max_users, $2) FROM app WHERE id = $1)
    FROM app_usage WHERE app_id = $1 AND kind = 'users'";
const DEVICES: &str = "
    SELECT coalesce(sum(used), 0) <= (SELECT coalesce(max_devices, $2) FROM app WHERE id = $1)
    FROM app_usage WHERE app_id = $1 AND kind = 'devices'";
/// Reads at most one category more than the quota allows.
const CATEGORIES: &str = "
    SELECT count(*) <= most FROM (SELECT coalesce(max_categories, $2) AS most FROM app WHERE id = $1) AS quota
    LEFT JOIN LATERAL (SELECT id FROM category WHERE app_id = $1 LIMIT most + 1) AS held ON true GROUP BY most";

/// Checks that the app is within the quota, including the rows added in this transaction.
///
/// # Errors
/// The quota is exceeded, or the database failed. In both cases, the caller must not commit the transaction.
pub(crate) async fn check(connection: &mut PgConnection, app: AppId, quota: Quota) -> Result<(), Error> {
    let statement = match quota {
        Quota::Users => USERS,
        Quota::Categories => CATEGORIES,
        Quota::Devices => DEVICES,
    };
    let within: Option<bool> = sqlx::query_scalar(statement)
        .bind(app.0)
        .bind(quota.default_limit())
        .fetch_optional(connection)
        .await?;
    if within.unwrap_or(true) { Ok(()) } else { Err(Error::QuotaReached(quota)) }
}

impl Control<'_> {
    /// Returns true if a send of the app may name this category: the category exists, or the quota allows creating it.
    pub async fn has_room_for_category(self, app: AppId, identifier: &str) -> Result<bool, Error> {
        let known: bool =
            sqlx::query_scalar("SELECT EXISTS (SELECT FROM category WHERE app_id = $1 AND identifier = $2)")
                .bind(app.0)
                .bind(identifier)
                .fetch_one(&self.0.pool)
                .await?;
        if known {
            return Ok(true);
        }
        let room: Option<i64> = sqlx::query_scalar(CATEGORY_ROOM)
            .bind(vec![app.0])
            .bind(Quota::Categories.default_limit())
            .fetch_optional(&self.0.pool)
            .await?;
        Ok(room.is_none_or(|room| room > 0))
    }
}

/// Number of categories that each app may still create. Reads at most as many categories as the quotas allow.
const CATEGORY_ROOM: &str = "
    SELECT greatest(most - count(held.id), 0) AS room, quota.id AS app_id
    FROM (SELECT id, coalesce(max_categories, $2) AS most FROM app WHERE id = ANY($1)) AS quota
    LEFT JOIN LATERAL (SELECT id FROM category WHERE app_id = quota.id LIMIT most) AS held ON true
    GROUP BY quota.id, most";

/// Returns pairs of an app's id and the number of categories that it may still create.
pub(crate) async fn category_room(
    connection: &mut PgConnection,
    apps: &[i64],
) -> Result<Vec<(i64, i64)>, Error> {
    let rows = sqlx::query_as::<_, (i64, i64)>(CATEGORY_ROOM)
        .bind(apps)
        .bind(Quota::Categories.default_limit())
        .fetch_all(connection)
        .await?;
    Ok(rows.into_iter().map(|(room, app)| (app, room)).collect())
}
