//! Authentication of callbacks: look-up of the provider that a callback names, and verification of its signature.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use credentials::secrets::provider_context;
use domain::fields::MAX_IDENTIFIER;
use domain::settings::SettingsReader;
use domain::sms::keyword::AddedKeywords;
use domain::{AppId, Channel};
use fairness::principal::Principal;
use fairness::waiting::continue_as;
use operations::{Caller, ProviderAccount};
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};
use store::control::provider::StoredProvider;
use web::admission::Admission;
use web::body::Body;
use web::database::database;
use web::failure::Failure;
use web::peer;

use super::{Callbacks, Signer, signature};
use crate::gateway::Gateway;

const KIND: &str = "twilio";
const SIGNATURE: &str = "x-twilio-signature";
/// Index of the path segment with the app's id. Segment 0 is the empty text before the first slash.
const APP: usize = 4;
/// Index of the path segment with the provider's identifier.
const PROVIDER: usize = 5;
/// Index of the path segment with the subject, such as the id of a delivery.
const SUBJECT: usize = 6;

/// The provider that a callback names.
struct Account {
    app: AppId,
    provider: String,
    keywords: AddedKeywords,
}

/// A callback with a valid signature.
pub(super) struct Callback {
    /// The provider as use cases see it.
    pub(super) caller: Caller,
    pub(super) keywords: AddedKeywords,
    pub(super) fields: Vec<(String, String)>,
}

/// A callback that carries a signature, from a provider that may not exist. The signature cannot be verified before the body is
/// read.
pub(super) struct Claim {
    account: Account,
    /// The token that signs the provider's callbacks; None if the provider is unknown or has none.
    token: Option<SecretString>,
    url: String,
    signature: Vec<u8>,
}

impl Claim {
    /// Looks up the provider that a callback names and decodes the callback's signature. Every invalid callback gets the same
    /// 403, which does not reveal whether the provider is unknown or the signature is missing or wrong.
    pub(super) async fn of(gateway: &Gateway, request: &HttpRequest) -> Result<Claim, Failure> {
        let signature =
            request.headers().get(SIGNATURE).and_then(|value| signature::decode(value.as_bytes()));
        let url = public_url(&gateway.callbacks, request);
        let app = segment(request, APP).and_then(|app| app.parse::<AppId>().ok());
        let (admission, peer) = (Admission::of(request)?, peer::of_request(request));
        let (Some(signature), Some(url), Some(app), Some(provider)) =
            (signature, url, app, segment(request, PROVIDER))
        else {
            admission.admit_stranger(request, Principal::stranger(peer)).await?;
            return Err(unproven());
        };
        let principal = Principal::callback(app, &provider, peer);
        admission.admit_stranger(request, principal).await?;
        let mut account = Account { app, provider, keywords: AddedKeywords::default() };
        let token = account.signer(gateway).await?.map(|Signer { token, keywords }| {
            account.keywords = keywords;
            token
        });
        Ok(Claim { account, token, url, signature })
    }

    /// Reads the fields of the body and verifies the signature, which covers them. 403 if the signature is wrong, if the body is
    /// not a form of a callback, or if the provider is unknown. An unknown provider costs the caller as much as a known one.
    pub(super) async fn prove(self, body: Body) -> Result<Callback, Failure> {
        let fields = body.callback_form().await.map_err(before_proof)?;
        let token = self.token.as_ref().map_or("", |token| token.expose_secret());
        let is_valid = signature::is_valid(token.as_bytes(), &self.url, &fields, &self.signature);
        if self.token.is_none() || !is_valid {
            return Err(unproven());
        }
        let Account { app, provider, keywords } = self.account;
        continue_as(Principal::backend(app));
        let account = ProviderAccount { app, channel: Channel::Sms, identifier: provider };
        Ok(Callback { caller: Caller::provider(account), keywords, fields })
    }
}

