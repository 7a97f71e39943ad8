//! Callers of use cases.

use std::net::IpAddr;

use domain::{Actor, AppId, Role};

use crate::{OperationError, Permission};

/// A caller of use cases, with its name for the audit log and its grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    actor: Actor,
    grants: Grants,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Grants {
    All,
    /// The permissions of an API secret, in its app.
    Backend(AppId),
    Roles(Vec<Grant>),
}

/// A role of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub role: Role,
    /// The app to which the role is limited; None for all apps and the installation itself.
    pub app: Option<AppId>,
}

impl Caller {
    /// Returns the caller of a command. It has every permission, because it can read the configuration with the database's
    /// password.
    #[must_use]
    pub fn of_command(account: String) -> Caller {
        Caller { actor: Actor::Cli(account), grants: Grants::All }
    }

    /// Returns a caller that authenticated with the API secret of an app.
    #[must_use]
    pub fn backend(app: AppId, address: IpAddr) -> Caller {
        Caller { actor: Actor::App(address), grants: Grants::Backend(app) }
    }

    /// Returns an operator who signed in to the console.
    #[must_use]
    pub fn operator(number: i64, grants: Vec<Grant>) -> Caller {
        Caller { actor: Actor::Operator(number), grants: Grants::Roles(grants) }
    }

    #[must_use]
    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Checks that the caller has a permission in an app, or in the installation if `app` is None.
    ///
    /// # Errors
    /// Returns [`OperationError::Denied`] if the caller does not have the permission.
    pub fn may(&self, permission: Permission, app: impl Into<Option<AppId>>) -> Result<(), OperationError> {
        let app = app.into();
        let is_granted = match &self.grants {
            Grants::All => true,
            Grants::Backend(own) => permission.is_of_backend() && app == Some(*own),
            Grants::Roles(grants) => grants.iter().any(|grant| {
                grant.role >= permission.least_role() && (grant.app.is_none() || grant.app == app)
            }),
        };
        if is_granted { Ok(()) } else { Err(OperationError::Denied(permission)) }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const SHOP: AppId = AppId(1);
    const OTHER: AppId = AppId(2);

    fn has(caller: &Caller, permission: Permission, app: Option<AppId>) -> bool {
        caller.may(permission, app).is_ok()
    }

    #[test]
    fn a_command_has_every_permission() {
        let caller = Caller::of_command("ada".to_owned());
        for &permission in Permission::ALL {
            assert!(has(&caller, permission, Some(SHOP)) && has(&caller, permission, None), "{permission:?}");
        }
    }

    #[test]
    fn a_backend_has_the_permissions_of_backends_in_its_own_app_only() {
        let caller = Caller::backend(SHOP, Ipv4Addr::LOCALHOST.into());
        for &permission in Permission::ALL {
            assert_eq!(has(&caller, permission, Some(SHOP)), permission.is_of_backend(), "{permission:?}");
            assert!(!has(&caller, permission, Some(OTHER)) && !has(&caller, permission, None));
        }
        assert!(has(&caller, Permission::EraseUsers, Some(SHOP)));
        assert!(!has(&caller, Permission::ManageSecrets, Some(SHOP)));
    }

    #[test]
    fn a_role_includes_lower_roles_and_holds_in_the_apps_that_it_was_granted_for() {
        for &role in Role::ALL {
            let in_shop = Caller::operator(7, vec![Grant { role, app: Some(SHOP) }]);
            let everywhere = Caller::operator(7, vec![Grant { role, app: None }]);
            for &permission in Permission::ALL {
                let is_included = permission.least_role() <= role;
                assert_eq!(has(&in_shop, permission, Some(SHOP)), is_included, "{role} {permission:?}");
                assert!(!has(&in_shop, permission, Some(OTHER)) && !has(&in_shop, permission, None));
                assert_eq!(has(&everywhere, permission, Some(OTHER)), is_included, "{role} {permission:?}");
                assert_eq!(has(&everywhere, permission, None), is_included, "{role} {permission:?}");
            }
        }
        let nothing = Caller::operator(7, Vec::new());
        assert!(!has(&nothing, Permission::View, Some(SHOP)));
    }
}
