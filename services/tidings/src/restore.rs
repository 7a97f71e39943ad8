//! `tidings restore`: brings a database that was restored from a backup to where the log is.

mod attempts;
mod found;
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
use store::database::installation::Recorded;
use store::database::schema::known_schema_version;
use tokio::time::{Instant, sleep};

use crate::control_plane::Installation;
use passes::Passes;
use reach::Reach;
use report::Report;

/// Sessions that a refusal names.
const SESSIONS_TOLD: usize = 5;
/// What a process that has just ended leaves behind at the servers is gone by then.
const GONE_WITHIN: Duration = Duration::from_secs(5);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Bring a database that was restored from a backup to where the log is, before services start on it.
///
/// Services refuse to start on a database that a dump was restored into: it does not know what was accepted and sent
/// since, and would lose the one and repeat the other. This reads it from the event log: idempotency keys, requests,
/// plans with the users that they name, the ledger of deliveries with their retries, erasures, cancellations and dead
/// targets. What the log does not hold cannot come back, and is told at the end.
///
/// Stop every service first. It can be stopped and run again at any time, and counts what that run brings back; services may
/// start once it has ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pg_restore --no-owner --dbname \"$DATABASE_URL\" tidings.dump && tidings restore --config /etc/tidings.toml
  tidings restore --dry-run
  tidings restore --json
  tidings restore --nothing-lost
  tidings restore --physical-copy

Exit codes:
  0  done: services may start
  1  failed, or the log does not reach back to the backup: services still refuse to start; run it again
  2  not usable: the command line or the configuration is not valid; nothing was changed

A physical copy (a base backup, a recovery to a point in time) looks like the database that it was made of: services do
not see that it is older, so run this with --physical-copy by yourself. docs/backup.md has it all.")]
pub(crate) struct Arguments {
    /// Check that the log reaches back, tell what would be read, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The database lost nothing, it was only moved while every service was stopped: take it as it is
    #[arg(long, conflicts_with = "dry_run")]
    nothing_lost: bool,
    /// Restore a database that does not show that it is older: a base backup, a point in time, a standby
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
    unless_it_ends(async || refuse_sessions(&store).await).await?;
    bring_up_to_date(&store, arguments.dry_run).await?;
    let partitions = installation::verify_log(&store, &log).await?;
    unless_it_ends(async || refuse_at_work(&log, partitions).await).await?;
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

/// Refuses what is refused again and again for [`GONE_WITHIN`].
async fn unless_it_ends(refuse: impl AsyncFn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let until = Instant::now() + GONE_WITHIN;
    loop {
        match refuse().await {
            Err(_) if Instant::now() < until => sleep(LOOK_AGAIN_AFTER).await,
            answer => return answer,
        }
    }
}

/// Whoever has a session works with the database, or will.
async fn refuse_sessions(store: &Store) -> anyhow::Result<()> {
    let sessions = store.other_sessions().await?;
    let named = sessions.iter().take(SESSIONS_TOLD).map(|session| match &session.address {
        Some(address) => format!("{} from {address}", session.pid),
        None => session.pid.to_string(),
    });
    let named = named.collect::<Vec<_>>().join(", ");
    ensure!(
        sessions.is_empty(),
        "Tidings is connected to this database ({} sessions of it; processes of PostgreSQL: {named}): stop every \
         service first, gateways included",
        sessions.len()
    );
    Ok(())
}

/// A backup may be of an earlier release. One of before databases were recorded does not say where it was made: unless this
/// comes to its end, nothing may start on it.
async fn bring_up_to_date(store: &Store, is_dry_run: bool) -> anyhow::Result<()> {
    if !is_dry_run {
        store.migrate().await.context("the schema of the backup cannot be brought up to date")?;
        return Ok(store.disown_unrecorded().await?);
    }
    let version = store.schema_version().await?.unwrap_or_default();
    ensure!(
        version >= known_schema_version(),
        "the backup is of an earlier release, whose schema `tidings restore` brings up to date first; --dry-run changes \
         nothing, and cannot tell before that"
    );
    Ok(())
}

/// Whoever waits for messages would act on what is half restored.
async fn refuse_at_work(log: &EventLog, partitions: u32) -> anyhow::Result<()> {
    for stream in StreamName::all(partitions) {
        let Some(durable) = reach::durable_of(stream) else { continue };
        let progress = log.consumer_progress(stream, durable).await?;
        if progress.is_some_and(|progress| progress.waiting > 0) {
            bail!("somebody waits for messages of {stream}: stop every service first");
        }
    }
    Ok(())
}

/// A database that services were at work on a moment ago would be taken back to what the log says of it: an SMS that was put
/// off would end as unknown, a delivery that waits would be attempted at once.
async fn refuse_current(store: &Store, arguments: &Arguments) -> anyhow::Result<()> {
    ensure!(
        arguments.nothing_lost
            || arguments.physical_copy
            || store.recorded_database().await? != Recorded::Here,
        "this is the database that services work on: no backup was restored into it, and they start on it as it is. \
         A physical copy looks the same; if it is one, run `tidings restore --physical-copy`"
    );
    Ok(())
}

async fn adopt(store: &Store) -> anyhow::Result<Report> {
    ensure!(
        store.adopt_database().await?,
        "a restore of this database has begun and has not ended, so that half of what the log says is in it: run \
         `tidings restore` to its end"
    );
    Ok(Report::adopted())
}

/// Each step rests on those before it: erasures before the users that plans bring back, sends and jobs before the plans
/// that refer to them, all of that before what is left open.
async fn restore(store: &Store, log: &EventLog, reach: &Reach) -> anyhow::Result<Report> {
    let begun = store.begin_restore().await?;
    let begun = begun.context("another `tidings restore` is at work on this database")?;
    let mut passes = Passes::new(log, begun, Report::begun(reach));
    passes.erasures(reach).await?;
    passes.sends(reach).await?;
    passes.jobs(reach).await?;
    passes.outcomes(reach).await?;
    passes.attempts().await?;
    passes.unfinished_sends(reach).await?;
    passes.finish().await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_has_just_ended_is_waited_for_and_nothing_else() {
        let begun = Instant::now();
        let looked = Cell::new(0);
        let gone_soon = async || {
            looked.set(looked.get() + 1);
            ensure!(begun.elapsed() >= GONE_WITHIN / 2, "still there");
            Ok(())
        };
        unless_it_ends(gone_soon).await.unwrap();
        assert!(looked.get() > 10 && begun.elapsed() < GONE_WITHIN);

        let begun = Instant::now();
        let refused = unless_it_ends(async || bail!("still there")).await.unwrap_err();
        assert_eq!(refused.to_string(), "still there");
        assert!(begun.elapsed() >= GONE_WITHIN && begun.elapsed() < 2 * GONE_WITHIN);
    }
}
