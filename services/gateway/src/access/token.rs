//! Bearer tokens: JSON Web Tokens (RFC 7519) that an app's backend signs for one of its users.

use std::fmt::Display;
use std::time::Duration;

use actix_web::http::header::{AUTHORIZATION, HeaderMap};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::fields::check_identifier;
use domain::{Timestamp, TokenSubject};
use serde_json::{Map, Value};
use service_kit::clock;
use web::failure::Failure;

use crate::access::known_app::{Evidence, KnownApp};
use crate::access::token_key::TokenKey;

/// Maximum length of a token in bytes.
const LONGEST: usize = 8 * 1024;
/// Tolerated difference between the clocks of an app's backend and of the gateway, in seconds.
const LEEWAY: f64 = 60.0;
const DAY: u64 = 86_400;
/// Seconds since 1970 that a `Timestamp` can represent. A token that expires later counts as one that does not expire.
const LATEST: f64 = 253_402_300_799.0;
/// Prefix of the user's identifier in the claim `sub`.
const USER_PREFIX: &str = "user:";

/// A bearer token as the caller sent it, not verified yet.
pub(crate) struct Token<'a> {
    header: Header,
    claims: Claims,
    /// The signed part of the token: its encoded header and claims.
    message: &'a str,
    signature: &'a str,
}

struct Header {
    alg: String,
    kid: Option<String>,
    /// True if the header has extensions that a verifier of the token must support (RFC 7515, section 4.1.11). The gateway
    /// supports none.
    crit: bool,
}

/// Claims of a token. Times are seconds since 1970 (RFC 7519, section 2).
struct Claims {
    sub: Option<String>,
    api_key: Option<String>,
    exp: Option<f64>,
    nbf: Option<f64>,
    iat: Option<f64>,
}

impl<'a> Token<'a> {
    /// Returns the bearer token of a request (RFC 6750, section 2.1), if any. Other schemes are ignored.
    pub(crate) fn sent_in(headers: &'a HeaderMap) -> Result<Option<Token<'a>>, Failure> {
        let mut found = None;
        for value in headers.get_all(AUTHORIZATION) {
            let (scheme, token) = split_scheme(value.as_bytes());
            if !scheme.eq_ignore_ascii_case(b"bearer") {
                continue;
            }
            if found.is_some_and(|earlier| earlier != token) {
                let message = "the header Authorization was sent with different bearer tokens";
                return Err(Failure::unauthorized("conflicting_credentials", message));
            }
            found = Some(token);
        }
        found.map(Token::parse).transpose()
    }

    fn parse(text: &'a [u8]) -> Result<Token<'a>, Failure> {
        if text.len() > LONGEST {
            return Err(malformed("it is longer than 8 KiB"));
        }
        let text = std::str::from_utf8(text).map_err(|_| malformed("it is not UTF-8"))?;
        let parts = text.rsplit_once('.').and_then(|(message, signature)| {
            let (header, claims) = message.split_once('.')?;
            Some((message, header, claims, signature))
        });
        let (message, header, claims, signature) =
            parts.ok_or_else(|| malformed("it must be three parts with dots between them"))?;
        let header = Header::read(Members::decode("header", header)?)?;
        let claims = Claims::read(Members::decode("claims", claims)?)?;
        if header.crit {
            return Err(malformed("its header demands extensions, and the service supports none"));
        }
        Ok(Token { header, claims, message, signature })
    }

    /// Returns the API key in the token's claims. The signature is not verified yet, so use the key only to find the app.
    pub(crate) fn unverified_api_key(&self) -> Result<&str, Failure> {
        let key = self.claims.api_key.as_deref();
        key.ok_or_else(|| invalid("the bearer token must have the claim apiKey, a string"))
    }

    /// Returns the time in the claim `exp`. The signature is not verified yet.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        let exp = self.claims.exp.filter(|exp| exp.abs() < LATEST)?;
        Some(Timestamp::from_millis((exp * 1000.0) as i64))
    }

    /// Verifies the token. Returns its user, and [`Evidence::Token`]. `app` is the app that the claim `apiKey` names. A token must
    /// not be valid for longer than `lifetime`.
    pub(crate) fn verify(self, app: &KnownApp, lifetime: Duration) -> Result<(String, Evidence), Failure> {
        let is_signer = |key: &&TokenKey| self.may_be_of(key) && key.has_signed(self.message, self.signature);
        let signer =
            app.token_keys.iter().find(is_signer).ok_or_else(|| {
                invalid("the bearer token is not signed with a live signing key of the app")
            })?;
        self.claims.check_times(clock::now(), app.app.settings.require_exp, lifetime)?;
        let user = self.claims.user(app.app.settings.token_subject)?;
        Ok((user, Evidence::Token(signer.kid.clone())))
    }

    /// Returns true if the token's header matches this key: `alg` must be the key's algorithm, and `kid`, if present, must be
    /// the key's id.
    fn may_be_of(&self, key: &TokenKey) -> bool {
        self.header.kid.as_ref().is_none_or(|kid| *kid == key.kid)
            && self.header.alg == key.algorithm.as_str()
    }
}

fn split_scheme(value: &[u8]) -> (&[u8], &[u8]) {
    let end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
    (&value[..end], value[end..].trim_ascii())
}

/// Members of one part of a token.
struct Members {
    /// The part, for error messages.
    part: &'static str,
    members: Map<String, Value>,
}

impl Members {
    fn decode(part: &'static str, text: &str) -> Result<Members, Failure> {
        let bytes = URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|error| malformed(format!("its {part}: not base64url: {error}")))?;
        let value = serde_json::from_slice(&bytes);
        match value.map_err(|error| malformed(format!("its {part}: not JSON: {error}")))? {
            Value::Object(members) => Ok(Members { part, members }),
            other => {
                let found = kind(&other);
                Err(malformed(format!("its {part} must be a JSON object, not {found}")))
            }
        }
    }

