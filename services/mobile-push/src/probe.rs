//! Calls that check a provider's credential without reaching a device.

use std::time::Duration;

use domain::{Answer, Outcome};
use service_kit::clock;
use worker::{Outbound, Provider};

use crate::answers::ours;
use crate::apns::ApnsClient;
use crate::fcm::FcmClient;

/// Time limit of the whole probe.
const LIMIT: Duration = Duration::from_secs(20);

/// Checks a provider's credential by a push to a token that no device has. Returns one sentence that describes the
/// successful check.
///
/// # Errors
/// The service responded differently than expected, or the call failed.
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
        other => Err(settings(format!("{other:?} is not a kind of mobile push provider"))),
    }
}
