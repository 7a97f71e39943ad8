//! Return of snoozed items to the list. The tables contain the snoozes, so a restart, a rebuild or a restore loses none. Several processes
//! may do this at once, because ending a snooze twice is harmless.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::event::SnoozesEnded;
use domain::{AppId, Event, ItemId, Timestamp, UserNumber};
use service_kit::{Context, clock};
use store::Store;
use store::inbox::snoozes::{DueSnooze, SnoozePosition};
use tokio::time::{sleep, timeout};

use crate::publisher::{Publisher, Ready, UserEvent};

/// Snoozed items may return late by about this time.
const PAUSE: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(60);
const ROWS: u32 = 1_000;
/// Statements per round. The next round follows at once, and continues there.
const PAGES: u32 = 20;

pub struct Snoozes {
    store: Store,
    publisher: Publisher,
    position: SnoozePosition,
}

pub(crate) async fn run(context: Context) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let mut snoozes = Snoozes::new(&context);
    loop {
        let round = timeout(LIMIT, snoozes.round(clock::now()));
        match token.run_until_cancelled(round).await {
            None => return Ok(()),
            Some(Ok(Ok(_))) if snoozes.position != SnoozePosition::START => continue,
            Some(Ok(Ok(_))) => {}
            Some(Ok(Err(error))) => {
                tracing::warn!(error = format!("{error:#}"), "cannot return snoozed items; trying again");
            }
            Some(Err(_)) => {
                tracing::warn!("returning snoozed items takes long; continuing in the next round");
            }
        }
        if token.run_until_cancelled(sleep(PAUSE)).await.is_none() {
            return Ok(());
        }
    }
}

impl Snoozes {
    #[must_use]
    pub fn new(context: &Context) -> Snoozes {
        let store = context.store.clone();
        Snoozes { store, publisher: Publisher::new(context), position: SnoozePosition::START }
    }

    /// Ends the snoozes until `now` or earlier, and returns the number of items. Leaves out the partitions whose projection has not applied
    /// the events of an earlier round.
    ///
    /// # Errors
    /// Returns the first error of a server. The snoozes of other partitions may have ended; the next round ends the others.
    pub async fn round(&mut self, now: Timestamp) -> anyhow::Result<u64> {
        let mut ready = Ready::default();
        let mut ended = 0;
        for _ in 0..PAGES {
            let page = self.store.inbox().due_snoozes(self.position, now, ROWS).await?;
            let is_last = page.len() < ROWS as usize;
            // If this page fails, the next round continues with the next page, so that it delays no other.
            self.position = match page.last() {
                Some(last) if !is_last => last.position(),
                _ => SnoozePosition::START,
            };
            let mut events = Vec::new();
            for ((app, user), snoozes) in by_user(page) {
                if self.publisher.is_ready(&mut ready, app, user).await {
                    ended += snoozes.len() as u64;
                    events.extend(end(app, user, &snoozes));
                }
            }
            for result in self.publisher.publish(now, events).await? {
                result?;
            }
            if is_last {
                break;
            }
        }
        ready.failure.map_or(Ok(ended), Err)
    }
}

fn end(app: AppId, user: UserNumber, snoozes: &[DueSnooze]) -> Option<UserEvent> {
    let items: Vec<ItemId> = snoozes.iter().map(|snooze| snooze.key.2).collect();
    let (first, last) = (items.iter().min()?, items.iter().max()?);
    let due = snoozes.iter().map(|snooze| snooze.until).max()?;
    let id = format!("snooze {app} {user} {first} {last} {} {}", items.len(), due.millis());
    let event = Event::InboxSnoozesEnded(SnoozesEnded { user, items, due: Some(due) });
    Some(UserEvent { app, user, id, event })
}

fn by_user(page: Vec<DueSnooze>) -> BTreeMap<(AppId, UserNumber), Vec<DueSnooze>> {
    let mut users: BTreeMap<(AppId, UserNumber), Vec<DueSnooze>> = BTreeMap::new();
    for snooze in page {
        let (app, user, _) = snooze.key;
        users.entry((app, user)).or_default().push(snooze);
    }
    users
}
