//! Bearer tokens of the admin API.

use std::time::Duration;

use domain::{Action, Actor, AppId, Role, Timestamp};
use serde_json::json;

use crate::database::audit::AuditEntry;
use crate::{Control, Error};

/// Maximum number of tokens in a list.
const MOST_LISTED: i64 = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminToken {
    pub id: i64,
    /// Unique in the installation, also after the token has ended.
    pub name: String,
    /// None for all apps and the installation itself.
    pub app: Option<AppId>,
    pub role: Role,
    /// Author in the form of the audit log.
    pub created_by: String,
    /// Email of the operator whose roles limit the token; None if a command created it, or the token that created it.
    pub creator: Option<String>,
    /// Role that a call has now; None if the creator has none there.
    pub role_now: Option<Role>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
    /// Time of the latest call, to the minute.
    pub seen_at: Option<Timestamp>,
}

impl AdminToken {
    /// Returns `valid`, `expired` or `revoked`.
    #[must_use]
    pub fn state(&self, now: Timestamp) -> &'static str {
        match self.revoked_at {
            Some(_) => "revoked",
            None if self.expires_at <= now => "expired",
            None => "valid",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct NewAdminToken<'a> {
    pub name: &'a str,
    pub app: Option<AppId>,
    pub role: Role,
    pub lifetime: Duration,
}

/// The present rights of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenGrant {
    pub id: i64,
    pub name: String,
    pub app: Option<AppId>,
    pub role: Role,
}

