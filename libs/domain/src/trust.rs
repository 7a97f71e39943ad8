//! Settings of an app about the trust in user identifiers and profiles.

use crate::text_enum::text_enum;

text_enum! {
    /// Form in which the claim `sub` of a bearer token names its user.
    TokenSubject {
        /// As `user:{identifier}`; any other claim is refused.
        Prefixed = "prefixed",
        /// As `{identifier}`, whatever its prefix.
        Bare = "bare",
        /// As `user:{identifier}` or, if the prefix is missing, as `{identifier}`. A backend that signs identifiers
        /// without the prefix lets a person named `user:alice` be alice.
        Either = "either",
    }
}

text_enum! {
    /// Part of a profile that templates can read.
    TemplateProfile {
        /// All keys, including those that users write.
        All = "all",
        /// Only the key `app`, which only the app's backend writes.
        App = "app",
    }
}
