//! Pressure and faults of each phase.

use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection};
use stand_ins::smtp::{Rule, Stage};
use suite::sessions::{self, Crowd};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::options::Options;
use super::phase::Kind;
use super::site::Site;

const READERS: usize = 4;
/// Pause between two scans of a reader.
const SCANNED_EVERY: Duration = Duration::from_millis(100);
const BACKENDS_ENDED_EVERY: Duration = Duration::from_millis(500);
const REPEATED_KILLS: u32 = 6;

/// Applies the phase's pressure for its length. Returns the number of faults that had an effect: killed or started workers, restarts of
/// PostgreSQL, or sessions that were ended; 1 if PostgreSQL refused sessions. None if the phase has no faults that are counted.
pub(crate) async fn apply(site: &mut Site, kind: Kind, length: Duration, options: &Options) -> Option<u64> {
    let begin = Instant::now();
    let until = begin + length;
    // The phase before may have left no job, so wait until calls and transactions are under way again.
    let fault_at = begin + length / 5;
    let url = site.installation.database_url().to_owned();
    let mut faults = None;
    match kind {
        Kind::Warmup | Kind::Clean | Kind::HighLoad | Kind::Recovery => {}
        Kind::PriorityStarvation | Kind::Saturated => {}
        Kind::IdleInTx => hold_transaction(&url, until).await,
        Kind::ActiveReaders => scan(&url, until).await,
        Kind::KillWorker => {
            sleep_until(fault_at).await;
            faults = Some(u64::from(site.kill_worker()));
        }
        Kind::StartWorker => faults = Some(u64::from(site.start_worker())),
        Kind::PostgresRestart => {
            sleep_until(fault_at).await;
            site.meter.used();
            site.installation.postgres().stop_immediately().await.unwrap();
            site.meter.postgres_ended();
            sleep_until(fault_at + length / 2).await;
            site.installation.postgres().restart().await.unwrap();
            faults = Some(1);
        }
        Kind::RepeatedKill => {
            let mut killed = 0;
            for _ in 0..REPEATED_KILLS {
                killed += u64::from(site.kill_worker());
                site.start_worker();
                sleep_until((Instant::now() + length / REPEATED_KILLS).min(until)).await;
            }
            faults = Some(killed);
        }
        Kind::PgBackendKill => faults = Some(end_backends(&url, until).await),
        Kind::PoolExhaustion => {
            let mut crowd = Crowd::gather(url);
            sleep_until(until).await;
            let full = crowd.full_for();
            if let Some(full) = full {
                eprintln!("PostgreSQL refused sessions for {:.1} s", full.as_secs_f64());
            }
            faults = Some(u64::from(full.is_some()));
        }
        Kind::RetryStorm => {
            let jobs = f64::from(options.rate) * length.as_secs_f64() / 2.0;
            site.provider.script(Rule::answer(Stage::Rcpt, "450 4.2.0 not now").times(jobs as u32));
        }
    }
    sleep_until(until).await;
    faults
}

/// Holds a transaction with an id, so that PostgreSQL removes no row version that died after its begin.
async fn hold_transaction(url: &str, until: Instant) {
    let mut holder = PgConnection::connect(url).await.unwrap();
    holder.execute("BEGIN; SELECT txid_current()").await.unwrap();
    sleep_until(until).await;
    holder.close().await.unwrap();
}

/// Scans the deliveries repeatedly in four transactions, each of which keeps its first snapshot.
async fn scan(url: &str, until: Instant) {
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let mut reader = PgConnection::connect(url).await.unwrap();
        readers.spawn(async move {
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
            while Instant::now() < until {
                reader.execute("SELECT count(*) FROM delivery").await.unwrap();
                sleep_until(Instant::now() + SCANNED_EVERY).await;
            }
            reader.close().await.unwrap();
        });
    }
    readers.join_all().await;
}

/// Returns the number of sessions that it ended.
async fn end_backends(url: &str, until: Instant) -> u64 {
    let mut ends = interval(BACKENDS_ENDED_EVERY);
    ends.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut ended = 0;
    while Instant::now() < until {
        ends.tick().await;
        ended += sessions::end_busy(url).await;
    }
    ended
}
