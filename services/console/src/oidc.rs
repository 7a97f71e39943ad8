//! Signing in by an OpenID provider: the authorization code flow with PKCE (OpenID Connect Core 1.0, RFC 7636).
//!
//! Nothing is stored until the end: `state`, `nonce` and the verifier are derived from a secret in a short-lived cookie of the browser.

mod provider;
mod token;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use base64::prelude::*;
use credentials::secrets::{SecretsError, random_token, sha256};
use domain::Timestamp;
use operations::operators::provider::{ProviderPerson, ProviderPolicy};
use secrecy::SecretString;
use serde_json::{Map, Value};
use service_kit::config::Oidc as Settings;
use tokio::time::timeout;
use url::Url;

use self::provider::{Metadata, Provider};
use self::token::{Expected, Refused};
use crate::query::Pairs;
use crate::route::encoded;

/// Time for which a browser may return from the provider.
pub(crate) const FLOW_LIFETIME: Duration = Duration::from_secs(600);
/// Maximum age of the authentication of a sign-in that confirms a step.
const RECENT_SECONDS: i64 = 600;
/// Tolerated difference between the clocks of the provider and this machine.
const SKEW_SECONDS: i64 = 60;
/// Time limit for all calls of a sign-in.
const WITHIN: Duration = Duration::from_secs(15);
const LONGEST_SECRET: u64 = 4_096;
/// Size in bytes (OpenID Connect Core 1.0, section 2).
const LONGEST_SUBJECT: usize = 255;
const SECRET_BYTES: usize = 32;
/// Maximum size in bytes of the path in the cookie. Browsers drop a cookie of more than 4,096 bytes.
const LONGEST_NEXT: usize = 2_000;
const PATH: &str = "/sign-in/oidc/callback";

/// Reason why a sign-in by a provider fails. The texts are for the operator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OidcError {
    #[error("The sign-in took longer than ten minutes, or began in another browser. Start again.")]
    Unstarted,
    #[error("The identity provider refused: {0}.")]
    Refused(String),
    #[error("The answer is not from the configured identity provider.")]
    OtherIssuer,
    #[error("The identity provider cannot be reached. Try again in a minute.")]
    Unreachable(#[source] reqwest::Error),
    #[error("The identity provider did not answer in time. Try again in a minute.")]
    Slow,
    #[error("The identity provider answered {0} to a call of the console.")]
    Status(u16),
    #[error("The identity provider sent an unusable answer: {0}.")]
    Unusable(&'static str),
    #[error("The identity provider sent a token that is not valid: {0}.")]
    Token(#[from] Refused),
    #[error(
        "The identity provider did not say when you signed in there, so this sign-in cannot confirm a step."
    )]
    NotFresh,
    #[error(transparent)]
    Random(#[from] SecretsError),
}

/// A way to the provider: its address, and the value of the cookie that binds the answer to the browser.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) location: String,
    pub(crate) cookie: String,
}

/// An operator who came back from the provider.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) person: ProviderPerson,
    /// Path to which the operator wanted to go.
    pub(crate) next: String,
}

/// State of a sign-in, which only the browser keeps.
pub(crate) struct Flow {
    secret: String,
    /// True if the operator has to authenticate again.
    is_fresh: bool,
    next: String,
}

impl Flow {
    /// Returns the flow that an answer ends. The browser must be the one that began it.
    pub(crate) fn of_answer(cookie: Option<&str>, answer: &Pairs) -> Result<Flow, OidcError> {
        let flow = cookie.and_then(Flow::parse).ok_or(OidcError::Unstarted)?;
        if answer.raw("state") != Some(&flow.derived("state")) {
            return Err(OidcError::Unstarted);
        }
        Ok(flow)
    }

    fn parse(cookie: &str) -> Option<Flow> {
        let mut parts = cookie.splitn(3, '.');
        let (secret, fresh, next) = (parts.next()?, parts.next()?, parts.next()?);
        let next = Pairs::parse(&format!("next={next}")).raw("next")?.to_owned();
        (secret.len() >= SECRET_BYTES).then(|| Flow {
            secret: secret.to_owned(),
            is_fresh: fresh == "1",
            next,
        })
    }

