//! Calls to an OpenID provider. Each answer is limited in size and time, and no redirect is followed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::Jwk;
use reqwest::header::ACCEPT;
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};
use service_kit::config::is_guarded;
use tokio::sync::Mutex;
use url::{Url, form_urlencoded};

use super::OidcError;

const CALL_WITHIN: Duration = Duration::from_secs(5);
/// Size in bytes.
const LONGEST_ANSWER: usize = 256 * 1024;
/// Time for which metadata and keys are used before they are read again.
const KNOWN_FOR: Duration = Duration::from_secs(3600);
/// Time for which keys are not read again, also if a token names an unknown one.
const KEYS_STAND_FOR: Duration = Duration::from_secs(5);
const MOST_KEYS: usize = 64;

/// Addresses and abilities of a provider (OpenID Connect Discovery 1.0).
#[derive(Debug)]
pub(super) struct Metadata {
    pub(super) authorization_endpoint: Url,
    pub(super) userinfo_endpoint: Option<Url>,
    /// True if answers of the provider name their issuer (RFC 9207).
    pub(super) names_issuer: bool,
    token_endpoint: Url,
    jwks_uri: Url,
    /// True if the client's secret belongs into the body.
    secret_in_body: bool,
}

pub(super) struct Provider {
    issuer: String,
    client: Client,
    metadata: Mutex<Option<(Instant, Arc<Metadata>)>>,
    keys: Mutex<Option<(Instant, Arc<Vec<Jwk>>)>>,
}

impl Provider {
    pub(super) fn new(issuer: &str) -> anyhow::Result<Provider> {
        let client = Client::builder()
            .redirect(Policy::none())
            .referer(false)
            .connect_timeout(CALL_WITHIN)
            .timeout(CALL_WITHIN)
            .user_agent(concat!("Tidings/", env!("CARGO_PKG_VERSION")))
            .build()?;
        let (metadata, keys) = (Mutex::new(None), Mutex::new(None));
        Ok(Provider { issuer: issuer.to_owned(), client, metadata, keys })
    }

    pub(super) async fn metadata(&self) -> Result<Arc<Metadata>, OidcError> {
        let mut known = self.metadata.lock().await;
        if let Some((_, metadata)) = known.as_ref().filter(|(read_at, _)| read_at.elapsed() < KNOWN_FOR) {
            return Ok(metadata.clone());
        }
        let url = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let document = json(self.client.get(url)).await?;
        let metadata = Arc::new(Metadata::read(&self.issuer, &document)?);
        *known = Some((Instant::now(), metadata.clone()));
        Ok(metadata)
    }

    /// Returns the keys that the provider signs with. Reads them if they are unknown, or if `is_stale` is true and they were not read in the
    /// last five seconds.
    pub(super) async fn keys(&self, metadata: &Metadata, is_stale: bool) -> Result<Arc<Vec<Jwk>>, OidcError> {
        let mut known = self.keys.lock().await;
        let lasts = if is_stale { KEYS_STAND_FOR } else { KNOWN_FOR };
        let is_young = |read_at: &Instant| read_at.elapsed() < lasts;
        if let Some((_, keys)) = known.as_ref().filter(|(read_at, _)| is_young(read_at)) {
            return Ok(keys.clone());
        }
        let document = json(self.client.get(metadata.jwks_uri.clone())).await?;
        let listed = document.get("keys").and_then(Value::as_array);
        let listed = listed.ok_or(OidcError::Unusable("its keys are missing"))?;
        // Keys of unknown kinds are left out.
        let read = listed.iter().take(MOST_KEYS).filter_map(|key| serde_json::from_value(key.clone()).ok());
        let keys: Arc<Vec<Jwk>> = Arc::new(read.collect());
        *known = Some((Instant::now(), keys.clone()));
        Ok(keys)
    }

    /// Exchanges a code.
    pub(super) async fn tokens(
        &self,
        metadata: &Metadata,
        (id, secret): (&str, Option<&SecretString>),
        form: &[(&str, &str)],
    ) -> Result<Map<String, Value>, OidcError> {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(form);
        let mut call = self.client.post(metadata.token_endpoint.clone());
        match secret.map(SecretString::expose_secret) {
            // RFC 6749, section 2.3.1: both are encoded like a form first.
            Some(secret) if !metadata.secret_in_body => {
                call = call.basic_auth(form_text(id), Some(form_text(secret)));
            }
            Some(secret) => {
                body.append_pair("client_id", id).append_pair("client_secret", secret);
            }
            None => {
                body.append_pair("client_id", id);
            }
        }
        let call = call.header("content-type", "application/x-www-form-urlencoded").body(body.finish());
        json(call).await
    }

    pub(super) async fn userinfo(
        &self,
        endpoint: &Url,
        access_token: &str,
    ) -> Result<Map<String, Value>, OidcError> {
        json(self.client.get(endpoint.clone()).bearer_auth(access_token)).await
    }
}

impl Metadata {
    fn read(issuer: &str, document: &Map<String, Value>) -> Result<Metadata, OidcError> {
        let text = |name: &str| document.get(name).and_then(Value::as_str);
        if text("issuer") != Some(issuer) {
            return Err(OidcError::Unusable("its metadata names another issuer than console.oidc.issuer"));
        }
        let url = |name: &str| text(name).and_then(|text| Url::parse(text).ok()).filter(is_guarded);
        let needed =
            |name: &str| url(name).ok_or(OidcError::Unusable("its metadata lacks an address with https"));
        let methods = document.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
        let supports =
            |method: &str| methods.is_none_or(|methods| methods.iter().any(|known| known == method));
        Ok(Metadata {
            authorization_endpoint: needed("authorization_endpoint")?,
            token_endpoint: needed("token_endpoint")?,
            jwks_uri: needed("jwks_uri")?,
            userinfo_endpoint: url("userinfo_endpoint"),
            names_issuer: document.get("authorization_response_iss_parameter_supported")
                == Some(&Value::Bool(true)),
            secret_in_body: !supports("client_secret_basic"),
        })
    }
}

fn form_text(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Makes a call, and reads its answer as a JSON object. The error has no URL, which may contain a code.
async fn json(call: RequestBuilder) -> Result<Map<String, Value>, OidcError> {
    let failed = |error: reqwest::Error| OidcError::Unreachable(error.without_url());
    let mut answer = call.header(ACCEPT, "application/json").send().await.map_err(failed)?;
    if answer.status() != StatusCode::OK {
        return Err(OidcError::Status(answer.status().as_u16()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        if body.len() + chunk.len() > LONGEST_ANSWER {
            return Err(OidcError::Unusable("an answer is too long"));
        }
        body.extend_from_slice(&chunk);
    }
    serde_json::from_slice(&body).map_err(|_| OidcError::Unusable("an answer is no JSON object"))
}

#[cfg(test)]
mod tests;
