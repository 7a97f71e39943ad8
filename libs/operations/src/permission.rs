//! Permissions, and the callers that have them.

use domain::{Action, Role};

/// A caller with fixed permissions in one app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A caller with the API secret of the app, for itself or for one of its users.
    Backend,
    /// A user of the app. Its permissions cover its own data only.
    User,
    /// The holder of a link in a message. Its permissions cover the purpose of the link only.
    Link,
    /// A provider of the app that signed its call. Its permissions cover its own deliveries only.
    Provider,
}

/// Translates the role of a row; `none` if no role of an operator has the permission.
macro_rules! least_role {
    (none) => {
        None
    };
    ($role:ident) => {
        Some(Role::$role)
    };
}

/// Declares the permissions. Each row has the least role of an operator, and the other callers that have the permission in their
/// app.
macro_rules! permissions {
    ($($(#[$doc:meta])* $name:ident: $role:tt, [$($holder:ident),*];)*) => {
        /// Permission to use a group of use cases.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Permission { $($(#[$doc])* $name),* }

        impl Permission {
            /// All permissions, in order of declaration.
            pub const ALL: &'static [Permission] = &[$(Permission::$name),*];

            /// Returns the lowest role that has the permission. Returns None if no role has it.
            #[must_use]
            pub const fn least_role(self) -> Option<Role> {
                match self { $(Permission::$name => least_role!($role)),* }
            }

            /// Returns the callers that have the permission in their app.
            #[must_use]
            pub const fn holders(self) -> &'static [Holder] {
                match self { $(Permission::$name => &[$(Holder::$holder),*]),* }
            }
        }
    };
}

permissions! {
    /// List and show everything, without secrets and with masked targets.
    View: Viewer, [Backend];
    /// List categories and topics. Users see only the topics that are open, and those to which they subscribe.
    Browse: Viewer, [Backend, User];
    /// Show addresses and tokens in full.
    RevealTargets: Support, [];
    /// Show users with their profiles and devices.
    ViewUsers: Support, [Backend];
    /// Show items of inboxes.
    ViewItems: Support, [Backend, User];
    EraseUsers: Support, [Backend];
    LiftSuppressions: Support, [];
    EditTemplates: Editor, [];
    Send: Editor, [Backend];
    EditCategories: Editor, [Backend];
    ChangeUsers: Operator, [Backend];
    /// Change items of inboxes: mark, move, delete.
    ChangeItems: Operator, [Backend, User];
    ChangeTopics: Operator, [Backend];
    CancelRequests: Operator, [Backend];
    ManageProviders: Operator, [];
    ManageWebhooks: Operator, [];
    Redrive: Operator, [];
    /// Create apps, and change their settings.
    ManageApps: Admin, [];
    /// Create, rotate and revoke the credentials of apps.
    ManageSecrets: Admin, [];
    ReadAuditLog: Admin, [];
    /// Create and disable operators, change their roles, and give them links with which they sign in.
    ManageOperators: Admin, [];
    /// Create and revoke tokens of the admin API.
    ManageTokens: Admin, [];
    /// Read the inbox of the user for whom the caller acts, and change it as a whole.
    OwnInbox: none, [Backend, User];
    OwnProfile: none, [Backend, User];
    OwnPreferences: none, [Backend, User];
    OwnSubscriptions: none, [Backend, User];
    OwnDevices: none, [Backend, User];
    /// Turn off the emails of the category that a link names, and choose the channels of its user's categories.
    Unsubscribe: none, [Link];
    /// Report that a user opened the notification that a link names.
    ReportClick: none, [Link];
    /// Report the status of messages that a provider accepted, and messages that people sent to it.
    ReportReceipts: none, [Provider];
}

impl Permission {
    /// Returns the permission that an action needs.
    #[must_use]
    pub const fn of(action: Action) -> Permission {
        match action {
            Action::AppCreate | Action::AppSet => Permission::ManageApps,
            Action::AppRotateSecret
            | Action::LinkKeyRotate
            | Action::SigningKeyCreate
            | Action::SigningKeyRevoke => Permission::ManageSecrets,
            Action::ProviderSet
            | Action::ProviderEnable
            | Action::ProviderDisable
            | Action::ProviderRemove => Permission::ManageProviders,
            Action::TemplatePut | Action::TemplateTestSend => Permission::EditTemplates,
            Action::WebhookSet
            | Action::WebhookRemove
            | Action::WebhookSecretRotate
            | Action::WebhookRedeliver => Permission::ManageWebhooks,
            Action::SuppressionLift => Permission::LiftSuppressions,
            Action::ParkedRedrive
            | Action::RedriveStart
            | Action::RedrivePause
            | Action::RedriveResume
            | Action::RedriveStop
            | Action::WaitingRelease => Permission::Redrive,
            Action::RequestCancel => Permission::CancelRequests,
            Action::UserErase => Permission::EraseUsers,
            Action::TargetReveal => Permission::RevealTargets,
            Action::OperatorCreate
            | Action::OperatorLink
            | Action::OperatorDisable
            | Action::OperatorEnable
            | Action::OperatorGrant
            | Action::OperatorRevoke
            | Action::OperatorPassword
            | Action::OperatorIdentity
            | Action::OperatorUnlink => Permission::ManageOperators,
            Action::CategorySet | Action::CategoryDelete => Permission::EditCategories,
            Action::TopicSet | Action::TopicDelete => Permission::ChangeTopics,
            Action::TokenCreate | Action::TokenRevoke => Permission::ManageTokens,
        }
    }
}
