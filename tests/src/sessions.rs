//! Sessions of a test in PostgreSQL beside those of the services, which they disturb.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{interval, timeout};

/// Time limit for opening a session. PostgreSQL may be stopped at any time.
const OPENED_WITHIN: Duration = Duration::from_secs(5);
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM checkpoint";
/// Tables whose rows change all the time.
const HOT: [&str; 6] =
    ["checkpoint", "inbox_counter", "delivery", "timer", "webhook_wake", "idempotency_key"];
/// Scans of a transaction that does not stay open until the end.
const SCANS: usize = 12;
const SCAN_EVERY: Duration = Duration::from_millis(250);
/// Above the number of sessions that PostgreSQL allows.
const MOST: usize = 1_000;
/// SQLSTATE `too_many_connections`.
const TOO_MANY: &str = "53300";

/// Opens overlapping transactions, like those of `pg_dump` and of reports, for which PostgreSQL keeps old row versions, and which read the
/// hot tables again and again. They end when the value is dropped. Returns None if PostgreSQL is unavailable.
pub async fn readers(url: &str) -> Option<JoinSet<()>> {
    let mut readers = JoinSet::new();
    for scans in [usize::MAX, SCANS, SCANS] {
        let mut session = open(url).await.ok()?;
        timeout(OPENED_WITHIN, session.execute(BEGIN)).await.ok()?.ok()?;
        readers.spawn(async move { while read(&mut session, scans).await.is_ok() {} });
    }
    Some(readers)
}

/// Reads the tables in the open transaction, and begins the next one.
async fn read(session: &mut PgConnection, scans: usize) -> Result<(), sqlx::Error> {
    let mut pause = interval(SCAN_EVERY);
    for scan in 0..scans {
        pause.tick().await;
        let table = HOT[scan % HOT.len()];
        session.execute(AssertSqlSafe(format!("SELECT count(*) FROM {table}"))).await?;
    }
    session.execute("COMMIT").await?;
    session.execute(BEGIN).await?;
    Ok(())
}

/// Ends every third session of the services. Returns false if PostgreSQL is unavailable, or has no session of a service.
pub async fn end_a_third(url: &str) -> bool {
    let Ok(mut session) = open(url).await else { return false };
    let end = sqlx::query_scalar::<_, i64>(
        "SELECT count(pg_terminate_backend(pid)) FROM (
           SELECT pid, row_number() OVER (ORDER BY md5(pid::text)) AS number FROM pg_stat_activity
           WHERE datname = current_database() AND application_name = 'tidings'
         ) AS sessions WHERE number % 3 = 1",
    );
    matches!(timeout(OPENED_WITHIN, end.fetch_one(&mut session)).await, Ok(Ok(ended)) if ended > 0)
}

/// Ends every session of the services that is in a transaction. Returns their number, or 0 if PostgreSQL is unavailable.
pub async fn end_busy(url: &str) -> u64 {
    let Ok(mut session) = open(url).await else { return 0 };
    let end = sqlx::query_scalar::<_, i64>(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'tidings' AND state IN ('active', 'idle in transaction')",
    );
    match timeout(OPENED_WITHIN, end.fetch_one(&mut session)).await {
        Ok(Ok(ended)) => u64::try_from(ended).unwrap_or_default(),
        Ok(Err(_)) | Err(_) => 0,
    }
}

/// Opens a session of the test.
///
/// # Errors
/// PostgreSQL is unavailable, has no session left, or does not answer within 5 s.
pub async fn open(url: &str) -> Result<PgConnection, sqlx::Error> {
    timeout(OPENED_WITHIN, PgConnection::connect(url)).await.map_err(|_| sqlx::Error::PoolTimedOut)?
}

/// All sessions that PostgreSQL still allows. They are closed when the value is dropped.
pub struct Crowd {
    gathering: JoinHandle<Option<(Vec<PgConnection>, Instant)>>,
    /// The sessions, and the time at which PostgreSQL refused another one.
    full: Option<(Vec<PgConnection>, Instant)>,
}

impl Crowd {
    /// Starts to open sessions, until PostgreSQL refuses one.
    pub fn gather(url: String) -> Crowd {
        let gathering = tokio::spawn(async move {
            let mut sessions = Vec::new();
            while sessions.len() < MOST {
                match open(&url).await {
                    Ok(session) => sessions.push(session),
                    Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(TOO_MANY) => {
                        return Some((sessions, Instant::now()));
                    }
                    Err(_) => return None,
                }
            }
            None
        });
        Crowd { gathering, full: None }
    }

    /// Returns true until PostgreSQL has refused a session or is unavailable.
    pub fn is_gathering(&self) -> bool {
        !self.gathering.is_finished()
    }

    /// Time since PostgreSQL refused a session. None if it has not refused one.
    pub fn full_for(&mut self) -> Option<Duration> {
        if self.full.is_none() && self.gathering.is_finished() {
            self.full = (&mut self.gathering).now_or_never().and_then(Result::ok).flatten();
        }
        self.full.as_ref().map(|(_, since)| since.elapsed())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.gathering.abort();
    }
}
