//! Whose fault it is that a push service refuses the app's signature.
//!
//! A subscription that was made for another key is answered as a wrong key is, and any visitor of a page can hand one in.
//! So it is not believed at once: sends to a push service are paused when those to many users are refused so.

use std::sync::Arc;
use std::time::Duration;

use domain::{Answer, AppId, Outcome, UserNumber};
use moka::future::Cache;
use worker::{Provider, Refusals};

/// Time for which sends to a push service are remembered after the last one.
const IDLE: Duration = Duration::from_secs(3600);
/// Push services of providers that are remembered at once.
const MOST: u64 = 10_000;

/// The last sends to each push service.
pub(crate) struct Doubts {
    known: Cache<Place, Arc<Refusals>>,
}

/// A push service, as one version of a provider knows it: changed settings start without a history.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    app: AppId,
    provider: String,
    version: i64,
    origin: String,
}

impl Doubts {
    pub(crate) fn new() -> Doubts {
        Doubts { known: Cache::builder().max_capacity(MOST).time_to_idle(IDLE).build() }
    }

    /// The answer as it is to be settled: a refused signature fails for its subscription alone, which is kept, unless too
    /// many users meet with it.
    pub(crate) async fn settle(
        &self,
        provider: &Provider,
        origin: &str,
        user: UserNumber,
        answer: Answer,
    ) -> Answer {
        let is_refused = answer.outcome == Outcome::PauseProvider;
        // Other answers say nothing of keys.
        if !is_refused && !matches!(answer.outcome, Outcome::Sent { .. }) {
            return answer;
        }
        let place = Place {
            app: provider.app,
            provider: provider.identifier.clone(),
            version: provider.version,
            origin: origin.to_owned(),
        };
        let refusals = self.known.get_with(place, async { Arc::default() }).await;
        match refusals.too_many_with(user, is_refused) {
            false if is_refused => Answer { outcome: Outcome::Failed, ..answer },
            _ => answer,
        }
    }
}
