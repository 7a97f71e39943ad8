use crate::text_enum::text_enum;

text_enum! {
    /// Role of an operator, in one app or in all. Each role includes the roles before it.
    Role {
        /// Reads everything, with masked targets.
        Viewer = "viewer",
        /// Helps single users.
        Support = "support",
        /// Changes what users read: templates and categories.
        Editor = "editor",
        /// Keeps deliveries running: providers, webhooks, redrives.
        Operator = "operator",
        /// Manages apps, their secrets and operators.
        Admin = "admin",
    }
}
