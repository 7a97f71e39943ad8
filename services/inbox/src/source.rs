//! What a replay starts from: the beginning of the log, or the inbox of a backup where the log does not reach back.

use std::fmt;

use anyhow::{Context as _, ensure};
use domain::StreamName;
use event_log::EventLog;
use store::Store;
use store::database::schema::known_schema_version;
use store::inbox::projection::INBOX;
use store::recovery::shadow::{Origin, Shadow};

use crate::progress::{Phase, Step, Told};

/// A partition whose log does not start early enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortened {
    /// Its stream.
    pub stream: StreamName,
    /// The first sequence that is left.
    pub first: u64,
    /// How far whatever there is before it reaches.
    pub reached: u64,
}

/// The log does not reach back as far as the replay would have to start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct OutOfReach {
    /// The partitions that cannot be replayed.
    pub partitions: Vec<Shortened>,
}

impl fmt::Display for OutOfReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log does not reach back far enough:")?;
        for Shortened { stream, first, reached } in &self.partitions {
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
            "\nRestore a backup of this installation that is recent enough into a database of its own, and name it: \
             --backup postgres://…/restored"
        )
    }
}

/// What a new shadow is to start from: the backup, where one is named, else the beginning of the log.
pub(crate) async fn choose(
    live: &Store,
    log: &EventLog,
    backup: Option<&Store>,
    partitions: u32,
) -> anyhow::Result<Origin> {
    let schema = live.schema_version().await?.context("a migrated database")?;
    let start = match backup {
        Some(backup) => positions_of(backup, log, schema, partitions).await?,
        None => vec![0; partitions as usize],
    };
    check_reach(log, &start).await?;
    let release = env!("CARGO_PKG_VERSION").to_owned();
    Ok(Origin { release, schema, start, is_from_backup: backup.is_some(), is_copied: backup.is_none() })
}

/// How far a backup's inbox goes, once it is known to be one of this installation, and not ahead of it.
pub(crate) async fn positions_of(
    backup: &Store,
    log: &EventLog,
    schema: i64,
    partitions: u32,
) -> anyhow::Result<Vec<u64>> {
    let found = backup.schema_version().await?;
    let found = found.context("the backup is of no installation: it has no tables")?;
    ensure!(
        found <= schema,
        "the backup is of a newer release: it has schema version {found}, this database {schema}; run `tidings migrate` \
         on this database first"
    );
    ensure!(
        backup.partitions().await? == Some(partitions),
        "the backup is of another installation: it has not {partitions} inbox partitions"
    );
    let recorded = backup.recorded_streams().await?;
    let names: Vec<StreamName> = (0..partitions).map(StreamName::Inbox).collect();
    let mut positions = Vec::new();
    for stream in log.declare(&names).await? {
        let name = stream.name.to_string();
        ensure!(
            recorded.get(&name).map(|time| time.millis()) == Some(stream.created_at),
            "the backup is of another installation: it does not know this stream {name}"
        );
        let position = backup.checkpoint(INBOX, stream.name).await?;
        ensure!(
            position <= stream.last_seq,
            "the backup is ahead of the log, which has lost its end: {name}"
        );
        positions.push(position);
    }
    Ok(positions)
}

/// Brings a backup of an earlier release to the schema of the live database. It is a copy of this installation, and not
/// the live database, which is ahead of it.
async fn bring_up_to_date(backup: &Store, schema: i64) -> anyhow::Result<()> {
    let found = backup.schema_version().await?.unwrap_or_default();
    if found == schema {
        return Ok(());
    }
    let known = known_schema_version();
    ensure!(
        schema == known,
        "the backup has schema version {found}, this database {schema}, and this release knows {known}: use the release \
         that this database was migrated with"
    );
    backup.migrate().await.context("the backup cannot be brought to the schema of this database")
}

/// Copies what is left to be copied of the backup that a shadow starts from.
pub(crate) async fn copy(
    shadow: &Shadow,
    origin: &Origin,
    backup: Option<&Store>,
    told: Told<'_>,
) -> anyhow::Result<()> {
    if origin.is_copied {
        return Ok(());
    }
    let backup = backup.context("the backup is not copied whole yet: name it again, with --backup")?;
    bring_up_to_date(backup, origin.schema).await?;
    told(Step::Begins(Phase::Copying, Shadow::estimated_items(backup).await?));
    told(Step::Done(Shadow::estimated_items(&shadow.store).await?));
    loop {
        let rows = shadow.copy_page(backup).await?;
        if rows == 0 {
            break;
        }
        told(Step::Done(rows));
    }
    let mut positions = Vec::new();
    for number in 0..origin.start.len() as u64 {
        let stream = StreamName::Inbox(u32::try_from(number)?);
        positions.push(backup.checkpoint(INBOX, stream).await?);
    }
    ensure!(
        positions == origin.start,
        "the backup is not the one that copying began with, or something writes it: begin again, with --afresh"
    );
    shadow.end_copy().await?;
    Ok(())
}

/// Checks that the log has everything after these positions, of which there is one for each partition.
pub(crate) async fn check_reach(log: &EventLog, positions: &[u64]) -> anyhow::Result<()> {
    let mut partitions = Vec::new();
    for (number, position) in (0..).zip(positions) {
        let stream = StreamName::Inbox(number);
        let first = log.state(stream).await?.first_seq;
        if first > position + 1 {
            partitions.push(Shortened { stream, first, reached: *position });
        }
    }
    if partitions.is_empty() { Ok(()) } else { Err(OutOfReach { partitions }.into()) }
}