    /// Returns a member. None if it is missing or null. `read` returns None for a value of another type than `wanted` names.
    fn take<T>(
        &mut self,
        name: &str,
        wanted: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        match self.members.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(&value).map(Some).ok_or_else(|| {
                let (part, found) = (self.part, kind(&value));
                malformed(format!("{name} in its {part} must be {wanted}, not {found}"))
            }),
        }
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, Failure> {
        self.take(name, "a string", |value| value.as_str().map(str::to_owned))
    }

    fn time(&mut self, name: &str) -> Result<Option<f64>, Failure> {
        self.take(name, "a number of seconds since 1970", Value::as_f64)
    }
}

/// Spells a lifetime in days, or in seconds if it is no whole number of days.
fn spelled(lifetime: Duration) -> String {
    match lifetime.as_secs() {
        seconds if seconds.is_multiple_of(DAY) => format!("{} days", seconds / DAY),
        seconds => format!("{seconds} s"),
    }
}

/// Names the type of a JSON value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

impl Header {
    fn read(mut header: Members) -> Result<Header, Failure> {
        let alg = header.text("alg")?.ok_or_else(|| malformed("its header must have alg, a string"))?;
        let crit = header.take("crit", "an array", |_| Some(()))?.is_some();
        Ok(Header { alg, kid: header.text("kid")?, crit })
    }
}

impl Claims {
    fn read(mut claims: Members) -> Result<Claims, Failure> {
        Ok(Claims {
            sub: claims.text("sub")?,
            api_key: claims.text("apiKey")?,
            exp: claims.time("exp")?,
            nbf: claims.time("nbf")?,
            iat: claims.time("iat")?,
        })
    }

