//! Sessions of operators.

use std::time::Duration;

use domain::{Action, Actor, Timestamp};
use sqlx::PgConnection;

use super::Operator;
use crate::database::audit::AuditEntry;
use crate::database::instant::instant;
use crate::{Control, Error};

/// Number of bytes of a digest that name a session of a known operator.
const NAME_BYTES: i32 = 8;

/// A session to open.
#[derive(Clone, Debug)]
pub struct NewSession<'a> {
    /// SHA-256 of the token.
    pub digest: &'a [u8],
    pub lifetime: Duration,
    /// `password`, `link` or `oidc`.
    pub method: &'a str,
    /// Time at which the OpenID provider authenticated the operator, if it named one.
    pub authenticated_at: Option<Timestamp>,
    /// Network of the client, without the part that may identify a person.
    pub network: &'a str,
    /// Browser and system.
    pub browser: &'a str,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSession {
    /// First bytes of the digest.
    pub name: Vec<u8>,
    pub started_at: Timestamp,
    pub seen_at: Timestamp,
    pub method: Option<String>,
    pub network: Option<String>,
    pub browser: Option<String>,
    /// True for the session that reads the list.
    pub is_own: bool,
}

/// Proof with which the operator of a session confirms a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionProof {
    pub operator: i64,
    pub password: Option<String>,
    /// True if an OpenID provider signed the operator in.
    pub by_provider: bool,
    /// True if the operator signed in a short time ago. If an OpenID provider did that, the time that it named counts, unless it is ahead by
    /// more than a minute.
    pub is_recent: bool,
}

