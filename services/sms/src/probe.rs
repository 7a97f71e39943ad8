//! Calls that prove a provider's credential without sending anything to a person.

use std::time::Duration;

use domain::{Answer, Outcome};
use service_kit::clock;
use worker::{Outbound, Provider};

use crate::answers::ours;
use crate::answers::unusable;
use crate::channel::caller;
use crate::limits::Limits;
use crate::smpp::settings::SmppSettings;
use crate::{http, smpp, twilio};

/// For the whole call.
const LIMIT: Duration = Duration::from_secs(20);

/// Makes a real call to the provider, and says in one sentence what it proved.
///
/// # Errors
/// Unexpected answer of the provider.
pub async fn probe(outbound: Outbound, provider: &Provider) -> Result<String, Answer> {
    let limits = Limits { call: LIMIT, ..Limits::for_lease(LIMIT) };
    let caller = caller(outbound, limits)
        .map_err(|error| ours(Outcome::RETRY, "tls", format!("TLS cannot be set up: {error}")))?;
    match provider.kind.as_str() {
        "twilio" => twilio::probe(&caller, provider, clock::now()).await,
        "http" => http::probe(&caller, provider, clock::now()).await,
        "smpp" => {
            let settings = SmppSettings::parse(&provider.settings).map_err(|problems| unusable(&problems))?;
            smpp::check(&settings, outbound, LIMIT).await?;
            Ok(format!("{} bound {} as a transceiver, and unbound it", settings.host, settings.system_id))
        }
        kind => Err(ours(Outcome::PauseProvider, "kind", format!("no SMS provider can be of kind {kind:?}"))),
    }
}
