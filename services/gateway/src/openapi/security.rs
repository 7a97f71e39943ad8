//! Security schemes, and their combinations `app`, `user` and `either`, which handlers name.

use serde_json::{Map, Value, json};

/// The credential headers: scheme, name without the configured prefix, description.
const HEADERS: [(&str, &str, &str); 5] = [
    ("apiKey", "API-KEY", "The app's API key. It is public."),
    ("apiSecret", "API-SECRET", "The app's API secret. Only backends may send it, never front ends."),
    ("secretKey", "SECRET-KEY", "Alias of the API secret header."),
    ("userId", "USER-ID", "The identifier of the user that the request is about."),
    ("userSignature", "USER-SIGNATURE", SIGNATURE),
];
const SIGNATURE: &str = "Deprecated in favour of `bearer`. HMAC-SHA256 of the user's identifier with the API secret as \
    the key, in base64 or hexadecimal; required if the app has HMAC turned on.";
const BEARER: &str = "A JWT signed with the app's signing key; required if the app is in secure mode. \
    The claim `sub` is `user:<identifier>`, unless the app's setting `token-subject` says otherwise. The claim `apiKey` is \
    the app's API key. The claims `exp`, `nbf` and `iat` are checked.";

/// Credentials of an app's backend.
const APP: [&[&str]; 2] = [&["apiKey", "apiSecret"], &["apiKey", "secretKey"]];
/// Credentials of a user's front end, and of an app that acts for a user.
const USER: [&[&str]; 6] = [
    &["apiKey", "userId"],
    &["apiKey", "userId", "bearer"],
    &["bearer"],
    &["apiKey", "userId", "userSignature"],
    &["apiKey", "apiSecret", "userId"],
    &["apiKey", "secretKey", "userId"],
];

/// Callers that a handler accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    App,
    User,
    Either,
}

impl Access {
    /// Reads the access that the handler declares; None if the handler needs no credentials.
    pub(crate) fn of(operation: &Value) -> Option<Access> {
        let word = operation["security"][0].as_object()?.keys().next()?;
        match word.as_str() {
            "app" => Some(Access::App),
            "user" => Some(Access::User),
            "either" => Some(Access::Either),
            _ => None,
        }
    }

    /// Returns every combination of schemes that grants this access.
    pub(crate) fn requirements(self) -> Value {
        let combinations: Vec<_> = match self {
            Access::App => APP.to_vec(),
            Access::User => USER.to_vec(),
            Access::Either => [&APP[..], &USER[..]].concat(),
        };
        combinations.into_iter().map(requirement).collect()
    }
}

fn requirement(schemes: &[&str]) -> Value {
    schemes.iter().map(|scheme| ((*scheme).to_owned(), json!([]))).collect::<Map<_, _>>().into()
}

pub(crate) fn schemes(prefix: &str) -> Value {
    let mut schemes = Map::new();
    for (scheme, suffix, description) in HEADERS {
        let name = format!("{prefix}-{suffix}");
        let header = json!({"type": "apiKey", "in": "header", "name": name, "description": description});
        schemes.insert(scheme.to_owned(), header);
    }
    let bearer = json!({"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": BEARER});
    schemes.insert("bearer".to_owned(), bearer);
    schemes.into()
}
