//! Permissions, and the roles that have them.

use domain::{Action, Role};

/// Declares the permissions. Each row has the least role of an operator, and whether the API secret of an app gives the
/// permission in this app.
macro_rules! permissions {
    ($($(#[$doc:meta])* $name:ident: $role:ident, backend: $backend:literal;)*) => {
        /// Permission to use a group of use cases.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Permission { $($(#[$doc])* $name),* }

        impl Permission {
            /// All permissions, in order of declaration.
            pub const ALL: &'static [Permission] = &[$(Permission::$name),*];

            /// Returns the lowest role that has the permission.
            #[must_use]
            pub const fn least_role(self) -> Role {
                match self { $(Permission::$name => Role::$role),* }
            }

            /// Returns true if a caller with the API secret of an app has the permission in this app.
            #[must_use]
            pub const fn is_of_backend(self) -> bool {
                match self { $(Permission::$name => $backend),* }
            }
        }
    };
}

permissions! {
    /// List and show everything, without secrets and with masked targets.
    View: Viewer, backend: true;
    /// Show addresses and tokens in full.
    RevealTargets: Support, backend: false;
    /// Show users with their profiles and devices.
    ViewUsers: Support, backend: true;
    EraseUsers: Support, backend: true;
    LiftSuppressions: Support, backend: false;
    EditTemplates: Editor, backend: false;
    Send: Editor, backend: true;
    EditCategories: Editor, backend: true;
    ChangeUsers: Operator, backend: true;
    ChangeTopics: Operator, backend: true;
    CancelRequests: Operator, backend: true;
    ManageProviders: Operator, backend: false;
    ManageWebhooks: Operator, backend: false;
    Redrive: Operator, backend: false;
    /// Create apps, and change their settings.
    ManageApps: Admin, backend: false;
    /// Create, rotate and revoke the credentials of apps.
    ManageSecrets: Admin, backend: false;
    ReadAuditLog: Admin, backend: false;
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
            Action::TemplatePut => Permission::EditTemplates,
            Action::WebhookSet | Action::WebhookRemove | Action::WebhookSecretRotate => {
                Permission::ManageWebhooks
            }
            Action::SuppressionLift => Permission::LiftSuppressions,
            Action::ParkedRedrive => Permission::Redrive,
            Action::RequestCancel => Permission::CancelRequests,
            Action::UserErase => Permission::EraseUsers,
        }
    }
}