impl Control<'_> {
    pub async fn open_operator_session(self, operator: i64, session: &NewSession<'_>) -> Result<(), Error> {
        let mut transaction = self.0.begin().await?;
        sqlx::query!("DELETE FROM operator_session WHERE expires_at <= now()")
            .execute(&mut *transaction)
            .await?;
        insert_session(&mut transaction, operator, session).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Returns the operator of a session that has neither expired nor been idle for too long, and keeps the session from becoming idle. The
    /// text is the method of the sign-in.
    pub async fn operator_of_session(
        self,
        digest: &[u8],
        idle: Duration,
        noted_each: Duration,
    ) -> Result<Option<(Operator, Option<String>)>, Error> {
        let row = sqlx::query!(
            r#"SELECT o.id, o.email, o.created_at, o.signed_in_at, s.method,
                 s.seen_at < now() - make_interval(secs => $3) AS "noted_before!"
             FROM operator_session s JOIN operator o ON o.id = s.operator_id
             WHERE s.digest = $1 AND s.expires_at > now() AND s.seen_at > now() - make_interval(secs => $2)
               AND o.disabled_at IS NULL"#,
            digest,
            idle.as_secs_f64(),
            noted_each.as_secs_f64()
        )
        .fetch_optional(&self.0.pool)
        .await?;
        let Some(row) = row else { return Ok(None) };
        if row.noted_before {
            sqlx::query!("UPDATE operator_session SET seen_at = now() WHERE digest = $1", digest)
                .execute(&self.0.pool)
                .await?;
        }
        let operator = Operator {
            id: row.id,
            email: row.email,
            disabled: false,
            created_at: row.created_at.into(),
            signed_in_at: row.signed_in_at.map(Timestamp::from),
            grants: Vec::new(),
            claimed: Vec::new(),
            issuers: Vec::new(),
        };
        Ok(Some((self.with_roles(operator).await?, row.method)))
    }

    /// Returns the proof of the operator of a session. It is recent within `recent`.
    pub async fn session_proof(self, digest: &[u8], recent: Duration) -> Result<Option<SessionProof>, Error> {
        let row = sqlx::query!(
            r#"SELECT o.id, o.password, coalesce(s.method = 'oidc', false) AS "by_provider!",
                 coalesce(CASE WHEN s.method = 'oidc' THEN s.authenticated_at ELSE s.created_at END
                   BETWEEN now() - make_interval(secs => $2) AND now() + interval '1 minute', false) AS "is_recent!"
             FROM operator_session s JOIN operator o ON o.id = s.operator_id
             WHERE s.digest = $1 AND s.expires_at > now() AND o.disabled_at IS NULL"#,
            digest,
            recent.as_secs_f64()
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(row.map(|row| SessionProof {
            operator: row.id,
            password: row.password,
            by_provider: row.by_provider,
            is_recent: row.is_recent,
        }))
    }

    pub async fn end_operator_session(self, digest: &[u8]) -> Result<(), Error> {
        sqlx::query!("DELETE FROM operator_session WHERE digest = $1", digest).execute(&self.0.pool).await?;
        Ok(())
    }

    /// Lists the sessions of the operator of a session that are neither expired nor idle for too long, latest use first.
    pub async fn sessions_beside(self, digest: &[u8], idle: Duration) -> Result<Vec<OpenSession>, Error> {
        let rows = sqlx::query!(
            r#"SELECT substr(s.digest, 1, $3) AS "name!", s.created_at, s.seen_at, s.method, s.network, s.browser,
                 s.digest = $1 AS "is_own!"
             FROM operator_session s JOIN operator_session own ON own.operator_id = s.operator_id
             WHERE own.digest = $1 AND s.expires_at > now() AND s.seen_at > now() - make_interval(secs => $2)
             ORDER BY s.digest = $1 DESC, s.seen_at DESC"#,
            digest,
            idle.as_secs_f64(),
            NAME_BYTES
        )
        .fetch_all(&self.0.pool)
        .await?;
        let sessions = rows.into_iter().map(|row| OpenSession {
            name: row.name,
            started_at: row.created_at.into(),
            seen_at: row.seen_at.into(),
            method: row.method,
            network: row.network,
            browser: row.browser,
            is_own: row.is_own,
        });
        Ok(sessions.collect())
    }

    /// Ends another session of the operator of a session: the one with a name or, if it is None, all. Returns their number.
    pub async fn end_sessions_beside(self, digest: &[u8], name: Option<&[u8]>) -> Result<u64, Error> {
        let ended = sqlx::query!(
            "DELETE FROM operator_session s USING operator_session own
             WHERE own.digest = $1 AND s.operator_id = own.operator_id AND s.digest <> $1
               AND ($2::bytea IS NULL OR substr(s.digest, 1, $3) = $2)",
            digest,
            name,
            NAME_BYTES
        );
        Ok(ended.execute(&self.0.pool).await?.rows_affected())
    }

    /// Sets the password of an operator, and ends the operator's codes and sessions except one.
    pub async fn set_operator_password(
        self,
        operator: i64,
        password: &str,
        kept: &[u8],
        actor: &Actor,
    ) -> Result<(), Error> {
        let mut transaction = self.0.begin().await?;
        sqlx::query!("UPDATE operator SET password = $2 WHERE id = $1", operator, password)
            .execute(&mut *transaction)
            .await?;
        sqlx::query!("DELETE FROM operator_session WHERE operator_id = $1 AND digest <> $2", operator, kept)
            .execute(&mut *transaction)
            .await?;
        sqlx::query!("DELETE FROM operator_code WHERE operator_id = $1", operator)
            .execute(&mut *transaction)
            .await?;
        let subject = operator.to_string();
        AuditEntry::new(None, actor, Action::OperatorPassword, &subject).write(&mut transaction).await?;
        transaction.commit().await?;
        Ok(())
    }
}

pub(super) async fn insert_session(
    connection: &mut PgConnection,
    operator: i64,
    session: &NewSession<'_>,
) -> Result<(), Error> {
    sqlx::query!(
        "INSERT INTO operator_session (digest, operator_id, expires_at, method, authenticated_at, network, browser)
         VALUES ($1, $2, now() + make_interval(secs => $3), $4, $5, $6, $7)",
        session.digest,
        operator,
        session.lifetime.as_secs_f64(),
        session.method,
        session.authenticated_at.map(instant),
        session.network,
        session.browser
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!("UPDATE operator SET signed_in_at = now() WHERE id = $1", operator)
        .execute(connection)
        .await?;
    Ok(())
}
