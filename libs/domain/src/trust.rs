//! What an app trusts of what it is told about a person.

use crate::text_enum::text_enum;

text_enum! {
    /// How the claim `sub` of a bearer token names its user.
    TokenSubject {
        /// As `user:{identifier}`; any other claim is refused.
        Prefixed = "prefixed",
        /// As `{identifier}`, whatever it begins with.
        Bare = "bare",
        /// As `user:{identifier}` or, if the prefix is missing, as `{identifier}`. A backend that signs identifiers
        /// without the prefix lets a person named `user:alice` be alice.
        Either = "either",
    }
}

text_enum! {
    /// What templates see of a profile.
    TemplateProfile {
        /// Every key, those that users write included.
        All = "all",
        /// The key `app` alone, which only the app's backend writes.
        App = "app",
    }
}
