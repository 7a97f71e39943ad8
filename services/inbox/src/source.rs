//! Start of a replay: the beginning of the log or, if the log no longer has its first events, the inbox of a backup.

use std::fmt;

use anyhow::{Context as _, ensure};
use domain::StreamName;
use event_log::EventLog;
use store::Store;
use store::database::schema::known_schema_version;
use store::inbox::projection::INBOX;
use store::recovery::shadow::Shadow;

use crate::progress::{Phase, Step, StepCallback};

/// A partition whose stream no longer has the first event that the replay needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortenedPartition {
    pub stream: StreamName,
    /// First sequence that the log still has.
    pub first: u64,
    /// Last sequence that is covered when the replay starts.
    pub reached: u64,
}

/// The log does not reach back to the start of the replay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnreachableStart {
    pub partitions: Vec<ShortenedPartition>,
}

impl fmt::Display for UnreachableStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log does not reach back far enough:")?;
        for ShortenedPartition { stream, first, reached } in &self.partitions {
            let needed = first - 1;
            write!(
                f,
                "\n  - {stream} starts at {first}: a backup must have the inbox up to {needed} at least"
            )?;
            if *reached > 0 {
                write!(f, ", and this goes up to {reached}")?;
            }
        }
        write!(
            f,
            "\nRestore a sufficiently recent backup of this installation into a separate database, and pass it to \
             `tidings verify` with --backup postgres://…/restored"
        )
    }
}

pub(crate) async fn choose(
    live: &Store,
    log: &EventLog,
    backup: Option<&Store>,
    partitions: u32,
) -> anyhow::Result<Vec<u64>> {
    let schema = live.schema_version().await?.context("the database is not migrated")?;
    let start = match backup {
        Some(backup) => positions_of(backup, log, schema, partitions).await?,
        None => vec![0; partitions as usize],
    };
    check_reach(log, &start).await?;
    Ok(start)
}

async fn positions_of(
    backup: &Store,
    log: &EventLog,
    schema: i64,
    partitions: u32,
) -> anyhow::Result<Vec<u64>> {
    let found = backup.schema_version().await?;
    let found = found.context("the backup has no tables of Tidings")?;
    ensure!(
        found <= schema,
        "the backup is of a newer release: it has schema version {found}, this database has {schema}; run \
         `tidings migrate` on this database first"
    );
    ensure!(
        backup.database().partitions().await? == Some(partitions),
        "the backup is of another installation: it does not have {partitions} inbox partitions"
    );
    let recorded = backup.database().recorded_streams().await?;
    let names: Vec<StreamName> = (0..partitions).map(StreamName::Inbox).collect();
    let mut positions = Vec::new();
    for stream in log.declare(&names).await? {
        let name = stream.name.to_string();
        ensure!(
            recorded.get(&name).map(|time| time.millis()) == Some(stream.created_at),
            "the backup is of another installation: it has another stream {name}"
        );
        let position = backup.database().checkpoint(INBOX, stream.name).await?;
        ensure!(
            position <= stream.last_seq,
            "the backup is ahead of stream {name}, which has lost its last events"
        );
        positions.push(position);
    }
    Ok(positions)
}

/// Migrates a backup of an earlier release. The caller has checked that the backup is a copy of this installation and not the live database
/// itself.
async fn bring_up_to_date(backup: &Store, schema: i64) -> anyhow::Result<()> {
    let found = backup.schema_version().await?.unwrap_or_default();
    if found == schema {
        return Ok(());
    }
    let known = known_schema_version();
    ensure!(
        schema == known,
        "the backup has schema version {found}, this database has {schema}, and this release has {known}: use the release \
         that migrated this database"
    );
    backup.migrate().await.context("cannot migrate the backup to the schema of this database")
}

pub(crate) async fn copy(
    shadow: &Shadow,
    backup: &Store,
    start: &[u64],
    report: StepCallback<'_>,
) -> anyhow::Result<()> {
    let schema = shadow.store.schema_version().await?.unwrap_or_default();
    bring_up_to_date(backup, schema).await?;
    report(Step::Begins(Phase::Copying, Shadow::estimated_items(backup).await?));
    shadow.copy(backup, start, |rows| report(Step::Done(rows))).await?;
    for (number, position) in (0..).zip(start) {
        ensure!(
            backup.database().checkpoint(INBOX, StreamName::Inbox(number)).await? == *position,
            "another process writes to the backup: stop it, and run the command again"
        );
    }
    Ok(())
}

pub(crate) async fn check_reach(log: &EventLog, positions: &[u64]) -> anyhow::Result<()> {
    let mut partitions = Vec::new();
    for (number, position) in (0..).zip(positions) {
        let stream = StreamName::Inbox(number);
        let first = log.state(stream).await?.first_seq;
        if first > position + 1 {
            partitions.push(ShortenedPartition { stream, first, reached: *position });
        }
    }
    if partitions.is_empty() { Ok(()) } else { Err(UnreachableStart { partitions }.into()) }
}
