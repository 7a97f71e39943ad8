//! Decides if the app's key or a single subscription is at fault when a push service rejects the app's signature.
//!
//! A subscription for another key gets the same response as a bad key, and any visitor of a page can register one. So a
//! single rejection does not pause the provider: only rejections for many users at one push service do.

use std::sync::Arc;
use std::time::Duration;

use domain::{Answer, AppId, Outcome, UserNumber};
use moka::future::Cache;
use worker::{Provider, Refusals};

/// Idle time after which the history of a push service is dropped.
const IDLE: Duration = Duration::from_secs(3600);
/// Maximum number of histories in memory.
const MOST: u64 = 10_000;

/// Recent rejections and successes at each push service.
pub(crate) struct Doubts {
    known: Cache<Place, Arc<Refusals>>,
}

/// Cache key: a push service and a version of a provider. Changed settings start without a history.
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

    /// Adjusts an answer. A rejected signature fails only its own delivery and keeps the subscription, unless it occurs for
    /// too many users; then the provider is paused.
    pub(crate) async fn settle(
        &self,
        provider: &Provider,
        origin: &str,
        user: UserNumber,
        answer: Answer,
    ) -> Answer {
        let is_refused = answer.outcome == Outcome::PauseProvider;
        // Other answers show nothing about the key.
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
