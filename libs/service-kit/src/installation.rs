//! Checks, before services start, that the database and the event log belong to the same installation.

use std::collections::HashMap;

use anyhow::{Context as _, bail, ensure};
use domain::{StreamName, Timestamp};
use event_log::{EventLog, ResizedStream, StreamIdentity, StreamSize};
use store::Store;
use store::database::installation::{KnownStream, RecordedDatabase};
use store::inbox::projection::INBOX;
use store::webhooks::WEBHOOKS;

use crate::config::Nats;

const NO_SCHEMA: &str = "the schema is missing: run `tidings migrate` first";

/// Permanently records the number of inbox partitions, and creates missing streams and records their identities. The schema must be up to
/// date. Safe to repeat, even by several processes at once. Fails if the installation has other partitions or streams, or an unrecorded
/// stream has ever contained a message.
pub async fn prepare(store: &Store, log: &EventLog, partitions: u32) -> anyhow::Result<()> {
    let _alone = store.database().prepare_alone().await?;
    if matches!(
        store.database().recorded_database().await?,
        RecordedDatabase::Elsewhere | RecordedDatabase::HalfRestored
    ) {
        refuse_restored(store).await?;
    }
    let fixed = store.database().fix_partitions(partitions).await?;
    ensure!(
        fixed == partitions,
        "this installation has {fixed} inbox partitions, which cannot change: set streams.partitions = {fixed}"
    );
    let recorded = store.database().recorded_streams().await?;
    for name in
        StreamName::all(partitions).into_iter().filter(|name| recorded.contains_key(&name.to_string()))
    {
        // Fail if a recorded stream is missing. `declare` would create an empty stream under the same name.
        log.state(name)
            .await
            .with_context(|| format!("stream {name} belongs to this installation and is missing"))?;
    }
    let projected = checkpoints(store, partitions).await?;
    let identities = log.declare(&StreamName::all(partitions)).await?;
    // Read the recorded streams again. In the meantime, another process may have recorded them, and services may have used them.
    let recorded = store.database().recorded_streams().await?;
    for stream in identities.iter().filter(|stream| !recorded.contains_key(&stream.name.to_string())) {
        ensure!(
            stream.last_seq == 0,
            "stream {} was used with another database: connect to that database, or to an empty log",
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
    store.database().record_streams(&streams).await?;
    check(store, &identities, &projected).await?;
    Ok(store.database().record_database().await?)
}

/// Stores the number of bytes that the log can hold. If the log does not answer, the stored number stays.
pub async fn record_log_store(store: &Store, log: &EventLog, partitions: u32) -> anyhow::Result<()> {
    match log.storable(&StreamName::all(partitions)).await {
        Ok(found) => Ok(store.database().record_log_store(found).await?),
        Err(error) => {
            tracing::warn!(%error, "cannot find out how many bytes the log can hold; set nats.max_store");
            Ok(())
        }
    }
}

/// Sets the configured limits and replicas of streams, and returns the streams that changed. Safe to repeat while services run, which use
/// the new limit soon afterwards. Fails if a stream holds too many messages for its new limit, or the server cannot provide that many
/// replicas.
pub async fn resize(
    store: &Store,
    log: &EventLog,
    partitions: u32,
    nats: &Nats,
) -> anyhow::Result<Vec<ResizedStream>> {
    let _alone = store.database().prepare_alone().await?;
    let size = StreamSize {
        max_messages: nats.max_messages_are_set.then_some(nats.max_messages),
        replicas: nats.replicas_are_set.then_some(nats.replicas),
    };
    log.resize(&StreamName::all(partitions), size)
        .await
        .context("cannot apply nats.max_messages or nats.replicas")
}

/// A database that was restored from a backup lacks the messages sent since then, so services would send them again. `tidings restore`
/// reads them from the log.
async fn refuse_restored(store: &Store) -> anyhow::Result<()> {
    let recorded = store.database().recorded_database().await;
    let hint = "the schema is not that of this release: run `tidings migrate` first";
    match recorded.map_err(with_hint(hint))? {
        RecordedDatabase::Here => Ok(()),
        RecordedDatabase::Nowhere => bail!("this database is not recorded yet: run `tidings migrate` first"),
        RecordedDatabase::Elsewhere => bail!(
            "this database was restored from a backup and lacks all later changes: keep the services stopped and run \
             `tidings restore` first, which reads these changes from the log"
        ),
        RecordedDatabase::HalfRestored => bail!(
            "this database was restored from a backup, and the log was not read to its end since: keep the services \
             stopped and run `tidings restore` again"
        ),
    }
}

/// Like [`verify_log`], but fails too if `tidings restore` must run first.
pub async fn verify(store: &Store, log: &EventLog) -> anyhow::Result<u32> {
    if store.database().partitions().await.map_err(with_hint(NO_SCHEMA))?.is_some() {
        refuse_restored(store).await?;
    }
    verify_log(store, log).await
}

/// Adds `hint` unless the database is unavailable.
fn with_hint(hint: &'static str) -> impl FnOnce(store::Error) -> anyhow::Error {
    move |error| {
        if error.is_unavailable() { error.into() } else { anyhow::Error::from(error).context(hint) }
    }
}

/// Returns the number of inbox partitions. Fails if the installation is not prepared yet, the log is not the one recorded in the database,
/// or a stream ends below its checkpoint.
pub async fn verify_log(store: &Store, log: &EventLog) -> anyhow::Result<u32> {
    let partitions = store.database().partitions().await.map_err(with_hint(NO_SCHEMA))?;
    let Some(partitions) = partitions else { bail!("nothing is installed yet: run `tidings migrate` first") };
    let recorded = store.database().recorded_streams().await?;
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

/// Callers must read the checkpoints before the state of the log; otherwise, while services run, a checkpoint could appear to be ahead of
/// the end of its stream.
async fn checkpoints(store: &Store, partitions: u32) -> anyhow::Result<HashMap<StreamName, u64>> {
    let mut read = HashMap::new();
    for stream in (0..partitions).map(StreamName::Inbox).chain([StreamName::Outcome]) {
        let inbox = store.database().checkpoint(INBOX, stream).await?;
        let webhooks = store.database().checkpoint(WEBHOOKS, stream).await?;
        read.insert(stream, inbox.max(webhooks));
    }
    Ok(read)
}

async fn check(
    store: &Store,
    identities: &[StreamIdentity],
    projected: &HashMap<StreamName, u64>,
) -> anyhow::Result<()> {
    let recorded = store.database().recorded_streams().await?;
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
            "stream {name} ends at {} but was read up to {checkpoint}: the stream has lost its last messages",
            stream.last_seq
        );
    }
    Ok(())
}