    fn check_times(&self, now: Timestamp, require_exp: bool, lifetime: Duration) -> Result<(), Failure> {
        let now = now.millis() as f64 / 1000.0;
        if self.exp.is_none() && require_exp {
            return Err(invalid(
                "the bearer token must have the claim exp: the app accepts no tokens without expiry",
            ));
        }
        if self.exp.is_some_and(|end| now >= end + LEEWAY) {
            return Err(Failure::unauthorized("token_expired", "the bearer token has expired"));
        }
        let latest = now + lifetime.as_secs_f64() + LEEWAY;
        if self.exp.is_some_and(|end| end > latest) {
            let lifetime = spelled(lifetime);
            let message = format!(
                "the claim exp of the bearer token is more than {lifetime} in the future; send an earlier time, in \
                 seconds since 1970 and not in milliseconds ([gateway] token_lifetime sets the limit)"
            );
            return Err(invalid(message));
        }
        for (name, begin) in [("nbf", self.nbf), ("iat", self.iat)] {
            if begin.is_some_and(|begin| now < begin - LEEWAY) {
                let message = format!(
                    "the bearer token is not valid yet: its claim {name} is in the future; it must be in seconds since \
                     1970 and not in milliseconds"
                );
                return Err(Failure::unauthorized("token_not_yet_valid", message));
            }
        }
        Ok(())
    }

    fn user(self, form: TokenSubject) -> Result<String, Failure> {
        let Some(sub) = self.sub else {
            return Err(invalid("the bearer token must have the claim sub: user: and the user's identifier"));
        };
        let user = match (form, sub.strip_prefix(USER_PREFIX)) {
            (TokenSubject::Prefixed | TokenSubject::Either, Some(user)) => user.to_owned(),
            (TokenSubject::Bare | TokenSubject::Either, _) => sub,
            (TokenSubject::Prefixed, None) => {
                return Err(invalid(
                    "the claim sub of the bearer token must be user: and the user's identifier, as in user:ada",
                ));
            }
        };
        let mut problems = Vec::new();
        let user = check_identifier("the user in the claim sub of the bearer token", user, &mut problems);
        user.ok_or_else(|| invalid(problems.swap_remove(0).message))
    }
}

fn malformed(why: impl Display) -> Failure {
    Failure::unauthorized("malformed_token", format!("the bearer token is not a JSON Web Token: {why}"))
}

fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Failure {
    Failure::unauthorized("invalid_token", message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_767_323_045_000);
    const NOW_SECONDS: f64 = 1_767_323_045.0;
    const LIFETIME: Duration = Duration::from_secs(90 * DAY);

    fn ends_at(exp: f64) -> Result<(), Failure> {
        let claims = json!({"sub": "user:ada", "apiKey": "shop", "exp": exp});
        let Value::Object(members) = claims else { unreachable!() };
        Claims::read(Members { part: "claims", members })?.check_times(NOW, true, LIFETIME)
    }

    #[test]
    fn an_exp_in_another_unit_or_beyond_the_lifetime_is_refused_to_the_second() {
        let latest = NOW_SECONDS + LIFETIME.as_secs_f64();
        for exp in [latest, latest + LEEWAY, NOW_SECONDS + 1.0, NOW_SECONDS - LEEWAY + 1.0] {
            assert!(ends_at(exp).is_ok(), "{exp}");
        }
        for exp in [
            latest + LEEWAY + 1.0,
            (NOW_SECONDS + 3600.0) * 1e3,
            (NOW_SECONDS + 3600.0) * 1e6,
            1e300,
            f64::MAX,
        ] {
            let Err(Failure::Refused { code, message, .. }) = ends_at(exp) else {
                panic!("{exp} is accepted")
            };
            assert_eq!(code, "invalid_token", "{exp}");
            assert!(message.contains("claim exp") && message.contains("90 days"), "{exp}: {message}");
        }
        for exp in [NOW_SECONDS - LEEWAY, 0.0, -1e300] {
            assert!(matches!(ends_at(exp), Err(Failure::Refused { code: "token_expired", .. })), "{exp}");
        }
    }
}
