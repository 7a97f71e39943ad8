use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use credentials::secrets::webhook_secret_context;
use credentials::webhook::Secret;
use domain::AppId;
use secrecy::ExposeSecret;
use service_kit::Context;
use store::webhooks::{Behind, Depths, DueMessage, Search};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use uuid::Uuid;
use worker::Outbound;

use crate::Settings;
use crate::call::Caller;
use crate::settler::settler;
use crate::slot::{EndedSlot, Secrets, Slot};

const PAUSE: Duration = Duration::from_millis(200);
/// Minimum time between two claims.
const BREATH: Duration = Duration::from_millis(5);
/// Endpoints whose depth is remembered.
const MAX_DEPTHS: usize = 10_000;

pub(crate) struct WebhookSender {
    context: Context,
    settings: Arc<Settings>,
    caller: Caller,
}

struct Slots {
    running: JoinSet<Option<EndedSlot>>,
    /// Endpoint and token of each running slot.
    claims: HashMap<Id, ((AppId, i64), Uuid)>,
    looking: JoinSet<Behind>,
    depths: Depths,
    per_slot: u32,
    search: Search,
}

impl WebhookSender {
    pub(crate) fn new(context: &Context, settings: Settings) -> anyhow::Result<WebhookSender> {
        let outbound = Outbound::new(context.config.outbound.allow_private);
        let caller = Caller::new(outbound, settings.call_limit)
            .context("cannot create the HTTP client of webhooks")?;
        Ok(WebhookSender { context: context.clone(), settings: Arc::new(settings), caller })
    }

    /// Finishes the calls in progress before it ends.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let token = self.context.tasks.token().clone();
        let (settler, settling) = settler(self.context.store.clone(), Arc::clone(&self.settings));
        self.context.spawn("webhook settler", settling);
        let (settings, caller) = (Arc::clone(&self.settings), self.caller.clone());
        let slot = Slot { settings, caller, settler, stop: token.clone() };
        let mut slots = Slots::new(self.settings.pace.per_slot);
        let mut woken: Option<Instant> = None;
        while !token.is_cancelled() {
            let is_due = woken.is_none_or(|at| at.elapsed() >= self.settings.wake_every);
            if is_due && self.wake_all_apps().await {
                woken = Some(Instant::now());
            }
            self.look_behind(&mut slots);
            let free_slots = self.settings.max_concurrency.saturating_sub(slots.running.len());
            let began = Instant::now();
            let claimed = self.claim_due(free_slots, &slots.depths, &mut slots.search).await;
            let has_more = free_slots > 0 && slots.search.has_more();
            let pause = if claimed.is_empty() && !has_more { PAUSE } else { BREATH };
            let mut opened = HashMap::<(AppId, i64), Secrets>::new();
            for messages in claimed {
                let Some(first) = messages.first() else { continue };
                let (endpoint, token) = ((first.app, first.endpoint), first.token);
                let secrets = opened.entry(endpoint).or_insert_with(|| self.secrets(first)).clone();
                let running = slots.running.spawn(slot.clone().run(messages, secrets, began));
                slots.claims.insert(running.id(), (endpoint, token));
            }
            // When a slot ends, further messages can be sent: for the same endpoint, and about the same deliveries or items.
            tokio::select! {
                () = token.cancelled() => {}
                () = sleep(pause) => {}
                Some(ended) = slots.running.join_next_with_id() => {
                    slots.reap(ended);
                    // Others end soon, and one claim serves them all.
                    sleep_until(began + BREATH).await;
                }
            }
            while let Some(ended) = slots.running.try_join_next_with_id() {
                slots.reap(ended);
            }
        }
        while let Some(ended) = slots.running.join_next_with_id().await {
            slots.reap(ended);
        }
        self.leave(&slots.search).await;
        Ok(())
    }

    /// Returns true if each app is woken, so that this process finds what others have passed over.
    async fn wake_all_apps(&self) -> bool {
        let woken = self.context.store.webhooks().wake_all_apps().await;
        woken.inspect_err(|error| tracing::warn!(%error, "cannot wake all apps; trying again")).is_ok()
    }

    /// Lets other processes look for the messages that this one may have passed over.
    async fn leave(&self, search: &Search) {
        if let Err(error) = self.context.store.webhooks().wake_apps(&search.unfinished()).await {
            tracing::warn!(%error, "cannot hand over webhooks that may be late; other processes find them when they next wake all apps");
        }
    }

    async fn claim_due(
        &self,
        free_slots: usize,
        depths: &Depths,
        search: &mut Search,
    ) -> Vec<Vec<DueMessage>> {
        if free_slots == 0 {
            return Vec::new();
        }
        let most = u32::try_from(free_slots).unwrap_or(u32::MAX);
        let webhooks = self.context.store.webhooks();
        match webhooks.take_webhooks_from(most, self.settings.pace, depths, search).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "cannot claim webhooks; trying again");
                Vec::new()
            }
        }
    }

    /// Notes the looks that have ended, and begins one that is due.
    fn look_behind(&self, slots: &mut Slots) {
        while let Some(looked) = slots.looking.try_join_next() {
            match looked {
                Ok(look) => slots.search.note_look(&look),
                Err(error) => {
                    slots.search.forget_looks();
                    tracing::error!(%error, "a look for late webhooks panicked; trying again");
                }
            }
        }
        if let Some(mut look) = slots.search.look() {
            let store = self.context.store.clone();
            slots.looking.spawn(async move {
                if let Err(error) = store.webhooks().look_behind(&mut look).await {
                    tracing::warn!(%error, "cannot look for late webhooks; trying again");
                }
                look
            });
        }
    }

    fn secrets(&self, due: &DueMessage) -> Secrets {
        let context = webhook_secret_context(due.app, due.endpoint);
        let open = |sealed: &Vec<u8>| {
            let opened = self.context.master_key.open(&context, sealed)?;
            let text = std::str::from_utf8(opened.expose_secret()).ok();
            text.and_then(Secret::parse).context("a stored secret is malformed")
        };
        let secrets = due.target.sealed.iter().map(open).collect::<anyhow::Result<Vec<_>>>();
        let secrets = secrets.and_then(|secrets| {
            anyhow::ensure!(!secrets.is_empty(), "the endpoint has no secret");
            Ok(Arc::new(secrets))
        });
        secrets
            .inspect_err(|error| {
                let error = format!("{error:#}");
                tracing::error!(
                    app = %due.app,
                    endpoint = due.endpoint,
                    error,
                    "cannot load the secrets of an endpoint; retrying its webhooks later"
                );
            })
            .ok()
    }
}

