//! A call that checks a provider's credential and reaches no device.

use std::time::Duration;

use domain::{Answer, Outcome};
use service_kit::clock;
use worker::{Outbound, Provider};

use crate::answers::ours;
use crate::apns::ApnsClient;
use crate::fcm::FcmClient;

/// For the whole of it.
const LIMIT: Duration = Duration::from_secs(20);

/// Proves the credential of a provider by a push to a token that cannot be, and says in one sentence what it proved.
///
/// # Errors
/// The service's other answer, or the failure of the call.
pub async fn probe(outbound: Outbound, provider: &Provider) -> Result<String, Answer> {
    let settings = |problem: String| ours(Outcome::PauseProvider, "settings", problem);
    match provider.kind.as_str() {
        ApnsClient::KIND => {
            let client = ApnsClient::open(outbound, LIMIT, &provider.settings).map_err(settings)?;
            client.probe(clock::now()).await
        }
        FcmClient::KIND => {
            let client = FcmClient::open(outbound, LIMIT, &provider.settings).map_err(settings)?;
            client.probe(clock::now()).await
        }
        other => Err(settings(format!("no provider of mobile push can be of kind {other:?}"))),
    }
}
