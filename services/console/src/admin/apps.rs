//! Apps, their settings and their credentials.

use std::time::Duration;

use credentials::link;
use domain::app_setting::{AppSetting, AppSettings};
use domain::body::kind::{FreeObject, Identifier, Whole};
use domain::body::words::{OneOf, Words};
use domain::{Problem, SigningAlgorithm, Timestamp};
use operations::apps::creation::{self, PublicAccess};
use operations::apps::{self as cases, keys, settings};
use secrecy::ExposeSecret;
use serde::Serialize;
use serde_json::{Map, Value};
use store::control::app::App;
use store::control::signing_key::SigningKey;
use utoipa::ToSchema;
use web::failure::Failure;
use web::vocabulary::{self, Time};

use super::call::{Answer, Call};
use super::route::Nothing;
use super::shape::Page;

/// Longest time for which a replaced secret or key stays valid, in seconds.
const LONGEST_GRACE: i64 = 90 * 24 * 3_600;
const USUAL_GRACE: i64 = 24 * 3_600;

/// An app.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = App)]
pub(super) struct AppBody {
    id: String,
    name: String,
    /// The public API key.
    api_key: String,
    development: bool,
    /// Settings by name, with values in the syntax of `tidings app set`. The page on the settings of apps lists all.
    #[schema(value_type = vocabulary::FreeObject)]
    settings: Value,
    /// The valid API secrets, newest first.
    secrets: Vec<SecretState>,
    signing_keys: Vec<SigningKeyBody>,
    #[schema(value_type = Time)]
    created_at: Timestamp,
}

/// A secret, whose value is never shown.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SecretState {
    set: bool,
    /// Null if the secret does not expire.
    #[schema(value_type = Option<Time>)]
    expires_at: Option<Timestamp>,
    /// True if the secret can verify signatures.
    signs: bool,
}

/// A key with which an app signs bearer tokens.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SigningKey)]
pub(super) struct SigningKeyBody {
    kid: String,
    algorithm: &'static str,
    #[schema(value_type = Time)]
    created_at: Timestamp,
}

/// A new app, with its secret.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreatedApp {
    id: String,
    name: String,
    api_key: String,
    /// Shown only once.
    api_secret: String,
}

/// A new API secret.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreatedSecret {
    api_key: String,
    /// Shown only once.
    api_secret: String,
}

/// A new signing key.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreatedSigningKey {
    kid: String,
    algorithm: &'static str,
    /// The private key in PEM, or the shared secret. Shown only once.
    secret: String,
    /// In PEM; null for a shared secret.
    public_key: Option<String>,
}

/// The version of a new key.
#[derive(Serialize, ToSchema)]
pub(super) struct LinkKeyVersion {
    version: i32,
}

#[derive(Clone, Copy)]
struct Access(PublicAccess);

impl Words for Access {
    const ABOUT: &'static str = "`closed`: calls of users need a bearer token. `open`: callers with the API key may act as any user. \
        `development`: they may also set addresses. Default: closed.";
    const WORDS: &'static [(&'static str, Access)] = &[
        ("closed", Access(PublicAccess::Closed)),
        ("open", Access(PublicAccess::Open)),
        ("development", Access(PublicAccess::Development)),
    ];
}

domain::body! {
    /// An app to create.
    pub(super) struct NewApp {
        /// Unique in the installation.
        required name: Identifier,
        optional access: OneOf<Access>,
    }
    example {"name": "shop"}
}

domain::body! {
    /// Settings to change.
    pub(super) struct AppChange {
        /// Values by name, in the syntax of `tidings app set`. All others stay as they are.
        required settings: FreeObject,
    }
    example {"settings": {"rate-limit": "500"}}
}

domain::body! {
    /// Replacement of a secret or key.
    pub(super) struct Rotation {
        /// Seconds for which the previous one stays valid, at most 90 days, or 400 days for keys of links. Default: one day.
        optional grace_seconds as "graceSeconds": Whole,
    }
    example {"graceSeconds": 600}
}

domain::body! {
    /// A signing key to create.
    pub(super) struct NewSigningKey {
        /// Default: RS256.
        optional algorithm: OneOf<SigningAlgorithm>,
    }
    example {"algorithm": "ES256"}
}

impl From<App> for AppBody {
    fn from(app: App) -> AppBody {
        let effective = AppSettings { guard_addresses: Some(app.guards_addresses()), ..app.settings };
        let settings: Map<String, Value> =
            effective.to_texts().into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect();
        AppBody {
            id: app.id.to_string(),
            name: app.name,
            api_key: app.api_key,
            development: app.development,
            settings: settings.into(),
            secrets: app
                .secrets
                .iter()
                .map(|secret| SecretState {
                    set: true,
                    expires_at: secret.expires_at,
                    signs: !secret.sealed.is_empty(),
                })
                .collect(),
            signing_keys: app.signing_keys.into_iter().map(SigningKeyBody::from).collect(),
            created_at: app.created_at,
        }
    }
}

