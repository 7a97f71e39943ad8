//! Decides whether the app's key or a single subscription is at fault if a push service rejects the app's signature. Push services give the
//! same response in both cases, and any visitor of a page can register a subscription that was made with another key. So only rejections
//! for many users at one push service pause the provider.

use std::sync::Arc;
use std::time::Duration;

use domain::{Answer, AppId, Outcome, UserNumber};
use moka::future::Cache;
use worker::{Provider, Refusals};

/// Time without a rejection or a success after which a history is dropped.
const IDLE: Duration = Duration::from_secs(3600);
const MOST: u64 = 10_000;

/// Recent rejections and successes at each push service.
pub(crate) struct Doubts {
    known: Cache<Place, Arc<Refusals>>,
}

/// Cache key of a history. If a provider's settings change, a new history starts.
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

    /// Returns the answer unchanged if too many users are affected. Otherwise the answer only fails the delivery, and the subscription is
    /// kept.
    pub(crate) async fn settle(
        &self,
        provider: &Provider,
        origin: &str,
        user: UserNumber,
        answer: Answer,
    ) -> Answer {
        let is_refused = answer.outcome == Outcome::PauseProvider;
        // Other answers do not show whether the key is good.
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
