//! Outcomes in the log at the time when the database was lost.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use domain::event::bundle;
use domain::{Event, Status, StreamName};
use testkit::eventually;
use uuid::Uuid;

use crate::load::Load;
use crate::system::System;

const LONGEST: Duration = Duration::from_secs(60);
const BATCH: usize = 500;

/// Last outcome of each delivery.
pub(crate) struct Outcomes {
    pub(crate) reported: HashMap<Uuid, Status>,
    /// Numbers of users in published plans.
    pub(crate) planned: HashSet<i64>,
}

impl Outcomes {
    pub(crate) async fn read(system: &System) -> Outcomes {
        let last = system.log.state(StreamName::Outcome).await.unwrap().last_seq;
        let mut reader = system.log.reader(StreamName::Outcome, 0);
        let (mut reported, mut planned, mut read) = (HashMap::new(), HashSet::new(), 0);
        while read < last {
            let records = reader.next_batch(BATCH, Duration::from_millis(5)).await.unwrap();
            read = records.last().map_or(read, |record| record.seq);
            for part in records.iter().flat_map(|record| bundle::decode(&record.payload).unwrap()) {
                match part.envelope.event {
                    Event::DeliverySettled(settled) => {
                        reported.insert(settled.delivery_id.0, settled.status);
                    }
                    Event::ChunkPlanned(plan) => {
                        let recipients = plan.decided.into_iter().flat_map(|decided| decided.recipients);
                        planned.extend(recipients.filter_map(|(user, _)| Some(user?.0)));
                    }
                    _ => {}
                }
            }
        }
        Outcomes { reported, planned }
    }

    /// Deliveries with a final status.
    pub(crate) fn ended(&self) -> HashSet<Uuid> {
        self.reported.iter().filter(|(_, status)| status.is_terminal()).map(|(id, _)| *id).collect()
    }
}

/// Waits until the log has all erasures and cancellations, and more final outcomes than there are sends.
pub(crate) async fn await_recorded_outcomes(system: &System, load: &Load) {
    eventually(LONGEST, "the erasures, cancellations and most outcomes are in the log", async || {
        let timers: i64 =
            sqlx::query_scalar("SELECT count(*) FROM timer WHERE stream = 'OUTCOME' OR stream LIKE 'INBOX%'")
                .fetch_one(&system.database)
                .await
                .unwrap();
        let ended = Outcomes::read(system).await.ended().len();
        (timers == 0 && ended > load.sends.len()).then_some(())
    })
    .await;
}
