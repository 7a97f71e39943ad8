//! Operators, who sign in to the console, and their one-time codes.

pub mod identity;
pub mod role;
pub mod session;

use std::time::Duration;

use domain::{Action, Actor, AppId, Role, Timestamp};
use sqlx::{PgConnection, Postgres, Transaction};

use crate::control::operator::role::is_administered;
use crate::control::operator::session::{NewSession, insert_session};
use crate::database::audit::AuditEntry;
use crate::{Control, Error};

/// Key of the advisory lock that serializes the creation of the first operator, and changes that may remove the last administrator.
const ADMINISTRATORS: i64 = 0x7469_6469_6e67_7301;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    pub id: i64,
    pub email: String,
    pub disabled: bool,
    pub created_at: Timestamp,
    /// Time of the latest sign-in; None if there was none since release 0.5.0.
    pub signed_in_at: Option<Timestamp>,
    /// Roles given by hand, each with the app to which it is limited; None for all apps and the installation itself.
    pub grants: Vec<(Option<AppId>, Role)>,
    /// Roles by a claim of the OpenID provider, at the latest sign-in.
    pub claimed: Vec<(Option<AppId>, Role)>,
    /// Issuers of the operator's identities at OpenID providers; not read for sessions.
    pub issuers: Vec<String>,
}

/// Reason why an operator is not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unchanged {
    UnknownOperator,
    /// The operator does not have the role that the caller saw.
    Overtaken,
    /// No enabled operator would be left with the role admin in all apps, given by hand.
    LastAdministrator,
}

/// Purpose of a one-time code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodePurpose {
    /// Operator whom the code signs in; None if it creates the first operator.
    pub email: Option<String>,
    /// False if the operator has to choose a new password.
    pub signs_in: bool,
}

/// A code that was used in an open transaction. Nothing changes if this value is dropped without a commit.
#[derive(Debug)]
pub struct UsedCode {
    transaction: Transaction<'static, Postgres>,
    operator: Option<i64>,
}

impl UsedCode {
    /// Signs the operator in, after setting the password if one is given. All other sessions of the operator end with a new password.
    /// A code without an operator creates the first one, an administrator with this email. Returns None if there already is one.
    pub async fn sign_in(
        mut self,
        email: Option<&str>,
        password: Option<&str>,
        session: &NewSession<'_>,
    ) -> Result<Option<i64>, Error> {
        let connection = &mut *self.transaction;
        let operator = match (self.operator, email) {
            (Some(operator), _) => operator,
            (None, Some(email)) => match create_first(connection, email).await? {
                Some(operator) => operator,
                None => return Ok(None),
            },
            (None, None) => return Ok(None),
        };
        if let Some(password) = password {
            sqlx::query!("UPDATE operator SET password = $2 WHERE id = $1", operator, password)
                .execute(&mut *connection)
                .await?;
            sqlx::query!("DELETE FROM operator_session WHERE operator_id = $1", operator)
                .execute(&mut *connection)
                .await?;
        }
        insert_session(connection, operator, session).await?;
        self.transaction.commit().await?;
        Ok(Some(operator))
    }
}

impl Operator {
    fn add(&mut self, app: Option<i64>, role: &str, by_claim: bool) -> Result<(), Error> {
        let roles = if by_claim { &mut self.claimed } else { &mut self.grants };
        roles.push((app.map(AppId), role.parse()?));
        Ok(())
    }
}

