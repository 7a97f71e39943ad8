//! Roles of operators.

use domain::{Action, Actor, AppId, Role};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::{ADMINISTRATORS, Unchanged};
use crate::database::audit::AuditEntry;
use crate::{Control, Error};

/// A change of an operator's role in one app or, if `app` is None, in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleChange {
    pub app: Option<AppId>,
    /// None removes the role.
    pub role: Option<Role>,
    pub seen: SeenRole,
}

/// The role before a change, as far as the caller knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenRole {
    /// The change replaces any role.
    Any,
    /// The change is refused if the role is another one.
    Exactly(Option<Role>),
}

impl Control<'_> {
    /// Changes a role that was given by hand, and ends the operator's sessions. Returns the former role.
    pub async fn change_operator_role(
        self,
        email: &str,
        change: RoleChange,
        actor: &Actor,
    ) -> Result<Result<Option<Role>, Unchanged>, Error> {
        let mut transaction = self.0.begin().await?;
        let was_administered = is_administered(&mut transaction).await?;
        let operator = sqlx::query_scalar!("SELECT id FROM operator WHERE email = $1 FOR UPDATE", email)
            .fetch_optional(&mut *transaction)
            .await?;
        let Some(operator) = operator else { return Ok(Err(Unchanged::UnknownOperator)) };
        let former = replace(&mut transaction, operator, change).await?;
        let is_seen = match change.seen {
            SeenRole::Any => true,
            SeenRole::Exactly(seen) => seen == former,
        };
        if !is_seen {
            return Ok(Err(Unchanged::Overtaken));
        }
        if was_administered && !is_administered(&mut transaction).await? {
            return Ok(Err(Unchanged::LastAdministrator));
        }
        if former != change.role {
            sqlx::query!("DELETE FROM operator_session WHERE operator_id = $1", operator)
                .execute(&mut *transaction)
                .await?;
            let action = if change.role.is_some() { Action::OperatorGrant } else { Action::OperatorRevoke };
            let subject = operator.to_string();
            let entry = AuditEntry::new(change.app, actor, action, &subject);
            entry.changed(former.map(shown), change.role.map(shown)).write(&mut transaction).await?;
        }
        transaction.commit().await?;
        Ok(Ok(former))
    }
}

fn shown(role: Role) -> Value {
    json!({"role": role})
}

/// Replaces a role. Returns the former one.
async fn replace(
    connection: &mut PgConnection,
    operator: i64,
    change: RoleChange,
) -> Result<Option<Role>, Error> {
    let app = change.app.map(|app| app.0);
    let former = sqlx::query_scalar!(
        "DELETE FROM operator_grant WHERE operator_id = $1 AND app_id IS NOT DISTINCT FROM $2 AND NOT by_claim RETURNING role",
        operator,
        app
    )
    .fetch_optional(&mut *connection)
    .await?;
    if let Some(role) = change.role {
        sqlx::query!(
            "INSERT INTO operator_grant (operator_id, app_id, role) VALUES ($1, $2, $3)",
            operator,
            app,
            role.as_str()
        )
        .execute(connection)
        .await?;
    }
    Ok(former.map(|role| role.parse()).transpose()?)
}

/// Returns true if an enabled operator has the role admin in all apps, given by hand: the provider may take away one by claim at any time. Until
/// the transaction ends, no other one changes that.
pub(super) async fn is_administered(connection: &mut PgConnection) -> Result<bool, Error> {
    sqlx::query!("SELECT pg_advisory_xact_lock($1)", ADMINISTRATORS).execute(&mut *connection).await?;
    let exists = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM operator o JOIN operator_grant g ON g.operator_id = o.id
             WHERE o.disabled_at IS NULL AND g.app_id IS NULL AND g.role = $1 AND NOT g.by_claim) AS "exists!""#,
        Role::Admin.as_str()
    );
    Ok(exists.fetch_one(connection).await?)
}