impl From<SigningKey> for SigningKeyBody {
    fn from(key: SigningKey) -> SigningKeyBody {
        SigningKeyBody { kid: key.kid, algorithm: key.algorithm.as_str(), created_at: key.created_at }
    }
}

pub(super) async fn list(call: &Call<'_>) -> Answer<Page<AppBody>> {
    Ok(Page::whole(cases::list(call.operations(), &call.caller).await?))
}

pub(super) async fn show(call: &Call<'_>) -> Answer<AppBody> {
    Ok(call.app()?.into())
}

pub(super) async fn create(call: &Call<'_>) -> Answer<CreatedApp> {
    let (name, access) = call.body(|new: &mut NewApp, problems| {
        let (name, access) = (new.name(problems), new.access(problems));
        Some((name?, access.map_or(PublicAccess::Closed, |access| access.0)))
    })?;
    let created = creation::create(call.operations(), &call.caller, &name, access).await?;
    let (id, api_secret) = (created.id.to_string(), created.api_secret.expose_secret().to_owned());
    Ok(CreatedApp { id, name, api_key: created.api_key, api_secret })
}

pub(super) async fn change(call: &Call<'_>) -> Answer<AppBody> {
    let app = call.app()?;
    let given = call.body(|change: &mut AppChange, problems| change.settings(problems))?;
    let mut problems = Vec::new();
    let texts = given.iter().filter_map(|(name, value)| match value.as_str() {
        Some(value) => Some(format!("{name}={value}")),
        None => {
            let field = format!("settings.{name}");
            let message = format!("{field} must be a text, in the syntax of `tidings app set`");
            problems.push(Problem::new(&field, "invalid_type", message));
            None
        }
    });
    let texts: Vec<String> = texts.collect();
    let parsed = AppSetting::parse_all(&texts).unwrap_or_else(|found| {
        problems.extend(found);
        Vec::new()
    });
    if !problems.is_empty() {
        return Err(Failure::Invalid(problems).into());
    }
    Ok(settings::set(call.operations(), &call.caller, app.id, &parsed).await?.into())
}

fn grace(call: &Call<'_>, longest: i64) -> Answer<Duration> {
    let seconds = call.body(|rotation: &mut Rotation, problems| Some(rotation.grace_seconds(problems)))?;
    let seconds = seconds.unwrap_or(USUAL_GRACE);
    let grace = u64::try_from(seconds).ok().filter(|_| seconds <= longest);
    let message = format!("graceSeconds must be from 0 to {longest}");
    Ok(Duration::from_secs(grace.ok_or_else(|| Failure::problem("graceSeconds", "out_of_range", message))?))
}

pub(super) async fn rotate_secret(call: &Call<'_>) -> Answer<CreatedSecret> {
    let (app, grace) = (call.app()?, grace(call, LONGEST_GRACE)?);
    let secret = keys::rotate_secret(call.operations(), &call.caller, app.id, grace).await?;
    Ok(CreatedSecret { api_key: app.api_key, api_secret: secret.expose_secret().to_owned() })
}

pub(super) async fn rotate_link_key(call: &Call<'_>) -> Answer<LinkKeyVersion> {
    let longest = i64::try_from(link::UNSUBSCRIBE_FOR.as_secs()).unwrap_or(i64::MAX);
    let (app, grace) = (call.app()?, grace(call, longest)?);
    let version = keys::rotate_link_key(call.operations(), &call.caller, app.id, grace).await?;
    Ok(LinkKeyVersion { version })
}

pub(super) async fn list_signing_keys(call: &Call<'_>) -> Answer<Page<SigningKeyBody>> {
    Ok(Page::whole(call.app()?.signing_keys))
}

pub(super) async fn create_signing_key(call: &Call<'_>) -> Answer<CreatedSigningKey> {
    let app = call.app()?;
    let algorithm = call.body(|new: &mut NewSigningKey, problems| Some(new.algorithm(problems)))?;
    let algorithm = algorithm.unwrap_or(SigningAlgorithm::Rs256);
    let created = keys::create_signing_key(call.operations(), &call.caller, app.id, algorithm).await?;
    Ok(CreatedSigningKey {
        kid: created.kid,
        algorithm: algorithm.as_str(),
        secret: created.secret.expose_secret().to_owned(),
        public_key: created.public_key,
    })
}

pub(super) async fn revoke_signing_key(call: &Call<'_>) -> Answer<Nothing> {
    let app = call.app()?;
    keys::revoke_signing_key(call.operations(), &call.caller, app.id, call.path("kid")).await?;
    Ok(Nothing {})
}
