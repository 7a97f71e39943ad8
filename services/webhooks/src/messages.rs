//! Messages for endpoints, written from the events of one stream in its order. A durable consumer would give adjacent events to several
//! processes, which could write two events of the same delivery in the wrong order.

use std::collections::HashSet;
use std::time::Duration;

use domain::event::bundle::Part;
use domain::event::{AllItemsChanged, ItemsChanged};
use domain::inbox::{AllChange, ItemChange};
use domain::webhook::WebhookEvent;
use domain::{AppId, Envelope, Event, ItemId, StreamName};
use service_kit::Context;
use service_kit::follower::{EventBatch, Follower, Projection, Repeats};
use store::Store;
use store::inbox::projection::INBOX;
use store::webhooks::{Listener, WEBHOOKS, WebhookBatch};

use crate::notices::WebhookNotice;

const PROJECTION_PAUSE: Duration = Duration::from_millis(20);
/// Items per page of an inbox whose user marked all of it as read.
const ITEMS: u32 = 1_000;

pub(crate) struct Messages {
    store: Store,
}

/// Events with messages for endpoints, and the endpoints of their apps.
#[derive(Default)]
pub(crate) struct Reported {
    envelopes: Vec<Envelope>,
    listeners: Vec<Listener>,
}

impl Projection for Messages {
    const NAME: &'static str = WEBHOOKS;
    /// Endpoints are called over the network, so this delay is of no importance.
    const PACE: Duration = Duration::from_millis(50);
    const STARTS_LATE: bool = true;
    type Events = Reported;

    fn add(&mut self, events: &mut Reported, _: u64, part: Part) -> Result<(), String> {
        if is_reported(&part.envelope.event) {
            events.envelopes.push(part.envelope);
        }
        Ok(())
    }

    async fn prepare(&self, events: &mut Reported) -> Result<bool, store::Error> {
        let apps: HashSet<AppId> = events.envelopes.iter().map(|envelope| envelope.app).collect();
        if !apps.is_empty() {
            events.listeners = self.store.webhooks().listeners(&apps).await?;
        }
        let wanted = |envelope| events.listeners.iter().any(|listener| wants(listener, envelope));
        Ok(events.envelopes.iter().any(wanted))
    }

    async fn write(&self, batch: &EventBatch<'_, Reported>, _: Repeats) -> Result<bool, store::Error> {
        let Reported { envelopes, listeners } = &batch.events;
        if needs_projection(envelopes, listeners) {
            self.wait_for_projection(batch.stream, batch.to).await?;
        }
        let Some(mut rows) = self.store.webhooks().webhook_batch(batch.stream, batch.from, batch.to).await?
        else {
            return Ok(false);
        };
        self.add_all(&mut rows, envelopes, listeners).await?;
        for (record, cause) in &batch.dead {
            rows.dead_letter(batch.stream, record.seq, &record.payload, cause).await?;
        }
        rows.commit().await?;
        Ok(true)
    }
}

impl Messages {
    pub(crate) fn follower(context: &Context, stream: StreamName) -> Follower<Messages> {
        let messages = Messages { store: context.store.clone() };
        Follower::new(context.store.clone(), stream, messages)
    }

    /// Waits until the inbox is projected up to `seq`. Only then do the rows of the inbox show which items the user read.
    async fn wait_for_projection(&self, stream: StreamName, seq: u64) -> Result<(), store::Error> {
        while self.store.database().checkpoint(INBOX, stream).await? < seq {
            tokio::time::sleep(PROJECTION_PAUSE).await;
        }
        Ok(())
    }

    async fn add_all(
        &self,
        rows: &mut WebhookBatch,
        envelopes: &[Envelope],
        listeners: &[Listener],
    ) -> Result<(), store::Error> {
        let wanted = |envelope: &&Envelope| listeners.iter().any(|listener| wants(listener, envelope));
        let mut happenings = Vec::new();
        for envelope in envelopes.iter().filter(wanted) {
            match &envelope.event {
                Event::InboxItemsChanged(ItemChange::Read, ItemsChanged { user, items }) => {
                    let app = envelope.app;
                    let at = envelope.at;
                    let read = self.store.webhooks().items_read(app, *user, items, at).await?;
                    happenings
                        .extend(read.into_iter().map(|item| WebhookNotice::of_read(app, *user, item, at)));
                }
                Event::InboxAllChanged(AllChange::Read, changed) => {
                    add(rows, &happenings, listeners).await?;
                    happenings.clear();
                    self.add_all_read(rows, envelope, changed, listeners).await?;
                }
                _ => happenings.extend(WebhookNotice::of_outcome(envelope)),
            }
        }
        add(rows, &happenings, listeners).await
    }

    async fn add_all_read(
        &self,
        rows: &mut WebhookBatch,
        envelope: &Envelope,
        &AllItemsChanged { user, up_to }: &AllItemsChanged,
        listeners: &[Listener],
    ) -> Result<(), store::Error> {
        let app = envelope.app;
        let at = envelope.at;
        let mut after = ItemId(0);
        loop {
            let page = self.store.webhooks().all_items_read(app, user, (after, up_to), at, ITEMS).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.id;
            let read: Vec<_> =
                page.into_iter().map(|item| WebhookNotice::of_read(app, user, item, at)).collect();
            add(rows, &read, listeners).await?;
        }
    }
}

fn is_reported(event: &Event) -> bool {
    is_read(event) || matches!(event, Event::DeliverySettled(_) | Event::TargetSuppressed(_))
}

fn is_read(event: &Event) -> bool {
    matches!(
        event,
        Event::InboxItemsChanged(ItemChange::Read, _) | Event::InboxAllChanged(AllChange::Read, _)
    )
}

fn wants(listener: &Listener, envelope: &Envelope) -> bool {
    let is_in_scope = listener.app == envelope.app && envelope.at >= listener.since;
    is_in_scope && (!is_read(&envelope.event) || listener.events.contains(&WebhookEvent::NotificationRead))
}

/// Returns true if a listener wants read items, whose messages need the rows of the inbox.
fn needs_projection(envelopes: &[Envelope], listeners: &[Listener]) -> bool {
    let wanted = |envelope: &Envelope| listeners.iter().any(|listener| wants(listener, envelope));
    envelopes.iter().any(|envelope| is_read(&envelope.event) && wanted(envelope))
}

/// Skips events of erased users.
async fn add(
    rows: &mut WebhookBatch,
    happenings: &[WebhookNotice],
    listeners: &[Listener],
) -> Result<(), store::Error> {
    if happenings.is_empty() {
        return Ok(());
    }
    let users = happenings.iter().map(|happening| (happening.app, happening.user)).collect();
    let identifiers = rows.identifiers(&users).await?;
    let mut messages = Vec::new();
    for happening in happenings {
        let Some(recipient) = identifiers.get(&(happening.app, happening.user)) else { continue };
        messages.extend(listeners.iter().filter_map(|listener| happening.message(listener, recipient)));
    }
    rows.add(&messages).await
}
