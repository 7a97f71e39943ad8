//! Calls that check a provider's credential without sending a message.

use std::time::Duration;

use domain::{Answer, Outcome};
use service_kit::clock;
use worker::{Outbound, Provider};

use crate::answers::{local_answer, unusable};
use crate::channel::caller;
use crate::limits::Limits;
use crate::smpp::settings::SmppSettings;
use crate::{http, smpp, twilio};

/// Time limit of the whole call.
const LIMIT: Duration = Duration::from_secs(20);

/// Makes a real call to the provider. Returns one sentence that describes the successful check.
///
/// # Errors
/// The call failed, or the provider did not respond as expected.
pub async fn probe(outbound: Outbound, provider: &Provider) -> Result<String, Answer> {
    let limits = Limits { call: LIMIT, ..Limits::for_lease(LIMIT) };
    let caller = caller(outbound, limits)
        .map_err(|error| local_answer(Outcome::RETRY, "tls", format!("TLS cannot be set up: {error}")))?;
    match provider.kind.as_str() {
        "twilio" => twilio::probe(&caller, provider, clock::now()).await,
        "http" => http::probe(&caller, provider, clock::now()).await,
        "smpp" => {
            let settings = SmppSettings::parse(&provider.settings).map_err(|problems| unusable(&problems))?;
            smpp::check(&settings, outbound, LIMIT).await?;
            Ok(format!("{} bound and unbound {} as a transceiver", settings.host, settings.system_id))
        }
        kind => Err(local_answer(
            Outcome::PauseProvider,
            "kind",
            format!("{kind:?} is not a kind of SMS provider"),
        )),
    }
}