    fn cookie(&self) -> String {
        format!("{}.{}.{}", self.secret, u8::from(self.is_fresh), encoded(&self.next))
    }

    /// Derives a value for one purpose. The provider learns values, and not the secret.
    fn derived(&self, purpose: &str) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(sha256(format!("{purpose}:{}", self.secret).as_bytes()))
    }
}

pub(crate) struct Oidc {
    settings: Settings,
    secret: Option<SecretString>,
    redirect_uri: String,
    provider: Provider,
    pub(crate) policy: ProviderPolicy,
}

impl Oidc {
    /// # Errors
    /// Returns an error if the file with the client's secret cannot be read.
    pub(crate) fn new(settings: &Settings, console_url: &str) -> anyhow::Result<Oidc> {
        let secret = settings.client_secret_file.as_deref().map(read_secret).transpose()?;
        let policy = ProviderPolicy {
            allowed_domains: settings.allowed_domains.clone(),
            rules: settings.role_map.clone(),
        };
        Ok(Oidc {
            settings: settings.clone(),
            secret,
            redirect_uri: format!("{console_url}{PATH}"),
            provider: Provider::new(&settings.issuer)?,
            policy,
        })
    }

    /// Begins a sign-in. If `is_fresh` is true, the provider authenticates the operator again.
    pub(crate) async fn depart(&self, next: &str, is_fresh: bool) -> Result<Departure, OidcError> {
        let metadata = timeout(WITHIN, self.provider.metadata()).await.map_err(|_| OidcError::Slow)??;
        let next = if encoded(next).len() > LONGEST_NEXT { "" } else { next };
        let flow = Flow { secret: random_token("", SECRET_BYTES)?, is_fresh, next: next.to_owned() };
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(sha256(flow.derived("verifier").as_bytes()));
        let mut location: Url = metadata.authorization_endpoint.clone();
        location
            .query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("scope", &self.settings.scopes.join(" "))
            .append_pair("state", &flow.derived("state"))
            .append_pair("nonce", &flow.derived("nonce"))
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        if is_fresh {
            let age = RECENT_SECONDS.to_string();
            location.query_pairs_mut().append_pair("prompt", "login").append_pair("max_age", &age);
        }
        Ok(Departure { location: location.into(), cookie: flow.cookie() })
    }

    /// Ends a sign-in: checks the answer of the provider, and exchanges its code for a verified identity.
    pub(crate) async fn arrive(
        &self,
        flow: Flow,
        answer: &Pairs,
        now: Timestamp,
    ) -> Result<Arrival, OidcError> {
        timeout(WITHIN, self.exchange(flow, answer, now)).await.map_err(|_| OidcError::Slow)?
    }

    async fn exchange(&self, flow: Flow, answer: &Pairs, now: Timestamp) -> Result<Arrival, OidcError> {
        if answer.raw("iss").is_some_and(|issuer| issuer != self.settings.issuer) {
            return Err(OidcError::OtherIssuer);
        }
        if let Some(error) = answer.text("error") {
            return Err(OidcError::Refused(error.chars().filter(|c| !c.is_control()).take(80).collect()));
        }
        let code = answer.text("code").ok_or(OidcError::Unusable("the code is missing"))?;
        let metadata = self.provider.metadata().await?;
        if metadata.names_issuer && answer.raw("iss").is_none() {
            return Err(OidcError::OtherIssuer);
        }
        let client = (self.settings.client_id.as_str(), self.secret.as_ref());
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", self.redirect_uri.as_str()),
            ("code_verifier", &flow.derived("verifier")),
        ];
        let tokens = self.provider.tokens(&metadata, client, &form).await?;
        let text = |name: &str| tokens.get(name).and_then(Value::as_str);
        let id_token = text("id_token").ok_or(OidcError::Unusable("the id_token is missing"))?;
        let nonce = flow.derived("nonce");
        let expected = Expected {
            issuer: &self.settings.issuer,
            client_id: &self.settings.client_id,
            nonce: &nonce,
            now: now.millis() / 1_000,
        };
        let claims = self.verify(&metadata, id_token, &expected).await?;
        let more = match text("access_token") {
            Some(access_token) => self.userinfo(&metadata, access_token, &claims).await?,
            None => Map::new(),
        };
        let person = person(&self.settings, &claims, &more)?;
        if flow.is_fresh && !is_recent(person.authenticated_at, now) {
            return Err(OidcError::NotFresh);
        }
        Ok(Arrival { person, next: flow.next })
    }

    /// Verifies a token. If its key is unknown, the keys are read again, because providers rotate them.
    async fn verify(
        &self,
        metadata: &Metadata,
        token: &str,
        expected: &Expected<'_>,
    ) -> Result<Map<String, Value>, OidcError> {
        let keys = self.provider.keys(metadata, false).await?;
        match token::verify(token, &keys, expected) {
            Err(Refused::UnknownKey) => {
                let keys = self.provider.keys(metadata, true).await?;
                Ok(token::verify(token, &keys, expected)?)
            }
            verified => Ok(verified?),
        }
    }

    /// Reads the provider's second answer if the token lacks the email address or the roles. Otherwise it is empty.
    async fn userinfo(
        &self,
        metadata: &Metadata,
        access_token: &str,
        claims: &Map<String, Value>,
    ) -> Result<Map<String, Value>, OidcError> {
        let lacks_roles = self.settings.role_claim.as_ref().is_some_and(|path| claim(claims, path).is_none());
        let has_email = claims.get("email").is_some_and(Value::is_string);
        let Some(endpoint) = &metadata.userinfo_endpoint else { return Ok(Map::new()) };
        if has_email && !lacks_roles {
            return Ok(Map::new());
        }
        let more = self.provider.userinfo(endpoint, access_token).await?;
        if more.get("sub") != claims.get("sub") {
            return Err(OidcError::Unusable("its answers are about two people"));
        }
        Ok(more)
    }
}