impl Slots {
    fn new(per_slot: u32) -> Slots {
        Slots {
            running: JoinSet::new(),
            claims: HashMap::new(),
            looking: JoinSet::new(),
            depths: Depths::new(),
            per_slot,
            search: Search::default(),
        }
    }

    /// Logs a slot that panicked. Its messages become due again when their lease ends.
    fn reap(&mut self, ended: Result<(Id, Option<EndedSlot>), JoinError>) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        if let Some((endpoint, token)) = self.claims.remove(&id) {
            self.search.note_ended(endpoint, token);
        }
        match ended {
            Ok((_, Some(ended))) => deepen(&mut self.depths, &ended, self.per_slot),
            Ok((_, None)) => {}
            Err(error) => {
                tracing::error!(%error, "a webhook call panicked; sending the webhook again when its lease ends");
            }
        }
    }
}

/// Doubles the depth of an endpoint that accepted full slots quickly, and resets it to 1 after a slot that was slow or failed.
fn deepen(depths: &mut Depths, ended: &EndedSlot, most: u32) {
    let depth = depths.get(&ended.endpoint).copied().unwrap_or(1);
    if !ended.was_fast {
        depths.remove(&ended.endpoint);
    } else if ended.taken >= depth && depth < most {
        if depths.len() >= MAX_DEPTHS {
            depths.clear();
        }
        depths.insert(ended.endpoint, (depth * 2).min(most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_of_an_endpoint_follows_its_slots() {
        let mut depths = Depths::new();
        let endpoint = (AppId(1), 7);
        let mut after = |taken, was_fast| {
            deepen(&mut depths, &EndedSlot { endpoint, taken, was_fast }, 16);
            depths.get(&endpoint).copied().unwrap_or(1)
        };
        assert_eq!([1, 2, 4, 8, 16].map(|taken| after(taken, true)), [2, 4, 8, 16, 16]);
        assert_eq!(after(3, true), 16, "a slot that was not full says nothing");
        assert_eq!(after(16, false), 1);
    }
}
