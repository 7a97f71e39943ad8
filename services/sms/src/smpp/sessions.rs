//! The sessions of all providers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::AppId;
use service_kit::Tasks;
use tokio::time::interval;
use worker::{Outbound, Provider};

use super::session::Session;
use super::settings::SmppSettings;
use crate::limits::Limits;
use crate::recorder::Post;

/// A provider: its app and its identifier.
type Key = (AppId, String);

/// One session for each provider in use, with its settings as they are now.
pub(crate) struct Sessions {
    outbound: Outbound,
    limits: Limits,
    tasks: Tasks,
    known: Mutex<HashMap<Key, (i64, Arc<Session>)>>,
}

impl Sessions {
    pub(crate) fn new(outbound: Outbound, limits: Limits, tasks: Tasks) -> Sessions {
        Sessions { outbound, limits, tasks, known: Mutex::default() }
    }

    /// The session of a provider. Changed settings make a new one; the old one ends when what is under way on it has.
    pub(crate) fn of(&self, provider: &Provider, settings: SmppSettings, post: Post) -> Arc<Session> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (provider.app, provider.identifier.clone());
        if let Some((version, session)) = known.get(&key)
            && *version == provider.version
        {
            return session.clone();
        }
        let session = Session::start(settings, self.outbound, self.limits.connecting, post, &self.tasks);
        let session = Arc::new(session);
        known.insert(key, (provider.version, session.clone()));
        session
    }

    /// Ends sessions that have been idle for long, for as long as it is polled.
    pub(crate) async fn reap(&self) -> std::convert::Infallible {
        let mut ticks = interval(self.limits.idle / 4);
        loop {
            ticks.tick().await;
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            // Under the lock, a count of one says that no call has it.
            known.retain(|_, (_, session)| {
                Arc::strong_count(session) > 1 || session.idle() < self.limits.idle
            });
        }
    }
}
