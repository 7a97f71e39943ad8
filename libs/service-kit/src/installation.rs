//! One database and one log belong together: what one says of the other is checked before anything runs.

use std::collections::HashMap;

use anyhow::{Context as _, bail, ensure};
use domain::{StreamName, Timestamp};
use event_log::{EventLog, StreamIdentity};
use store::Store;
use store::installation::KnownStream;
use store::projection::INBOX;

/// Fixes the number of inbox partitions, creates missing streams and records which they are. Safe to repeat, and
/// to run by several processes at once; the schema must be up to date.
///
/// # Errors
/// The installation has another number of partitions, or its streams are not those that the database knows, or a
/// stream that it does not know was in use.
pub async fn prepare(store: &Store, log: &EventLog, partitions: u32) -> anyhow::Result<()> {
    let fixed = store.fix_partitions(partitions).await?;
    ensure!(
        fixed == partitions,
        "this installation has {fixed} inbox partitions, which cannot change: set streams.partitions = {fixed}"
    );
    let recorded = store.recorded_streams().await?;
    for name in
        StreamName::all(partitions).into_iter().filter(|name| recorded.contains_key(&name.to_string()))
    {
        // A stream that is gone must not be made anew, empty, under the same name.
        log.state(name)
            .await
            .with_context(|| format!("stream {name} belongs to this installation and is missing"))?;
    }
    let projected = checkpoints(store, partitions).await?;
    let identities = log.declare(&StreamName::all(partitions)).await?;
    // Whoever else prepares records the streams before anybody uses them; so what is recorded is read once more.
    let recorded = store.recorded_streams().await?;
    for stream in identities.iter().filter(|stream| !recorded.contains_key(&stream.name.to_string())) {
        ensure!(
            stream.last_seq == 0,
            "stream {} was used with another database: connect to that, or to an empty log",
            stream.name
        );
    }
    let streams: Vec<_> = identities
        .iter()
        .map(|stream| KnownStream {
            name: stream.name,
            created_at: Timestamp::from_millis(stream.created_at),
        })
        .collect();
    store.record_streams(&streams).await?;
    check(store, &identities, &projected).await
}

/// Checks that database and log belong together, and returns the number of inbox partitions.
///
/// # Errors
/// Nothing was prepared yet, or the log is not the one that the database knows, or ends below a checkpoint.
pub async fn verify(store: &Store, log: &EventLog) -> anyhow::Result<u32> {
    let partitions =
        store.partitions().await.context("the schema is not there: run `tidings migrate` first")?;
    let Some(partitions) = partitions else { bail!("nothing is installed yet: run `tidings migrate` first") };
    let recorded = store.recorded_streams().await?;
    let names = StreamName::all(partitions);
    ensure!(
        names.iter().all(|name| recorded.contains_key(&name.to_string())),
        "streams of this release are missing: run `tidings migrate` first"
    );
    for &name in &names {
        log.state(name)
            .await
            .with_context(|| format!("stream {name} belongs to this installation and is missing"))?;
    }
    let projected = checkpoints(store, partitions).await?;
    check(store, &log.declare(&names).await?, &projected).await?;
    Ok(partitions)
}

/// How far each inbox stream is projected. Read before the log's own state, which only grows: read after it, the inbox
/// of an installation at work would seem to be ahead of its log.
async fn checkpoints(store: &Store, partitions: u32) -> anyhow::Result<HashMap<StreamName, u64>> {
    let mut projected = HashMap::new();
    for stream in (0..partitions).map(StreamName::Inbox) {
        projected.insert(stream, store.checkpoint(INBOX, stream).await?);
    }
    Ok(projected)
}

async fn check(
    store: &Store,
    identities: &[StreamIdentity],
    projected: &HashMap<StreamName, u64>,
) -> anyhow::Result<()> {
    let recorded = store.recorded_streams().await?;
    for stream in identities {
        let name = stream.name;
        let known = recorded.get(&name.to_string()).map(|time| time.millis());
        ensure!(
            known == Some(stream.created_at),
            "stream {name} is not the one that this database belongs to: connect to the right log, or restore both \
             from backups that belong together"
        );
        let checkpoint = projected.get(&name).copied().unwrap_or(0);
        ensure!(
            stream.last_seq >= checkpoint,
            "stream {name} ends at {} but the inbox was projected up to {checkpoint}: the log has lost its end",
            stream.last_seq
        );
    }
    Ok(())
}
