//! Identities of operators at an OpenID provider.

use domain::{Action, Actor, AppId, Role};
use serde_json::json;
use sqlx::PgConnection;

use super::end_access;
use super::role::is_administered;
use super::session::{NewSession, insert_session};
use crate::database::audit::AuditEntry;
use crate::{Control, Error};

/// A person who signed in at an OpenID provider.
#[derive(Clone, Debug)]
pub struct ProvenIdentity<'a> {
    pub issuer: &'a str,
    pub subject: &'a str,
    /// Verified, in lower case.
    pub email: &'a str,
    /// Roles by the person's claim, with at most one for each scope. They replace the earlier ones, also if there are none.
    pub roles: &'a [(Option<AppId>, Role)],
}

/// Reason why an identity does not sign in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSignedIn {
    /// No operator has the identity or the email, and no claim gives a role.
    NoOperator,
    Disabled,
    /// The operator with this email has another identity at the provider.
    OtherIdentity,
}

impl Control<'_> {
    /// Finds the operator of an identity, or links the identity to the operator with its email. Creates the operator if a claim gives a
    /// role. Replaces the roles by claim, and opens a session. If the roles changed, the operator's other sessions end.
    pub async fn sign_identity_in(
        self,
        identity: &ProvenIdentity<'_>,
        session: &NewSession<'_>,
    ) -> Result<Result<i64, NotSignedIn>, Error> {
        let mut transaction = self.0.begin().await?;
        // Serializes sign-ins of one person, and changes of roles.
        is_administered(&mut transaction).await?;
        let operator = match operator_of(&mut transaction, identity).await? {
            Ok(operator) => operator,
            Err(reason) => return Ok(Err(reason)),
        };
        replace_claimed(&mut transaction, operator, identity.roles).await?;
        insert_session(&mut transaction, operator, session).await?;
        transaction.commit().await?;
        Ok(Ok(operator))
    }

    /// Removes the identities of an operator, and the roles by claim that came with them. The operator's sessions and codes end. The identity
    /// that signs in next with the operator's email is linked instead. Returns None if there is no such operator, and false if it has no
    /// identity.
    pub async fn unlink_operator(self, email: &str, actor: &Actor) -> Result<Option<bool>, Error> {
        let mut transaction = self.0.begin().await?;
        is_administered(&mut transaction).await?;
        let operator = sqlx::query_scalar!("SELECT id FROM operator WHERE email = $1 FOR UPDATE", email)
            .fetch_optional(&mut *transaction)
            .await?;
        let Some(operator) = operator else { return Ok(None) };
        let issuers = sqlx::query_scalar!(
            "DELETE FROM operator_identity WHERE operator_id = $1 RETURNING issuer",
            operator
        )
        .fetch_all(&mut *transaction)
        .await?;
        if issuers.is_empty() {
            return Ok(Some(false));
        }
        sqlx::query!("DELETE FROM operator_grant WHERE operator_id = $1 AND by_claim", operator)
            .execute(&mut *transaction)
            .await?;
        end_access(&mut transaction, operator).await?;
        let subject = operator.to_string();
        let entry = AuditEntry::new(None, actor, Action::OperatorUnlink, &subject);
        entry.changed(Some(json!({"issuers": issuers})), None).write(&mut transaction).await?;
        transaction.commit().await?;
        Ok(Some(true))
    }
}

async fn operator_of(
    connection: &mut PgConnection,
    identity: &ProvenIdentity<'_>,
) -> Result<Result<i64, NotSignedIn>, Error> {
    let known = sqlx::query!(
        r#"SELECT o.id, o.disabled_at IS NOT NULL AS "disabled!" FROM operator_identity i JOIN operator o ON o.id = i.operator_id
         WHERE i.issuer = $1 AND i.subject = $2"#,
        identity.issuer,
        identity.subject
    )
    .fetch_optional(&mut *connection)
    .await?;
    if let Some(known) = known {
        return Ok(if known.disabled { Err(NotSignedIn::Disabled) } else { Ok(known.id) });
    }
    let named = sqlx::query!(
        r#"SELECT o.id, o.disabled_at IS NOT NULL AS "disabled!",
             EXISTS (SELECT FROM operator_identity i WHERE i.operator_id = o.id AND i.issuer = $2) AS "has_identity!"
         FROM operator o WHERE o.email = $1"#,
        identity.email,
        identity.issuer
    )
    .fetch_optional(&mut *connection)
    .await?;
    let operator = match named {
        Some(named) if named.disabled => return Ok(Err(NotSignedIn::Disabled)),
        Some(named) if named.has_identity => return Ok(Err(NotSignedIn::OtherIdentity)),
        Some(named) => named.id,
        None if identity.roles.is_empty() => return Ok(Err(NotSignedIn::NoOperator)),
        None => create(connection, identity.email).await?,
    };
    sqlx::query!(
        "INSERT INTO operator_identity (issuer, subject, operator_id) VALUES ($1, $2, $3)",
        identity.issuer,
        identity.subject,
        operator
    )
    .execute(&mut *connection)
    .await?;
    let subject = operator.to_string();
    let entry = AuditEntry::new(None, &Actor::System, Action::OperatorIdentity, &subject);
    entry.changed(None, Some(json!({"issuer": identity.issuer}))).write(connection).await?;
    Ok(Ok(operator))
}

async fn create(connection: &mut PgConnection, email: &str) -> Result<i64, Error> {
    let operator = sqlx::query_scalar!("INSERT INTO operator (email) VALUES ($1) RETURNING id", email)
        .fetch_one(&mut *connection)
        .await?;
    let subject = operator.to_string();
    AuditEntry::new(None, &Actor::System, Action::OperatorCreate, &subject).write(connection).await?;
    Ok(operator)
}

async fn replace_claimed(
    connection: &mut PgConnection,
    operator: i64,
    roles: &[(Option<AppId>, Role)],
) -> Result<(), Error> {
    let former = sqlx::query!(
        "DELETE FROM operator_grant WHERE operator_id = $1 AND by_claim RETURNING app_id, role",
        operator
    )
    .fetch_all(&mut *connection)
    .await?;
    for (app, role) in roles {
        sqlx::query!(
            "INSERT INTO operator_grant (operator_id, app_id, role, by_claim) VALUES ($1, $2, $3, true)",
            operator,
            app.map(|app| app.0),
            role.as_str()
        )
        .execute(&mut *connection)
        .await?;
    }
    let described = |roles: Vec<(Option<i64>, String)>| {
        let mut roles: Vec<_> =
            roles.into_iter().map(|(app, role)| json!({"app": app, "role": role})).collect();
        roles.sort_by_key(ToString::to_string);
        json!({"byClaim": roles})
    };
    let former = described(former.into_iter().map(|row| (row.app_id, row.role)).collect());
    let now = described(roles.iter().map(|(app, role)| (app.map(|app| app.0), role.to_string())).collect());
    if former != now {
        sqlx::query!("DELETE FROM operator_session WHERE operator_id = $1", operator)
            .execute(&mut *connection)
            .await?;
        let subject = operator.to_string();
        let entry = AuditEntry::new(None, &Actor::System, Action::OperatorGrant, &subject);
        entry.changed(Some(former), Some(now)).write(connection).await?;
    }
    Ok(())
}