impl Control<'_> {
    pub async fn has_operators(self) -> Result<bool, Error> {
        let exists = sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM operator) AS "exists!""#);
        Ok(exists.fetch_one(&self.0.pool).await?)
    }

    /// Creates an operator with one role and without a password. Returns None if the email is taken.
    pub async fn create_operator(
        self,
        email: &str,
        (app, role): (Option<AppId>, Role),
        actor: &Actor,
    ) -> Result<Option<i64>, Error> {
        let mut transaction = self.0.begin().await?;
        let created = insert_operator(&mut transaction, email, app, role).await?;
        let Some(operator) = created else { return Ok(None) };
        let subject = operator.to_string();
        AuditEntry::new(None, actor, Action::OperatorCreate, &subject).write(&mut transaction).await?;
        transaction.commit().await?;
        Ok(Some(operator))
    }

    pub async fn find_operator(self, email: &str) -> Result<Option<Operator>, Error> {
        let row = sqlx::query!(
            r#"SELECT id, email, disabled_at IS NOT NULL AS "disabled!", created_at, signed_in_at,
                 ARRAY(SELECT issuer FROM operator_identity i WHERE i.operator_id = operator.id ORDER BY issuer) AS "issuers!"
             FROM operator WHERE email = $1"#,
            email
        )
        .fetch_optional(&self.0.pool)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let operator = Operator {
            id: row.id,
            email: row.email,
            disabled: row.disabled,
            created_at: row.created_at.into(),
            signed_in_at: row.signed_in_at.map(Timestamp::from),
            grants: Vec::new(),
            claimed: Vec::new(),
            issuers: row.issuers,
        };
        self.with_roles(operator).await.map(Some)
    }

    /// In order of creation.
    pub async fn list_operators(self) -> Result<Vec<Operator>, Error> {
        let rows = sqlx::query!(
            r#"SELECT o.id, email, disabled_at IS NOT NULL AS "disabled!", created_at, signed_in_at,
                    ARRAY(SELECT issuer FROM operator_identity i WHERE i.operator_id = o.id ORDER BY issuer) AS "issuers!",
                    array_agg(g.app_id ORDER BY g.id) AS "apps!: Vec<Option<i64>>",
                    array_agg(g.role ORDER BY g.id) AS "roles!: Vec<Option<String>>",
                    array_agg(g.by_claim ORDER BY g.id) AS "claimed!: Vec<Option<bool>>"
             FROM operator o LEFT JOIN operator_grant g ON g.operator_id = o.id GROUP BY o.id ORDER BY o.id"#
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                let mut operator = Operator {
                    id: row.id,
                    email: row.email,
                    disabled: row.disabled,
                    created_at: row.created_at.into(),
                    signed_in_at: row.signed_in_at.map(Timestamp::from),
                    grants: Vec::new(),
                    claimed: Vec::new(),
                    issuers: row.issuers,
                };
                for ((app, role), claimed) in row.apps.into_iter().zip(row.roles).zip(row.claimed) {
                    let Some(role) = role else { continue };
                    operator.add(app, &role, claimed == Some(true))?;
                }
                Ok(operator)
            })
            .collect()
    }

    /// Reads the roles of an operator.
    async fn with_roles(self, mut operator: Operator) -> Result<Operator, Error> {
        let rows = sqlx::query!(
            "SELECT app_id, role, by_claim FROM operator_grant WHERE operator_id = $1 ORDER BY id",
            operator.id
        )
        .fetch_all(&self.0.pool)
        .await?;
        for row in rows {
            operator.add(row.app_id, &row.role, row.by_claim)?;
        }
        Ok(operator)
    }

    /// Returns id and password of an operator who may sign in.
    pub async fn operator_password(self, email: &str) -> Result<Option<(i64, String)>, Error> {
        let row = sqlx::query!(
            r#"SELECT id, password AS "password!" FROM operator
             WHERE email = $1 AND disabled_at IS NULL AND password IS NOT NULL"#,
            email
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(row.map(|row| (row.id, row.password)))
    }

    /// Disables an operator and ends the operator's sessions and codes, or enables one again.
    pub async fn disable_operator(
        self,
        email: &str,
        disabled: bool,
        actor: &Actor,
    ) -> Result<Result<(), Unchanged>, Error> {
        let mut transaction = self.0.begin().await?;
        let was_administered = is_administered(&mut transaction).await?;
        let operator = sqlx::query_scalar!(
            "UPDATE operator SET disabled_at = CASE WHEN $2 THEN coalesce(disabled_at, now()) END WHERE email = $1
             RETURNING id",
            email,
            disabled
        )
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(operator) = operator else { return Ok(Err(Unchanged::UnknownOperator)) };
        if was_administered && !is_administered(&mut transaction).await? {
            return Ok(Err(Unchanged::LastAdministrator));
        }
        if disabled {
            end_access(&mut transaction, operator).await?;
        }
        let action = if disabled { Action::OperatorDisable } else { Action::OperatorEnable };
        let subject = operator.to_string();
        AuditEntry::new(None, actor, action, &subject).write(&mut transaction).await?;
        transaction.commit().await?;
        Ok(Ok(()))
    }

    /// Stores a code for an operator, in place of the operator's earlier ones; None for the code that creates the first one. An actor writes a
    /// row of the audit log.
    pub async fn put_operator_code(
        self,
        digest: &[u8],
        operator: Option<i64>,
        (signs_in, lifetime): (bool, Duration),
        actor: Option<&Actor>,
    ) -> Result<(), Error> {
        let mut transaction = self.0.begin().await?;
        sqlx::query!("DELETE FROM operator_code WHERE operator_id = $1 OR expires_at <= now()", operator)
            .execute(&mut *transaction)
            .await?;
        sqlx::query!(
            "INSERT INTO operator_code (digest, operator_id, signs_in, expires_at)
             VALUES ($1, $2, $3, now() + make_interval(secs => $4))",
            digest,
            operator,
            signs_in,
            lifetime.as_secs_f64()
        )
        .execute(&mut *transaction)
        .await?;
        if let Some((actor, operator)) = actor.zip(operator) {
            let subject = operator.to_string();
            AuditEntry::new(None, actor, Action::OperatorLink, &subject).write(&mut transaction).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Returns what a valid code is for.
    pub async fn operator_code(self, digest: &[u8]) -> Result<Option<CodePurpose>, Error> {
        let row = sqlx::query!(
            r#"SELECT o.email AS "email?", c.signs_in FROM operator_code c LEFT JOIN operator o ON o.id = c.operator_id
             WHERE c.digest = $1 AND c.expires_at > now() AND o.disabled_at IS NULL
               AND (c.operator_id IS NOT NULL OR NOT EXISTS (SELECT FROM operator))"#,
            digest
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(row.map(|row| CodePurpose { email: row.email, signs_in: row.signs_in }))
    }

    /// Uses up a valid code. A second call with the same code waits for the first one, and returns None.
    pub async fn use_operator_code(self, digest: &[u8]) -> Result<Option<UsedCode>, Error> {
        let mut transaction = self.0.begin().await?;
        let used = sqlx::query_scalar!(
            "DELETE FROM operator_code c WHERE digest = $1 AND expires_at > now()
               AND NOT EXISTS (SELECT FROM operator o WHERE o.id = c.operator_id AND o.disabled_at IS NOT NULL)
             RETURNING operator_id",
            digest
        )
        .fetch_optional(&mut *transaction)
        .await?;
        Ok(used.map(|operator| UsedCode { transaction, operator }))
    }
}

/// Ends the sessions and codes of an operator.
async fn end_access(connection: &mut PgConnection, operator: i64) -> Result<(), Error> {
    sqlx::query!("DELETE FROM operator_session WHERE operator_id = $1", operator)
        .execute(&mut *connection)
        .await?;
    sqlx::query!("DELETE FROM operator_code WHERE operator_id = $1", operator).execute(connection).await?;
    Ok(())
}

/// Two links for the first operator that are used at the same time create one operator.
async fn create_first(connection: &mut PgConnection, email: &str) -> Result<Option<i64>, Error> {
    sqlx::query!("SELECT pg_advisory_xact_lock($1)", ADMINISTRATORS).execute(&mut *connection).await?;
    let exists = sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM operator) AS "exists!""#)
        .fetch_one(&mut *connection)
        .await?;
    if exists {
        return Ok(None);
    }
    let created = insert_operator(connection, email, None, Role::Admin).await?;
    if let Some(operator) = created {
        let subject = operator.to_string();
        let entry = AuditEntry::new(None, &Actor::System, Action::OperatorCreate, &subject);
        entry.write(connection).await?;
    }
    Ok(created)
}

async fn insert_operator(
    connection: &mut PgConnection,
    email: &str,
    app: Option<AppId>,
    role: Role,
) -> Result<Option<i64>, Error> {
    let operator = sqlx::query_scalar!(
        "INSERT INTO operator (email) VALUES ($1) ON CONFLICT (email) DO NOTHING RETURNING id",
        email
    )
    .fetch_optional(&mut *connection)
    .await?;
    let Some(operator) = operator else { return Ok(None) };
    sqlx::query!(
        "INSERT INTO operator_grant (operator_id, app_id, role) VALUES ($1, $2, $3)",
        operator,
        app.map(|app| app.0),
        role.as_str()
    )
    .execute(connection)
    .await?;
    Ok(Some(operator))
}