impl Account {
    /// Returns the token that signs the provider's callbacks, and its keywords; None if it has no token. Both results are cached for
    /// [`REMEMBERED_FOR`](super::REMEMBERED_FOR). Concurrent callbacks for one provider share one look-up, so that many forged
    /// callbacks cannot use up the database calls that genuine ones need.
    async fn signer(&self, gateway: &Gateway) -> Result<Option<Signer>, Failure> {
        if self.provider.len() > MAX_IDENTIFIER {
            return Ok(None);
        }
        let tokens = &gateway.callbacks.tokens;
        let key = (self.app, self.provider.clone());
        match tokens.try_get_with(key, self.look_up(gateway)).await {
            Ok(token) => Ok(token),
            // Another caller may have started the shared look-up, and it may have failed because that caller exceeded its
            // limits. Try again within the limits of this caller.
            Err(_) => self.look_up(gateway).await,
        }
    }

    async fn look_up(&self, gateway: &Gateway) -> Result<Option<Signer>, Failure> {
        let stored = database(gateway.store.control().provider(self.app, &self.provider)).await?;
        Ok(stored.and_then(|stored| {
            let token = auth_token(&gateway.callbacks, self.app, &stored)?;
            Some(Signer { token, keywords: keywords(&stored) })
        }))
    }
}

/// Returns the last segment of the callback's path, such as the id of a delivery.
pub(super) fn subject(request: &HttpRequest) -> Option<String> {
    segment(request, SUBJECT)
}

/// Returns a segment of the request path, percent-decoded once.
fn segment(request: &HttpRequest, place: usize) -> Option<String> {
    let segment = request.uri().path().split('/').nth(place)?;
    percent_decode_str(segment).decode_utf8().ok().map(|text| text.into_owned())
}

/// Returns the URL that the provider called. The provider's signature covers this URL.
fn public_url(callbacks: &Callbacks, request: &HttpRequest) -> Option<String> {
    let path = request.uri().path_and_query()?;
    callbacks.public_url.as_ref().map(|base| format!("{base}{path}"))
}

fn auth_token(callbacks: &Callbacks, app: AppId, stored: &StoredProvider) -> Option<SecretString> {
    let StoredProvider { channel: Channel::Sms, row, .. } = stored else { return None };
    let sealed = row.sealed.as_ref().filter(|_| row.kind == KIND)?;
    let opened = callbacks.master_key.open(&provider_context(app, &row.identifier), sealed);
    let opened = opened
        .inspect_err(|error| {
            tracing::error!(
                %app, provider = row.identifier, %error,
                "cannot decrypt a provider's secrets; rejecting the provider's callbacks"
            );
        })
        .ok()?;
    let secrets: Map<String, Value> = serde_json::from_slice(opened.expose_secret()).ok()?;
    secrets.get("authToken").and_then(Value::as_str).filter(|token| !token.is_empty()).map(SecretString::from)
}

/// Reads the keywords of a provider's settings, which were checked when they were stored.
fn keywords(stored: &StoredProvider) -> AddedKeywords {
    SettingsReader::open(&stored.row.settings)
        .map(|mut reader| AddedKeywords::read(&mut reader))
        .unwrap_or_default()
}

/// Replaces every failure that depends on the body by the 403 of a wrong signature. Refusals that depend on the peer alone stay.
fn before_proof(failure: Failure) -> Failure {
    match failure {
        Failure::Limited { .. }
        | Failure::Unavailable { .. }
        | Failure::Full { .. }
        | Failure::QuotaReached { .. }
        | Failure::Defect(_)
        | Failure::Refused { status: StatusCode::REQUEST_TIMEOUT, .. } => failure,
        Failure::Invalid(_) | Failure::Refused { .. } | Failure::Method(_) => unproven(),
    }
}

fn unproven() -> Failure {
    let message = "the callback is not signed by a known provider";
    Failure::refused(StatusCode::FORBIDDEN, "invalid_signature", message)
}