/// Describes a person by a verified token and by the provider's second answer, which is not signed. The address and its verification are taken
/// from the same one of them, and the time of the authentication only from the token.
fn person(
    settings: &Settings,
    claims: &Map<String, Value>,
    more: &Map<String, Value>,
) -> Result<ProviderPerson, OidcError> {
    let subject = claims.get("sub").and_then(Value::as_str);
    let subject = subject.filter(|subject| subject.len() <= LONGEST_SUBJECT);
    let subject = subject.ok_or(OidcError::Unusable("the subject is missing or too long"))?;
    let named = [claims, more]
        .into_iter()
        .find_map(|claims| Some((claims.get("email")?.as_str()?, claims.get("email_verified"))));
    let (email, verified) = named
        .ok_or(OidcError::Unusable("the email address is missing; console.oidc.scopes must contain email"))?;
    // Some providers write the boolean as text.
    let is_email_verified = verified.is_some_and(|value| *value == true || *value == "true");
    let authenticated = claims.get("auth_time").and_then(token::seconds);
    let path = settings.role_claim.as_deref();
    let groups = path.and_then(|path| claim(claims, path).or_else(|| claim(more, path)));
    Ok(ProviderPerson {
        issuer: settings.issuer.clone(),
        subject: subject.to_owned(),
        email: email.to_owned(),
        is_email_verified,
        authenticated_at: authenticated.map(|at| Timestamp::from_millis(at.saturating_mul(1_000))),
        groups: groups.map(texts).unwrap_or_default(),
    })
}

fn read_secret(path: &Path) -> anyhow::Result<SecretString> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST_SECRET).read_to_string(&mut text));
    read.with_context(|| format!("cannot read console.oidc.client_secret_file {}", path.display()))?;
    anyhow::ensure!(!text.trim().is_empty(), "console.oidc.client_secret_file {} is empty", path.display());
    Ok(SecretString::from(text.trim()))
}

fn is_recent(at: Option<Timestamp>, now: Timestamp) -> bool {
    let oldest = now.millis() - (RECENT_SECONDS + SKEW_SECONDS) * 1_000;
    let latest = now.millis() + SKEW_SECONDS * 1_000;
    at.is_some_and(|at| (oldest..=latest).contains(&at.millis()))
}

