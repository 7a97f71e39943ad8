//! Callers of use cases.

use std::net::IpAddr;

use credentials::link::{Link, Purpose};
use domain::profile::Author;
use domain::{Action, Actor, AppId, CategoryId, Channel, Origin, Role, SendId, UserNumber};
use store::control::app::App;
use store::directory::user::proof::Writer;

use crate::permission::Holder;
use crate::{OperationError, Permission};

/// A caller of use cases, with its grants and its name for the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// None if the audit log records no change by such callers.
    actor: Option<Actor>,
    grants: Grants,
    subject: Subject,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Grants {
    All,
    Roles(Vec<Grant>),
    /// The permissions of a kind of caller, in one app.
    In(AppId, Holder),
}

/// The data to which use cases limit the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// Everything that the grants cover.
    All,
    User(OwnUser),
    Link(Link),
    Provider(ProviderAccount),
}

/// A role of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub role: Role,
    /// The app to which the role is limited; None for all apps and the installation itself.
    pub app: Option<AppId>,
}

/// The user for whom a caller acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnUser {
    pub app: AppId,
    /// The user's identifier. The user may not exist yet.
    pub identifier: String,
    /// Caller, as far as it proved who it is.
    pub author: Author,
}

/// A provider that signed its call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderAccount {
    pub app: AppId,
    pub channel: Channel,
    pub identifier: String,
}

impl Caller {
    /// Returns the caller of a command. It has every permission, because it can read the configuration with the database's
    /// password.
    #[must_use]
    pub fn of_command(account: String) -> Caller {
        Caller { actor: Some(Actor::Cli(account)), grants: Grants::All, subject: Subject::All }
    }

    /// Returns an operator who signed in to the console.
    #[must_use]
    pub fn operator(number: i64, grants: Vec<Grant>) -> Caller {
        let actor = Some(Actor::Operator(number));
        Caller { actor, grants: Grants::Roles(grants), subject: Subject::All }
    }

    /// Returns a program that authenticated with a token of the admin API.
    #[must_use]
    pub fn token(name: String, grant: Grant) -> Caller {
        let actor = Some(Actor::Token(name));
        Caller { actor, grants: Grants::Roles(vec![grant]), subject: Subject::All }
    }

    /// Adds the circumstances of a request to the rows that the audit log gets about an operator.
    #[must_use]
    pub fn sending(self, origin: Origin) -> Caller {
        match self.actor {
            Some(Actor::Operator(number)) => {
                Caller { actor: Some(Actor::OperatorRequest(number, origin)), ..self }
            }
            _ => self,
        }
    }

    pub(crate) fn actor(&self) -> Option<&Actor> {
        self.actor.as_ref()
    }

    /// Returns true if the caller itself has a role, or a higher one, in an app or, if `app` is None, in all.
    #[must_use]
    pub fn has_role(&self, role: Role, app: Option<AppId>) -> bool {
        match &self.grants {
            Grants::All => true,
            Grants::Roles(grants) => {
                grants.iter().any(|grant| grant.role >= role && (grant.app.is_none() || grant.app == app))
            }
            Grants::In(..) => false,
        }
    }

    /// Returns a caller that authenticated with the API secret of an app.
    #[must_use]
    pub fn backend(app: AppId, address: IpAddr) -> Caller {
        let grants = Grants::In(app, Holder::Backend);
        Caller { actor: Some(Actor::App(address)), grants, subject: Subject::All }
    }

    /// Returns a caller that authenticated with the API secret of an app, and acts for a user.
    #[must_use]
    pub fn backend_for(app: AppId, address: IpAddr, identifier: String) -> Caller {
        let own = OwnUser { app, identifier, author: Author::App };
        Caller { subject: Subject::User(own), ..Caller::backend(app, address) }
    }

    /// Returns a user who acts for themself. If the app guards addresses (`address-keys=guarded`), a user without a proof counts as
    /// unproven: the caller could be redirecting the messages of another user.
    #[must_use]
    pub fn user(app: &App, identifier: String, has_proof: bool) -> Caller {
        let author = if has_proof {
            Author::User
        } else if app.guards_addresses() {
            Author::Unproven
        } else {
            Author::Claimed
        };
        Caller::author(app.id, identifier, author)
    }

    fn author(app: AppId, identifier: String, author: Author) -> Caller {
        let subject = Subject::User(OwnUser { app, identifier, author });
        Caller { actor: None, grants: Grants::In(app, Holder::User), subject }
    }

    /// Returns the holder of a link whose token was verified.
    #[must_use]
    pub fn link_holder(link: Link) -> Caller {
        let grants = Grants::In(link.app, Holder::Link);
        Caller { actor: None, grants, subject: Subject::Link(link) }
    }

