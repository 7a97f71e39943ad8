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

type Key = (AppId, String);

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

    /// Returns the session of a provider. If the settings have changed, starts a new session; the old one ends when
    /// its open submissions are finished.
    pub(crate) fn of(&self, provider: &Provider, settings: &SmppSettings, post: Post) -> Arc<Session> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (provider.app, provider.identifier.clone());
        if let Some((version, session)) = known.get(&key)
            && *version == provider.version
        {
            return session.clone();
        }
        let session =
            Session::start(settings.clone(), self.outbound, self.limits.connecting, post, &self.tasks);
        let session = Arc::new(session);
        known.insert(key, (provider.version, session.clone()));
        session
    }

    pub(crate) async fn reap(&self) -> std::convert::Infallible {
        let mut ticks = interval(self.limits.idle / 4);
        loop {
            ticks.tick().await;
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            // While the map is locked, a count of one means that no call uses the session.
            known.retain(|_, (_, session)| {
                Arc::strong_count(session) > 1 || session.idle() < self.limits.idle
            });
        }
    }
}
