//! Search for users. The expressions are those of the indexes in migration 0061.

use std::collections::{HashMap, HashSet};

use domain::content::Object;
use domain::{AppId, UserNumber};
use sqlx::types::Json;

use super::{User, UserRow};
use crate::{Directory, Error};

impl Directory<'_> {
    /// Lists the users with an email address, in order of creation. Case does not matter. The identifier of a user without the key `email`
    /// counts as the address.
    pub async fn users_with_email(
        self,
        app: AppId,
        email: &str,
        after: Option<UserNumber>,
        limit: i64,
    ) -> Result<Vec<User>, Error> {
        let rows = sqlx::query_as!(
            UserRow,
            r#"SELECT number, identifier, profile AS "profile: Json<Object>", created_at FROM app_user
             WHERE app_id = $1 AND number > $3
               AND mailbox_key('email', left(btrim(coalesce(profile ->> 'email', identifier)), 255)) COLLATE "C"
                 = mailbox_key('email', left(btrim($2::text), 255))
             ORDER BY number LIMIT $4"#,
            app.0,
            email,
            after.map_or(0, |number| number.0),
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows.into_iter().map(User::from).collect())
    }

    /// Lists the users with a phone number, in order of creation. Only digits and `+` count.
    pub async fn users_with_phone(
        self,
        app: AppId,
        number: &str,
        after: Option<UserNumber>,
        limit: i64,
    ) -> Result<Vec<User>, Error> {
        let rows = sqlx::query_as!(
            UserRow,
            r#"SELECT number, identifier, profile AS "profile: Json<Object>", created_at FROM app_user
             WHERE app_id = $1 AND number > $3
               AND regexp_replace(replace(left(coalesce(profile ->> 'phoneNumber', profile ->> 'phone'), 255), '(0)', ''),
                   '[^+0-9]', '', 'g') COLLATE "C"
                 = regexp_replace(replace(left($2::text, 255), '(0)', ''), '[^+0-9]', '', 'g')
             ORDER BY number LIMIT $4"#,
            app.0,
            number,
            after.map_or(0, |number| number.0),
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows.into_iter().map(User::from).collect())
    }

    /// Lists at most `limit` users whose identifier, email address or name begins with `start`, in this order. Case does not matter.
    pub async fn search_users(self, app: AppId, start: &str, limit: i64) -> Result<Vec<User>, Error> {
        let found = sqlx::query_file_scalar!("src/directory/user/search.sql", app.0, start, limit)
            .fetch_all(&self.0.pool)
            .await?;
        let mut seen = HashSet::new();
        let found: Vec<i64> = found.into_iter().filter(|number| seen.insert(*number)).collect();
        let shown = found.get(..usize::try_from(limit).unwrap_or_default()).unwrap_or(&found);
        let rows = sqlx::query_as!(
            UserRow,
            r#"SELECT number, identifier, profile AS "profile: Json<Object>", created_at FROM app_user
             WHERE app_id = $1 AND number = ANY($2)"#,
            app.0,
            shown
        )
        .fetch_all(&self.0.pool)
        .await?;
        let mut users: HashMap<_, _> = rows.into_iter().map(|row| (row.number.0, User::from(row))).collect();
        Ok(shown.iter().filter_map(|number| users.remove(number)).collect())
    }
}
