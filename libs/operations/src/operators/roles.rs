//! Roles of operators, given by hand.

use domain::{Action, AppId, Role};
use store::control::operator::role::RoleChange;
pub use store::control::operator::role::SeenRole;

use super::{normal, unchanged};
use crate::{Caller, Object, OperationError, Operations, Permission};

/// Gives an operator a role in one app or, if `app` is None, in all, in place of the former one. The operator's sessions end.
///
/// # Errors
/// Returns [`Object::Operator`] if there is no such operator, [`Conflict::RoleOvertaken`](crate::Conflict::RoleOvertaken) if the operator does
/// not have the role that the caller saw, and [`Conflict::LastAdministrator`](crate::Conflict::LastAdministrator) if no enabled operator would
/// be left with the role admin in all apps.
pub async fn grant(
    operations: &Operations,
    caller: &Caller,
    email: &str,
    (app, role): (Option<AppId>, Role),
    seen: SeenRole,
) -> Result<(), OperationError> {
    let actor = caller.authorize(Action::OperatorGrant, None)?;
    check_own(caller, role, app)?;
    let change = RoleChange { app, role: Some(role), seen };
    let control = operations.store.control();
    let changed = control.change_operator_role(&normal(email), change, actor).await?;
    changed.map(drop).map_err(unchanged)
}

/// Removes a role of an operator. The operator's sessions end.
///
/// # Errors
/// Returns [`Object::OperatorRole`] if the operator does not have one there, and the errors of [`grant`].
pub async fn revoke(
    operations: &Operations,
    caller: &Caller,
    email: &str,
    app: Option<AppId>,
    seen: SeenRole,
) -> Result<(), OperationError> {
    let actor = caller.authorize(Action::OperatorRevoke, None)?;
    let change = RoleChange { app, role: None, seen };
    let control = operations.store.control();
    let changed = control.change_operator_role(&normal(email), change, actor).await?;
    let former = changed.map_err(unchanged)?;
    former.map(drop).ok_or(OperationError::NotFound(Object::OperatorRole))
}

/// Checks that a role is not above those of the caller.
pub(super) fn check_own(caller: &Caller, role: Role, app: Option<AppId>) -> Result<(), OperationError> {
    if caller.has_role(role, app) { Ok(()) } else { Err(OperationError::Denied(Permission::ManageOperators)) }
}