impl Control<'_> {
    /// Returns the expiry of the new token, or None if the name is taken.
    pub async fn create_admin_token(
        self,
        new: NewAdminToken<'_>,
        digest: &[u8],
        actor: &Actor,
    ) -> Result<Option<Timestamp>, Error> {
        let mut transaction = self.0.begin().await?;
        let expires_at = sqlx::query_scalar!(
            "INSERT INTO admin_token (digest, name, app_id, role, created_by, expires_at)
             VALUES ($1, $2, $3, $4, $5, now() + make_interval(secs => $6)) ON CONFLICT (name) DO NOTHING
             RETURNING expires_at",
            digest,
            new.name,
            new.app.map(|app| app.0),
            new.role.as_str(),
            actor.to_string(),
            new.lifetime.as_secs_f64()
        )
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(expires_at) = expires_at.map(Timestamp::from) else { return Ok(None) };
        let entry = AuditEntry::new(new.app, actor, Action::TokenCreate, new.name);
        let after = json!({"role": new.role, "expiresAt": expires_at});
        entry.changed(None, Some(after)).write(&mut transaction).await?;
        transaction.commit().await?;
        Ok(Some(expires_at))
    }

    /// Lists the latest 1,000 tokens of an app or, if `app` is None, of the installation and all apps. Ended ones are among them.
    pub async fn list_admin_tokens(self, app: Option<AppId>) -> Result<Vec<AdminToken>, Error> {
        let rows = sqlx::query!(
            r#"WITH RECURSIVE source AS (
               (SELECT id, app_id, created_by AS author FROM admin_token
                WHERE $1::bigint IS NULL OR app_id = $1 ORDER BY id DESC LIMIT $2)
               UNION ALL
               SELECT s.id, s.app_id, t.created_by
               FROM source s JOIN admin_token t ON s.author LIKE 'token:%' AND t.name = substr(s.author, 7)
             )
             SELECT t.id, t.name, t.app_id, t.role, t.created_by, t.created_at, t.expires_at, t.revoked_at, t.seen_at,
               o.email AS "creator?", s.author LIKE 'operator:%' AS "is_by_operator!", ARRAY(
                 SELECT g.role FROM operator_grant g
                 WHERE g.operator_id = o.id AND o.disabled_at IS NULL AND (g.app_id IS NULL OR g.app_id = t.app_id)
               ) AS "roles!"
             FROM source s JOIN admin_token t ON t.id = s.id
             LEFT JOIN operator o ON o.id = CASE WHEN s.author LIKE 'operator:%' THEN substr(s.author, 10)::bigint END
             WHERE s.author NOT LIKE 'token:%' ORDER BY t.id DESC"#,
            app.map(|app| app.0),
            MOST_LISTED
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                let role = row.role.parse()?;
                Ok(AdminToken {
                    id: row.id,
                    name: row.name,
                    app: row.app_id.map(AppId),
                    role,
                    created_by: row.created_by,
                    creator: row.creator,
                    role_now: role_now(role, row.is_by_operator, &row.roles)?,
                    created_at: row.created_at.into(),
                    expires_at: row.expires_at.into(),
                    revoked_at: row.revoked_at.map(Timestamp::from),
                    seen_at: row.seen_at.map(Timestamp::from),
                })
            })
            .collect()
    }

    /// Returns the app to which a token is limited. The outer option is None if no valid token has the name.
    pub async fn scope_of_admin_token(self, name: &str) -> Result<Option<Option<AppId>>, Error> {
        let app = sqlx::query_scalar!(
            "SELECT app_id FROM admin_token WHERE name = $1 AND revoked_at IS NULL AND expires_at > now()",
            name
        );
        Ok(app.fetch_optional(&self.0.pool).await?.map(|app| app.map(AppId)))
    }

    /// Ends a token. Returns false if no valid token of this scope has the name.
    pub async fn revoke_admin_token(
        self,
        name: &str,
        app: Option<AppId>,
        actor: &Actor,
    ) -> Result<bool, Error> {
        let mut transaction = self.0.begin().await?;
        let revoked = sqlx::query!(
            "UPDATE admin_token SET revoked_at = now()
             WHERE name = $1 AND app_id IS NOT DISTINCT FROM $2 AND revoked_at IS NULL AND expires_at > now()",
            name,
            app.map(|app| app.0)
        )
        .execute(&mut *transaction)
        .await?;
        if revoked.rows_affected() == 0 {
            return Ok(false);
        }
        AuditEntry::new(app, actor, Action::TokenRevoke, name).write(&mut transaction).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Returns the present rights of a valid token, and notes the call at most once per `noted_each`. A token has no role above those of the
    /// operator who created it, or who created the token that did. Returns None if that operator has none there.
    pub async fn admin_token(self, digest: &[u8], noted_each: Duration) -> Result<Option<TokenGrant>, Error> {
        let row = sqlx::query!(
            r#"WITH RECURSIVE source AS (
               SELECT id, name, app_id, role, created_by AS author,
                 coalesce(seen_at < now() - make_interval(secs => $2), true) AS is_to_note
               FROM admin_token WHERE digest = $1 AND revoked_at IS NULL AND expires_at > now()
               UNION ALL
               SELECT s.id, s.name, s.app_id, s.role, t.created_by, s.is_to_note
               FROM source s JOIN admin_token t ON s.author LIKE 'token:%' AND t.name = substr(s.author, 7)
             )
             SELECT id AS "id!", name AS "name!", app_id, role AS "role!", is_to_note AS "is_to_note!",
               author LIKE 'operator:%' AS "is_by_operator!", ARRAY(
                 SELECT g.role FROM operator o JOIN operator_grant g ON g.operator_id = o.id
                 WHERE o.id = CASE WHEN author LIKE 'operator:%' THEN substr(author, 10)::bigint END
                   AND o.disabled_at IS NULL AND (g.app_id IS NULL OR g.app_id = source.app_id)
               ) AS "roles!"
             FROM source WHERE author NOT LIKE 'token:%'"#,
            digest,
            noted_each.as_secs_f64()
        )
        .fetch_optional(&self.0.pool)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let role = role_now(row.role.parse()?, row.is_by_operator, &row.roles)?;
        let Some(role) = role else { return Ok(None) };
        if row.is_to_note {
            sqlx::query!("UPDATE admin_token SET seen_at = now() WHERE id = $1", row.id)
                .execute(&self.0.pool)
                .await?;
        }
        Ok(Some(TokenGrant { id: row.id, name: row.name, app: row.app_id.map(AppId), role }))
    }
}

/// Returns the lower one of a token's role and the highest role of its creator; None if the creator has none.
fn role_now(role: Role, is_by_operator: bool, roles: &[String]) -> Result<Option<Role>, Error> {
    if !is_by_operator {
        return Ok(Some(role));
    }
    let roles = roles.iter().map(|role| role.parse::<Role>()).collect::<Result<Vec<_>, _>>()?;
    Ok(roles.into_iter().max().map(|highest| role.min(highest)))
}
