mod passes;
mod reach;
mod report;
mod walk;

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use domain::StreamName;
use event_log::EventLog;
use service_kit::connections::{self, CONNECTED_WITHIN};
use service_kit::installation;
use store::Store;
use store::database::installation::RecordedDatabase;
use store::database::schema::known_schema_version;
use tokio::time::{Instant, sleep};

use crate::control_plane::Installation;
use passes::Passes;
use reach::Reach;
use report::Report;

const SESSIONS_SHOWN: usize = 5;
/// Time that PostgreSQL and NATS may take to remove the sessions and consumers of a process that has just stopped.
const GONE_WITHIN: Duration = Duration::from_secs(5);
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Bring a database that was restored from a backup up to date with the log, before services start on it.
///
/// Services refuse to start on a database that was restored from a dump: they would lose sends accepted since the
/// backup, and repeat deliveries. This command recovers the following from the event log: erasures, idempotency keys,
/// requests, plans with their users, deliveries with their outcomes, cancellations and dead targets. A delivery whose
/// outcome the log does not contain ends as unknown and is not sent again. The report lists which data cannot be recovered.
///
/// Stop every service first. The command can be stopped and run again at any time; each run reports only what it
/// recovers itself. Services may start after the command has ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pg_restore --no-owner --dbname \"$DATABASE_URL\" tidings.dump && tidings restore --config /etc/tidings.toml
  tidings restore --dry-run
  tidings restore --json
  tidings restore --nothing-lost
  tidings restore --physical-copy

Exit codes:
  0  done: services may start
  1  failed, or the log no longer contains all messages since the backup: services still refuse to start; run the command again
  2  not usable: the command line or the configuration is not valid; nothing was changed

A physical copy (a base backup, a recovery to a point in time) looks like its original: services cannot detect that it
is older, so remember to run this command with --physical-copy. See docs/backup.md.")]
pub(crate) struct Arguments {
    /// Check that the log contains all messages since the backup, report how many would be read, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Accept the database as it is. Use this only if it lost no data and was moved while every service was stopped
    #[arg(long, conflicts_with = "dry_run")]
    nothing_lost: bool,
    /// Restore a database that is a physical copy (a base backup, a point-in-time recovery or a standby). Tidings cannot
    /// detect the age of such a copy
    #[arg(long, conflicts_with = "nothing_lost")]
    physical_copy: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    installation: Installation,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let (config, _) = arguments.installation.configuration()?;
    let (store, log) = tokio::try_join!(
        connections::store(&config, CONNECTED_WITHIN),
        connections::event_log(&config, CONNECTED_WITHIN)
    )?;
    wait_until_accepted(async || refuse_sessions(&store).await).await?;
    bring_up_to_date(&store, arguments.dry_run).await?;
    let partitions = installation::verify_log(&store, &log).await?;
    wait_until_accepted(async || refuse_at_work(&log, partitions).await).await?;
    refuse_current(&store, arguments).await?;
    let reach = Reach::of(&store, &log, partitions).await?;
    let report = match (arguments.nothing_lost, arguments.dry_run) {
        (true, _) => adopt(&store).await?,
        (false, true) => Report::planned(&reach),
        (false, false) => restore(&store, &log, &reach).await?,
    };
    store.close().await;
    Ok(if arguments.json { report.json() } else { report.to_string() })
}

/// Returns the last error if the check still fails after [`GONE_WITHIN`].
async fn wait_until_accepted(refuse: impl AsyncFn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let until = Instant::now() + GONE_WITHIN;
    loop {
        match refuse().await {
            Err(_) if Instant::now() < until => sleep(CHECK_INTERVAL).await,
            result => return result,
        }
    }
}

/// Fails if other processes of Tidings are connected to the database, because they may change it.
async fn refuse_sessions(store: &Store) -> anyhow::Result<()> {
    let sessions = store.recovery().other_sessions().await?;
    let named: Vec<_> = sessions.iter().take(SESSIONS_SHOWN).map(i32::to_string).collect();
    let named = named.join(", ");
    ensure!(
        sessions.is_empty(),
        "Tidings is connected to this database ({} sessions; PostgreSQL processes: {named}): stop every service first, \
         including the gateways",
        sessions.len()
    );
    Ok(())
}

/// Migrates a backup of an earlier release. Marks it as restored if it does not record in which database it was made, so that services do
/// not start on it before the restore has ended.
async fn bring_up_to_date(store: &Store, is_dry_run: bool) -> anyhow::Result<()> {
    if !is_dry_run {
        store.migrate().await.context("cannot migrate the schema of the backup")?;
        return Ok(store.database().disown_unrecorded().await?);
    }
    let version = store.schema_version().await?.unwrap_or_default();
    ensure!(
        version >= known_schema_version(),
        "the backup is of an earlier release, and `tidings restore` must migrate its schema first; --dry-run changes \
         nothing, so it cannot check such a backup"
    );
    Ok(())
}

/// Fails if a service is waiting for messages of the log, because that service would act on a half-restored database.
async fn refuse_at_work(log: &EventLog, partitions: u32) -> anyhow::Result<()> {
    for stream in StreamName::all(partitions) {
        let Some(durable) = reach::durable_of(stream) else { continue };
        let progress = log.consumer_progress(stream, durable).await?;
        if progress.is_some_and(|progress| progress.waiting > 0) {
            bail!("a service waits for messages of {stream}: stop every service first");
        }
    }
    Ok(())
}

/// Fails if services currently use this database, unless the arguments declare that it is a copy. A restore would damage it: deliveries
/// that a worker has postponed would end as unknown.
async fn refuse_current(store: &Store, arguments: &Arguments) -> anyhow::Result<()> {
    ensure!(
        arguments.nothing_lost
            || arguments.physical_copy
            || store.database().recorded_database().await? != RecordedDatabase::Here,
        "this is the database that services work on: no backup was restored into it, and services start on it as it is. \
         If it is a physical copy, which looks the same, run `tidings restore --physical-copy`"
    );
    Ok(())
}

async fn adopt(store: &Store) -> anyhow::Result<Report> {
    ensure!(
        store.recovery().adopt_database().await?,
        "a restore of this database has begun but not ended, so the database lacks a part of the log's data: run \
         `tidings restore` until it completes"
    );
    Ok(Report::adopted())
}

async fn restore(store: &Store, log: &EventLog, reach: &Reach) -> anyhow::Result<Report> {
    let begun = store.recovery().begin_restore().await?;
    let begun = begun.context("another `tidings restore` is running on this database")?;
    let mut passes = Passes::begin(log, begun, Report::begun(reach)).await?;
    for range in &reach.ranges {
        passes.read(*range).await?;
    }
    passes.end_unknown().await?;
    passes.plan_open_sends(reach).await?;
    passes.finish().await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lingering_session_is_waited_for_and_a_permanent_one_refused() {
        let begun = Instant::now();
        let looked = Cell::new(0);
        let gone_soon = async || {
            looked.set(looked.get() + 1);
            ensure!(begun.elapsed() >= GONE_WITHIN / 2, "still there");
            Ok(())
        };
        wait_until_accepted(gone_soon).await.unwrap();
        assert!(looked.get() > 10 && begun.elapsed() < GONE_WITHIN);

        let begun = Instant::now();
        let refused = wait_until_accepted(async || bail!("still there")).await.unwrap_err();
        assert_eq!(refused.to_string(), "still there");
        assert!(begun.elapsed() >= GONE_WITHIN && begun.elapsed() < 2 * GONE_WITHIN);
    }
}
