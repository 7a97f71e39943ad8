//! Movement of the checkpoints of the inbox projection and of webhooks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::PgPool;
use suite::checkpoint::{self, Checkpoint};
use suite::pace;
use tokio::task::JoinHandle;

const INTERVAL: Duration = Duration::from_millis(200);

/// Trigger that records every update that does not move a checkpoint forward.
const STEPS_BACK: &str = "
    CREATE TABLE stepped_back (projection text NOT NULL, stream text NOT NULL, was bigint NOT NULL, became bigint NOT NULL);
    CREATE FUNCTION note_step_back() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO stepped_back VALUES (NEW.projection, NEW.stream, OLD.seq, NEW.seq);
      RETURN NULL;
    END $$;
    CREATE TRIGGER note_step_back AFTER UPDATE ON checkpoint FOR EACH ROW
      WHEN (NEW.seq <= OLD.seq) EXECUTE FUNCTION note_step_back();";

/// Creates the trigger, which writes to the table `stepped_back`.
pub(crate) async fn record(database: &PgPool) {
    sqlx::raw_sql(STEPS_BACK).execute(database).await.unwrap();
}

/// Reads every checkpoint at intervals.
pub(crate) struct Sampler {
    samples: Arc<Mutex<Vec<Checkpoint>>>,
    task: JoinHandle<()>,
}

impl Sampler {
    pub(crate) fn start(database: &PgPool) -> Sampler {
        let samples = Arc::<Mutex<Vec<Checkpoint>>>::default();
        let (database, taken) = (database.clone(), Arc::clone(&samples));
        let task = tokio::spawn(async move {
            let mut pace = pace(INTERVAL);
            loop {
                pace.tick().await;
                // Returns nothing while the database is unavailable.
                let now = checkpoint::current(&database).await.unwrap_or_default();
                taken.lock().unwrap().extend(now);
            }
        });
        Sampler { samples, task }
    }

    pub(crate) fn stop(self) -> Vec<Checkpoint> {
        self.task.abort();
        std::mem::take(&mut self.samples.lock().unwrap())
    }
}