    /// Returns a provider whose signature was verified.
    #[must_use]
    pub fn provider(account: ProviderAccount) -> Caller {
        let grants = Grants::In(account.app, Holder::Provider);
        Caller { actor: None, grants, subject: Subject::Provider(account) }
    }

    /// Checks that the caller has a permission in an app, or in the installation if `app` is None.
    ///
    /// # Errors
    /// Returns [`OperationError::Denied`] if the caller does not have the permission.
    pub fn may(&self, permission: Permission, app: impl Into<Option<AppId>>) -> Result<(), OperationError> {
        let app = app.into();
        let is_granted = match &self.grants {
            Grants::All => true,
            Grants::Roles(grants) => grants.iter().any(|grant| {
                permission.least_role().is_some_and(|least| grant.role >= least)
                    && (grant.app.is_none() || grant.app == app)
            }),
            Grants::In(own, holder) => permission.holders().contains(holder) && app == Some(*own),
        };
        if is_granted { Ok(()) } else { Err(OperationError::Denied(permission)) }
    }

    /// Checks that the caller has a permission in at least one app.
    pub(crate) fn may_anywhere(&self, permission: Permission) -> Result<(), OperationError> {
        match &self.grants {
            Grants::Roles(grants) => {
                let mut apps = grants.iter().map(|grant| self.may(permission, grant.app));
                apps.find(Result::is_ok).unwrap_or(Err(OperationError::Denied(permission)))
            }
            Grants::All => Ok(()),
            Grants::In(app, _) => self.may(permission, *app),
        }
    }

    /// Checks that the caller has a role, or a higher one, in an app or, if `app` is None, in all. Only then it may grant the role.
    pub(crate) fn may_grant(&self, role: Role, app: Option<AppId>) -> Result<(), OperationError> {
        let is_covered = |grant: &Grant| grant.role >= role && (grant.app.is_none() || grant.app == app);
        let has_role = match &self.grants {
            Grants::All => true,
            Grants::Roles(grants) => grants.iter().any(is_covered),
            Grants::In(..) => false,
        };
        if has_role { Ok(()) } else { Err(OperationError::Denied(Permission::ManageTokens)) }
    }

    /// Checks that the caller may take an action that the audit log records, and returns the actor of the row.
    ///
    /// # Errors
    /// Returns [`OperationError::Denied`] if the caller does not have the permission of the action.
    pub fn authorize(&self, action: Action, app: impl Into<Option<AppId>>) -> Result<&Actor, OperationError> {
        let permission = Permission::of(action);
        self.may(permission, app)?;
        self.actor.as_ref().ok_or(OperationError::Denied(permission))
    }

    /// Checks a permission that covers the data of one user, and returns the user for whom the caller acts.
    pub(crate) fn own(&self, permission: Permission) -> Result<&OwnUser, OperationError> {
        let Subject::User(own) = &self.subject else { return Err(OperationError::Denied(permission)) };
        self.may(permission, own.app)?;
        Ok(own)
    }

    /// Checks a permission in an app, and returns the user to whose data the caller is limited; None if it acts for no user.
    pub(crate) fn reach(
        &self,
        permission: Permission,
        app: AppId,
    ) -> Result<Option<&OwnUser>, OperationError> {
        self.may(permission, app)?;
        Ok(self.acts_for())
    }

    pub(crate) fn unsubscribe_link(&self) -> Result<(AppId, UserNumber, CategoryId), OperationError> {
        match self.subject {
            Subject::Link(Link { app, user, purpose: Purpose::Unsubscribe(category) }) => {
                self.may(Permission::Unsubscribe, app)?;
                Ok((app, user, category))
            }
            _ => Err(OperationError::Denied(Permission::Unsubscribe)),
        }
    }

    pub(crate) fn click_link(&self) -> Result<(AppId, UserNumber, SendId), OperationError> {
        match self.subject {
            Subject::Link(Link { app, user, purpose: Purpose::Click(send) }) => {
                self.may(Permission::ReportClick, app)?;
                Ok((app, user, send))
            }
            _ => Err(OperationError::Denied(Permission::ReportClick)),
        }
    }

    pub(crate) fn reporting_provider(&self) -> Result<&ProviderAccount, OperationError> {
        let permission = Permission::ReportReceipts;
        let Subject::Provider(account) = &self.subject else {
            return Err(OperationError::Denied(permission));
        };
        self.may(permission, account.app)?;
        Ok(account)
    }

    /// Returns the user for whom the caller acts, if it acts for one.
    #[must_use]
    pub fn acts_for(&self) -> Option<&OwnUser> {
        if let Subject::User(own) = &self.subject { Some(own) } else { None }
    }
}

