use crate::profile::APP_KEY;
use crate::text_enum::text_enum;

text_enum! {
    /// Form in which the `sub` claim of a bearer token (JWT) names the user.
    TokenSubject {
        /// `user:{identifier}`; any other value is refused.
        Prefixed = "prefixed",
        /// `{identifier}`; a prefix `user:` is part of the identifier.
        Bare = "bare",
        /// `user:{identifier}` or, if the prefix is missing, `{identifier}`. Risk: if a backend signs identifiers without the prefix, the
        /// user `user:alice` is accepted as the user `alice`.
        Either = "either",
    }
}

text_enum! {
    /// Part of a profile that templates can read.
    TemplateProfile {
        All = "all",
        /// Only the key `app`, which only the app's backend writes.
        App = "app",
    }
}

impl TemplateProfile {
    /// Returns true if templates can read a member of the profile, or a path into it.
    #[must_use]
    pub fn shows(self, path: &str) -> bool {
        self == TemplateProfile::All || path.split('.').next() == Some(APP_KEY)
    }
}
