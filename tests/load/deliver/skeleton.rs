//! The skeleton of a worker: the bare client, which also records the status of each message in PostgreSQL, in batches. It has no
//! claims, attempts, outcomes or queue.

use sqlx::{Connection, PgConnection};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::installation::Installation;

/// Maximum number of rows of one statement, as in the workers.
const BATCH: usize = 256;

/// Recipient of a bare client's reports: one for each message that its provider has accepted. A client that keeps no record ignores them.
#[derive(Clone, Default)]
pub(super) struct Reports(Option<mpsc::Sender<i64>>);

impl Reports {
    /// Reports the message with this index.
    pub(super) async fn accepted(&self, index: usize) {
        if let Some(accepted) = &self.0 {
            accepted.send(i64::try_from(index).unwrap()).await.unwrap();
        }
    }
}

/// Records reported messages, until every copy of its [`Reports`] is dropped.
pub(super) struct Recorder(JoinHandle<()>);

impl Recorder {
    /// Creates a row for each message and starts to record.
    pub(super) async fn start(installation: &Installation, messages: usize) -> (Reports, Recorder) {
        let mut connection = PgConnection::connect(installation.database_url()).await.unwrap();
        let create = "DROP TABLE IF EXISTS skeleton;
             CREATE TABLE skeleton (id bigint PRIMARY KEY, status text NOT NULL, settled_at timestamptz)
               WITH (fillfactor = 55)";
        sqlx::raw_sql(create).execute(&mut connection).await.unwrap();
        sqlx::query("INSERT INTO skeleton SELECT id, 'queued' FROM generate_series(0, $1::bigint - 1) AS id")
            .bind(i64::try_from(messages).unwrap())
            .execute(&mut connection)
            .await
            .unwrap();
        let (accepted, mut waiting) = mpsc::channel(4 * BATCH);
        let recording = tokio::spawn(async move {
            let mut batch = Vec::with_capacity(BATCH);
            while waiting.recv_many(&mut batch, BATCH).await > 0 {
                record(&mut connection, &batch).await;
                batch.clear();
            }
            let sent = "SELECT count(*) FROM skeleton WHERE status = 'sent'";
            let sent: i64 = sqlx::query_scalar(sent).fetch_one(&mut connection).await.unwrap();
            assert_eq!(usize::try_from(sent).unwrap(), messages, "every message is recorded");
            connection.close().await.unwrap();
        });
        (Reports(Some(accepted)), Recorder(recording))
    }

    /// Waits until every reported message is recorded.
    pub(super) async fn finish(self) {
        self.0.await.unwrap();
    }
}

async fn record(connection: &mut PgConnection, batch: &[i64]) {
    sqlx::query(
        "UPDATE skeleton s SET status = 'sent', settled_at = now() FROM unnest($1::bigint[]) AS sent (id) WHERE s.id = sent.id",
    )
    .bind(batch)
    .execute(connection)
    .await
    .unwrap();
}
