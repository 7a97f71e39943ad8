use std::fmt;

use domain::{AppId, app_setting};
use sqlx::PgConnection;

use crate::{Control, Error};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Only calls made on behalf of users check this quota.
    Users,
    Categories,
    /// Across all users.
    Devices,
    Topics,
    /// To all topics.
    Subscriptions,
}

impl Quota {
    #[must_use]
    pub const fn default_limit(self) -> i64 {
        let limit = match self {
            Quota::Users => app_setting::DEFAULT_USERS,
            Quota::Categories => app_setting::DEFAULT_CATEGORIES,
            Quota::Devices => app_setting::DEFAULT_DEVICES,
            Quota::Topics => app_setting::DEFAULT_TOPICS,
            Quota::Subscriptions => app_setting::DEFAULT_SUBSCRIPTIONS,
        };
        limit as i64
    }

    #[must_use]
    pub const fn switch(self) -> &'static str {
        match self {
            Quota::Users => "max-users",
            Quota::Categories => "max-categories",
            Quota::Devices => "max-devices",
            Quota::Topics => "max-topics",
            Quota::Subscriptions => "max-subscriptions",
        }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Quota::Users => "users",
            Quota::Categories => "categories",
            Quota::Devices => "devices",
            Quota::Topics => "topics",
            Quota::Subscriptions => "subscriptions",
        })
    }
}

/// Checks the quota, including rows that the open transaction has added. After [`Error::QuotaReached`], the caller must not commit the
/// transaction.
pub(crate) async fn check(connection: &mut PgConnection, app: AppId, quota: Quota) -> Result<(), Error> {
    let most = quota.default_limit();
    // Compares the usage that triggers count with a column of the app.
    macro_rules! usage_within {
        ($limit:literal, $kind:literal) => {
            sqlx::query_scalar!(
                "SELECT coalesce(sum(used), 0) <= (SELECT coalesce("
                    + $limit
                    + ", $2) FROM app WHERE id = $1)
                 FROM app_usage WHERE app_id = $1 AND kind = "
                    + $kind,
                app.0,
                most
            )
            .fetch_optional(connection)
            .await?
        };
    }
    let within = match quota {
        Quota::Users => usage_within!("max_users", "'users'"),
        Quota::Devices => usage_within!("max_devices", "'devices'"),
        Quota::Topics => usage_within!("max_topics", "'topics'"),
        Quota::Subscriptions => usage_within!("max_subscriptions", "'subscriptions'"),
        // The `LIMIT` makes the statement read at most one category more than the quota allows.
        Quota::Categories => {
            sqlx::query_scalar!(
                "SELECT count(*) <= most
                 FROM (SELECT coalesce(max_categories, $2) AS most FROM app WHERE id = $1) AS quota
                 LEFT JOIN LATERAL (SELECT id FROM category WHERE app_id = $1 LIMIT most + 1) AS held ON true
                 GROUP BY most",
                app.0,
                most
            )
            .fetch_optional(connection)
            .await?
        }
    };
    if within.flatten().unwrap_or(true) { Ok(()) } else { Err(Error::QuotaReached(quota)) }
}

impl Control<'_> {
    /// Returns true if the category exists or the quota allows the app to create it.
    pub async fn has_room_for_category(self, app: AppId, identifier: &str) -> Result<bool, Error> {
        let known = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM category WHERE app_id = $1 AND identifier = $2) AS "known!""#,
            app.0,
            identifier
        )
        .fetch_one(&self.0.pool)
        .await?;
        if known {
            return Ok(true);
        }
        let mut connection = self.0.pool.acquire().await?;
        let room = category_room(&mut connection, &[app.0]).await?;
        Ok(room.first().is_none_or(|(_, room)| *room > 0))
    }
}

/// Returns the number of categories that each app may still create. Reads no more categories per app than the quota allows.
pub(crate) async fn category_room(
    connection: &mut PgConnection,
    apps: &[i64],
) -> Result<Vec<(i64, i64)>, Error> {
    let rows = sqlx::query!(
        r#"SELECT greatest(most - count(held.id), 0) AS "room!", quota.id AS "app_id!"
           FROM (SELECT id, coalesce(max_categories, $2) AS most FROM app WHERE id = ANY($1)) AS quota
           LEFT JOIN LATERAL (SELECT id FROM category WHERE app_id = quota.id LIMIT most) AS held ON true
           GROUP BY quota.id, most"#,
        apps,
        Quota::Categories.default_limit()
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.app_id, row.room)).collect())
}
