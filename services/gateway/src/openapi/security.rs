//! Who may call what: the schemes, and the combinations of them that stand behind the words of the handlers.

use serde_json::{Map, Value, json};

/// The headers of the interface, whose names begin with the configured prefix.
const HEADERS: [(&str, &str, &str); 5] = [
    ("apiKey", "API-KEY", "The app's API key. It is public."),
    ("apiSecret", "API-SECRET", "The app's API secret. Never for front ends."),
    ("secretKey", "SECRET-KEY", "The API secret by another name."),
    ("userId", "USER-ID", "The identifier of the user that the request is about."),
    ("userSignature", "USER-SIGNATURE", SIGNATURE),
];
const SIGNATURE: &str = "Deprecated in favour of `bearer`. HMAC-SHA256 of the user's identifier with the API secret as \
    the key, in base64 or hexadecimal; required where the app has HMAC turned on.";
const BEARER: &str = "A JWT signed with the app's signing key; required where the app has secure mode turned on. \
    `sub` is `user:<identifier>` (see `token-subject` of the app), `apiKey` the app's API key; `exp`, `nbf` and `iat` are honoured.";

/// What an app's backend sends.
const APP: [&[&str]; 2] = [&["apiKey", "apiSecret"], &["apiKey", "secretKey"]];
/// What a user's front end sends, and what an app sends that acts for a user.
const USER: [&[&str]; 6] = [
    &["apiKey", "userId"],
    &["apiKey", "userId", "bearer"],
    &["bearer"],
    &["apiKey", "userId", "userSignature"],
    &["apiKey", "apiSecret", "userId"],
    &["apiKey", "secretKey", "userId"],
];

/// Who a handler lets in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    App,
    User,
    Either,
}

impl Access {
    /// What the handler says; None where it asks for no credentials.
    pub(crate) fn of(operation: &Value) -> Option<Access> {
        let word = operation["security"][0].as_object()?.keys().next()?;
        match word.as_str() {
            "app" => Some(Access::App),
            "user" => Some(Access::User),
            "either" => Some(Access::Either),
            _ => None,
        }
    }

    /// Every combination of schemes that it stands for.
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

/// The schemes, under this prefix.
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