/// Returns a claim by its name or, if there is none, by a path with dots.
fn claim<'a>(claims: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    claims.get(path).or_else(|| {
        let (first, rest) = path.split_once('.')?;
        claim(claims.get(first)?.as_object()?, rest)
    })
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_flow_survives_its_cookie_and_reveals_no_secret() {
        let flow = Flow { secret: "s".repeat(43), is_fresh: true, next: "/apps/a%2Fb?q=x;y. z".to_owned() };
        let cookie = flow.cookie();
        assert!(!cookie.contains([';', ' ', ',', '"']), "{cookie}");
        let read = Flow::parse(&cookie).unwrap();
        assert_eq!((&read.secret, read.is_fresh, &read.next), (&flow.secret, true, &flow.next));
        let values = ["state", "nonce", "verifier"].map(|purpose| flow.derived(purpose));
        assert!(values[0] != values[1] && values[1] != values[2] && values[0] != values[2]);
        assert!(values.iter().all(|value| value.len() == 43 && !value.contains(&flow.secret)));
        for refused in ["", "a.b", "short.1.x"] {
            assert!(Flow::parse(refused).is_none(), "{refused}");
        }
    }

    #[test]
    fn an_answer_counts_in_the_browser_that_began_the_sign_in() {
        let flow = Flow { secret: "s".repeat(43), is_fresh: false, next: "/".to_owned() };
        let answer = |state: &str| Pairs::parse(&format!("code=x&state={state}"));
        let (cookie, own) = (flow.cookie(), answer(&flow.derived("state")));
        assert!(Flow::of_answer(Some(&cookie), &own).is_ok());
        assert!(Flow::of_answer(None, &own).is_err());
        assert!(Flow::of_answer(Some(&cookie), &answer("guessed")).is_err());
    }

    #[test]
    fn a_claim_has_a_name_or_a_path() {
        let claims = json!({"a.b": 1, "a": {"b": 2, "c": {"d": ["x", 7]}}, "g": "one"});
        let claims = claims.as_object().unwrap();
        assert_eq!(claim(claims, "a.b"), Some(&json!(1)));
        assert_eq!(texts(claim(claims, "a.c.d").unwrap()), ["x"]);
        assert_eq!(texts(claim(claims, "g").unwrap()), ["one"]);
        assert_eq!(claim(claims, "a.x"), None);
        assert_eq!(texts(&json!({"x": 1})), Vec::<String>::new());
    }

    #[test]
    fn only_a_known_and_young_authentication_is_recent() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let ago = |seconds: i64| Some(Timestamp::from_millis(now.millis() - seconds * 1_000));
        assert!(is_recent(ago(0), now) && is_recent(ago(659), now));
        assert!(!is_recent(ago(661), now) && !is_recent(None, now));
        assert!(
            is_recent(ago(-60), now) && !is_recent(ago(-61), now),
            "the clocks differ by a minute at most"
        );
    }

    fn described(claims: &Value, more: &Value) -> Result<ProviderPerson, OidcError> {
        let settings = Settings {
            issuer: "https://id.example.com".to_owned(),
            client_id: "tidings".to_owned(),
            client_secret_file: None,
            scopes: Vec::new(),
            role_claim: Some("realm.roles".to_owned()),
            role_map: Vec::new(),
            allowed_domains: Vec::new(),
        };
        person(&settings, claims.as_object().unwrap(), more.as_object().unwrap())
    }

    #[test]
    fn an_address_and_its_verification_are_of_one_answer_and_times_of_the_token() {
        let own = json!({"sub": "1", "email": "ada@example.com", "realm": {"x": 1}});
        let more = json!({
            "sub": "1", "email": "eve@example.com", "email_verified": true, "auth_time": 7,
            "realm": {"roles": ["ops"]},
        });
        let ada = described(&own, &more).unwrap();
        assert_eq!((ada.email.as_str(), ada.is_email_verified), ("ada@example.com", false));
        assert_eq!((ada.authenticated_at, ada.groups), (None, vec!["ops".to_owned()]));
        let eve = described(&json!({"sub": "1", "email_verified": false, "auth_time": 5}), &more).unwrap();
        assert_eq!((eve.email.as_str(), eve.is_email_verified), ("eve@example.com", true));
        assert_eq!(eve.authenticated_at, Some(Timestamp::from_millis(5_000)));
        let unverified = described(&json!({"sub": "1", "email_verified": true}), &json!({"email": "a@b.c"}));
        assert!(!unverified.unwrap().is_email_verified);
        assert!(described(&json!({"sub": "1", "email": 7}), &json!({})).is_err());
    }
}