impl OwnUser {
    /// Returns the user as the writer of the user's devices, subscriptions and preferences. The app's backend writes them like
    /// the user.
    pub(crate) fn writer(&self) -> Writer<'_> {
        let author = if self.author == Author::App { Author::User } else { self.author };
        Writer { user: &self.identifier, author }
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

    fn link(purpose: Purpose) -> Caller {
        Caller::link_holder(Link { app: SHOP, user: UserNumber(7), purpose })
    }

    #[test]
    fn a_command_has_every_permission_but_acts_for_no_user() {
        let caller = Caller::of_command("ada".to_owned());
        for &permission in Permission::ALL {
            assert!(has(&caller, permission, Some(SHOP)) && has(&caller, permission, None), "{permission:?}");
            assert!(caller.own(permission).is_err(), "{permission:?}");
        }
        assert!(caller.unsubscribe_link().is_err() && caller.click_link().is_err());
        assert!(caller.reporting_provider().is_err());
    }

    #[test]
    fn callers_of_an_app_have_the_permissions_of_their_kind_in_their_own_app_only() {
        let address = Ipv4Addr::LOCALHOST.into();
        let account =
            ProviderAccount { app: SHOP, channel: Channel::Sms, identifier: "twilio-eu".to_owned() };
        for (caller, holder, count) in [
            (Caller::backend(SHOP, address), Holder::Backend, 16),
            (Caller::backend_for(SHOP, address, "ada".to_owned()), Holder::Backend, 16),
            (Caller::author(SHOP, "ada".to_owned(), Author::User), Holder::User, 8),
            (Caller::author(SHOP, "ada".to_owned(), Author::Unproven), Holder::User, 8),
            (link(Purpose::Unsubscribe(CategoryId(1))), Holder::Link, 2),
            (Caller::provider(account), Holder::Provider, 1),
        ] {
            for &permission in Permission::ALL {
                let is_held = permission.holders().contains(&holder);
                assert_eq!(has(&caller, permission, Some(SHOP)), is_held, "{holder:?} {permission:?}");
                assert!(!has(&caller, permission, Some(OTHER)) && !has(&caller, permission, None));
            }
            let held = Permission::ALL.iter().filter(|&&permission| has(&caller, permission, Some(SHOP)));
            assert_eq!(held.count(), count, "{holder:?}");
        }
    }

    #[test]
    fn users_take_no_action_that_the_audit_log_records() {
        let user = Caller::author(SHOP, "ada".to_owned(), Author::User);
        for &action in Action::ALL {
            assert!(user.authorize(action, SHOP).is_err(), "{action}");
        }
        let backend = Caller::backend(SHOP, Ipv4Addr::LOCALHOST.into());
        assert_eq!(backend.authorize(Action::UserErase, SHOP).unwrap().to_string(), "api:127.0.0.1");
    }

    #[test]
    fn only_a_caller_that_acts_for_a_user_reaches_the_users_own_data() {
        let address = Ipv4Addr::LOCALHOST.into();
        let backend = Caller::backend_for(SHOP, address, "ada".to_owned());
        assert_eq!(backend.own(Permission::OwnInbox).unwrap().writer().author, Author::User);
        assert!(Caller::backend(SHOP, address).own(Permission::OwnInbox).is_err());
        let unproven = Caller::author(SHOP, "ada".to_owned(), Author::Unproven);
        let own = unproven.own(Permission::OwnDevices).unwrap();
        assert_eq!((own.app, own.writer().user, own.writer().author), (SHOP, "ada", Author::Unproven));
        assert!(unproven.own(Permission::ChangeUsers).is_err());
        assert!(unproven.reach(Permission::ViewItems, OTHER).is_err());
        assert_eq!(unproven.reach(Permission::ViewItems, SHOP).unwrap(), Some(own));
    }

    #[test]
    fn a_link_serves_its_own_purpose_only() {
        let (unsubscribe, click) =
            (link(Purpose::Unsubscribe(CategoryId(1))), link(Purpose::Click(SendId(uuid::Uuid::nil()))));
        assert!(unsubscribe.unsubscribe_link().is_ok() && unsubscribe.click_link().is_err());
        assert!(click.click_link().is_ok() && click.unsubscribe_link().is_err());
        assert!(click.own(Permission::OwnInbox).is_err());
    }

    #[test]
    fn a_role_includes_lower_roles_and_holds_in_the_apps_that_it_was_granted_for() {
        for &role in Role::ALL {
            let in_shop = Caller::operator(7, vec![Grant { role, app: Some(SHOP) }]);
            let everywhere = Caller::operator(7, vec![Grant { role, app: None }]);
            for &permission in Permission::ALL {
                let is_included = permission.least_role().is_some_and(|least| least <= role);
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
