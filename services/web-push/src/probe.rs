//! Check of a provider without sending a message.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credentials::MasterKey;
use domain::{Answer, Outcome, Timestamp};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde_json::Value;
use store::Store;
use worker::Provider;

use crate::authorization::Signer;
use crate::channel::{ours, settings, unauthorized};

/// Origin for the test token; no push service has it.
const NOWHERE: &str = "https://push.invalid";

/// Checks as much as possible without a subscription: the settings are valid, the app's key pair can be decrypted, and its
/// public key verifies its signatures. No push service is called, because every call needs a subscription.
///
/// # Errors
/// Answer that an attempt would get.
pub async fn probe(
    store: &Store,
    master_key: &MasterKey,
    provider: &Provider,
    now: Timestamp,
) -> Result<String, Answer> {
    let settings = settings(provider)?;
    let signer = Signer::load(store, master_key, provider.app).await.map_err(|error| unauthorized(&error))?;
    let refused = |what: &dyn ToString| ours(Outcome::PauseProvider, "vapid_key", &what.to_string());
    let token = signer.token(&settings.subject, NOWHERE, now).map_err(|error| refused(&error))?;
    let point = URL_SAFE_NO_PAD.decode(signer.public_key()).map_err(|error| refused(&error))?;
    let mut validation = Validation::new(Algorithm::ES256);
    validation.set_audience(&[NOWHERE]);
    // The token was signed just now, but a caller may pass a `now` far from the system clock.
    validation.validate_exp = false;
    decode::<Value>(&token, &DecodingKey::from_ec_der(&point), &validation)
        .map_err(|error| refused(&error))?;
    Ok(format!(
        "the app's key pair signs, and its signature fits the public key {} that browsers subscribe with; \
         push services can only be asked with a subscription, so none was called",
        signer.public_key()
    ))
}
