//! How the checkpoints of those who follow the log move: the inbox projection, and the webhooks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::StreamName;
use sqlx::{PgExecutor, PgPool};
use store::inbox::projection::INBOX;
use store::webhooks::WEBHOOKS;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

const INTERVAL: Duration = Duration::from_millis(200);

/// Takes note of every commit that does not take a checkpoint forward.
const STEPS_BACK: &str = "
    CREATE TABLE stepped_back (projection text NOT NULL, stream text NOT NULL, was bigint NOT NULL, became bigint NOT NULL);
    CREATE FUNCTION note_step_back() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO stepped_back VALUES (NEW.projection, NEW.stream, OLD.seq, NEW.seq);
      RETURN NULL;
    END $$;
    CREATE TRIGGER note_step_back AFTER UPDATE ON checkpoint FOR EACH ROW
      WHEN (NEW.seq <= OLD.seq) EXECUTE FUNCTION note_step_back();";

/// From now on, every step back is a row of `stepped_back`.
pub(crate) async fn note(database: &PgPool) {
    sqlx::raw_sql(STEPS_BACK).execute(database).await.unwrap();
}

/// Who follows, and which stream: `inbox` and `INBOX_0`.
pub(crate) type Place = (String, String);

/// All places of an installation with so many partitions. The stream that a place follows comes with it.
pub(crate) fn places(partitions: u32) -> impl Iterator<Item = (Place, StreamName)> {
    let inboxes = move || (0..partitions).map(StreamName::Inbox);
    let projected = inboxes().map(|stream| (INBOX, stream));
    let told = inboxes().chain([StreamName::Outcome]).map(|stream| (WEBHOOKS, stream));
    projected.chain(told).map(|(who, stream)| ((who.to_owned(), stream.to_string()), stream))
}

/// Where a checkpoint stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) place: Place,
    pub(crate) seq: i64,
}

/// Looks at every checkpoint from time to time.
pub(crate) struct Sampler {
    samples: Arc<Mutex<Vec<Sample>>>,
    task: JoinHandle<()>,
}

impl Sampler {
    pub(crate) fn start(database: &PgPool) -> Sampler {
        let samples = Arc::<Mutex<Vec<Sample>>>::default();
        let (database, taken) = (database.clone(), Arc::clone(&samples));
        let task = tokio::spawn(async move {
            let mut pace = tokio::time::interval(INTERVAL);
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                pace.tick().await;
                // Nothing while the database is away.
                let now = current(&database).await.unwrap_or_default();
                taken.lock().unwrap().extend(now);
            }
        });
        Sampler { samples, task }
    }

    pub(crate) fn stop(self) -> Vec<Sample> {
        self.task.abort();
        std::mem::take(&mut self.samples.lock().unwrap())
    }
}

/// Where the checkpoints stand now.
pub(crate) async fn current(database: impl PgExecutor<'_>) -> sqlx::Result<Vec<Sample>> {
    let rows: Vec<(String, String, i64)> =
        sqlx::query_as("SELECT projection, stream, seq FROM checkpoint ORDER BY projection, stream")
            .fetch_all(database)
            .await?;
    Ok(rows.into_iter().map(|(who, stream, seq)| Sample { place: (who, stream), seq }).collect())
}
