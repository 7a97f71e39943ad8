//! What the clients were promised.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::api::Api;
use crate::send::{SENDS, body};

const CLIENTS: usize = 8;
/// A part that was killed is back long before.
const MOST_ATTEMPTS: usize = 300;
/// From one attempt of a polite client to its next.
const BACK_OFF: Duration = Duration::from_millis(100);
/// Of so many sends, one is repeated in the end.
const REPEATED: usize = 20;

/// Every 202: the send's number and the id it was given.
pub(crate) struct Journal {
    confirmed: BTreeMap<usize, String>,
    /// How often the clients asked.
    pub(crate) attempts: usize,
}

impl Journal {
    /// Sends everything, each send repeated under its key until it is confirmed. Tells how many are.
    pub(crate) async fn of_all_sends(api: &Api, confirmed: &watch::Sender<usize>) -> Journal {
        let (next, attempts) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let (api, next, attempts) = (api.clone(), Arc::clone(&next), Arc::clone(&attempts));
            let confirmed = confirmed.clone();
            clients.spawn(async move {
                let mut promised = Vec::new();
                loop {
                    let send = next.fetch_add(1, Ordering::Relaxed);
                    if send >= SENDS {
                        return promised;
                    }
                    promised.push((send, until_confirmed(&api, send, &attempts).await));
                    confirmed.send_modify(|count| *count += 1);
                }
            });
        }
        let confirmed = clients.join_all().await.into_iter().flatten().collect();
        Journal { confirmed, attempts: attempts.load(Ordering::Relaxed) }
    }

    pub(crate) fn confirmed(&self) -> usize {
        self.confirmed.len()
    }

    /// The ids, by send.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (usize, &str)> {
        self.confirmed.iter().map(|(send, request)| (*send, request.as_str()))
    }

    /// A client that did not hear its 202 asks again, and is told the same.
    pub(crate) async fn holds_when_repeated(&self, api: &Api) {
        for (send, request) in self.requests().step_by(REPEATED) {
            let again = api.send(&body(send), &key(send)).await;
            assert_eq!(again.as_deref(), Some(request), "send {send} under its key again");
        }
    }
}

async fn until_confirmed(api: &Api, send: usize, attempts: &AtomicUsize) -> String {
    let (body, key) = (body(send), key(send));
    let mut pace = tokio::time::interval(BACK_OFF);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..MOST_ATTEMPTS {
        pace.tick().await;
        attempts.fetch_add(1, Ordering::Relaxed);
        if let Some(request) = api.send(&body, &key).await {
            return request;
        }
    }
    panic!("send {send} is not confirmed after {MOST_ATTEMPTS} attempts");
}

fn key(send: usize) -> String {
    format!("crash-{send}")
}
