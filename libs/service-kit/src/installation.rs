//! One database and one log belong together: what one says of the other is checked before anything runs.

use std::collections::HashMap;

use anyhow::{Context as _, bail, ensure};
use domain::{StreamName, Timestamp};
use event_log::{EventLog, Resized, StreamIdentity, StreamSize};
use store::Store;
use store::database::installation::{KnownStream, Recorded};
use store::inbox::projection::INBOX;
use store::webhooks::WEBHOOKS;

use crate::config::Nats;

const NO_SCHEMA: &str = "the schema is not there: run `tidings migrate` first";

/// Fixes the number of inbox partitions, creates missing streams and records which they are. Safe to repeat, and
/// to run by several processes at once; the schema must be up to date.
///
/// # Errors
/// The installation has another number of partitions, or its streams are not those that the database knows, or a
/// stream that it does not know was in use.
pub async fn prepare(store: &Store, log: &EventLog, partitions: u32) -> anyhow::Result<()> {
    let _alone = store.prepare_alone().await?;
    if matches!(store.recorded_database().await?, Recorded::Elsewhere | Recorded::HalfRestored) {
        refuse_restored(store).await?;
    }
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
    check(store, &identities, &projected).await?;
    Ok(store.record_database().await?)
}

/// Gives the streams of a prepared installation the size that is set, and returns those that had another. What is not set
/// stays as it is. Safe to repeat; services go on meanwhile, and go by the new size.
///
/// # Errors
/// A stream holds too much for its new limit, or the server cannot give it so many replicas.
pub async fn resize(
    store: &Store,
    log: &EventLog,
    partitions: u32,
    nats: &Nats,
) -> anyhow::Result<Vec<Resized>> {
    let _alone = store.prepare_alone().await?;
    let size = StreamSize {
        max_messages: nats.max_messages_are_set.then_some(nats.max_messages),
        replicas: nats.replicas_are_set.then_some(nats.replicas),
    };
    log.resize(&StreamName::all(partitions), size).await.context("nats.max_messages or nats.replicas")
}

/// Refuses a database that is restored from a backup, until the log is read again for it: it does not know what went out
/// since, and would send it once more.
async fn refuse_restored(store: &Store) -> anyhow::Result<()> {
    let recorded = store.recorded_database().await;
    let means = "the schema is not that of this release: run `tidings migrate` first";
    match recorded.map_err(unless_away(means))? {
        Recorded::Here => Ok(()),
        Recorded::Nowhere => bail!("nothing is recorded of this database: run `tidings migrate` first"),
        Recorded::Elsewhere => bail!(
            "this database is restored from a backup and does not know what happened since: keep the services stopped \
             and run `tidings restore` first, which reads it from the log"
        ),
        Recorded::HalfRestored => bail!(
            "this database is restored from a backup, and the log was not read to its end for it: keep the services \
             stopped and run `tidings restore` again"
        ),
    }
}

/// Checks that services may start: that database and log belong together, and that the database is not one that a backup
/// was restored into. Returns the number of inbox partitions.
///
/// # Errors
/// What [`verify_log`] says, or `tidings restore` is to be run first.
pub async fn verify(store: &Store, log: &EventLog) -> anyhow::Result<u32> {
    if store.partitions().await.map_err(unless_away(NO_SCHEMA))?.is_some() {
        refuse_restored(store).await?;
    }
    verify_log(store, log).await
}

/// What a look at the tables that fails means, unless the database is just away.
fn unless_away(means: &'static str) -> impl FnOnce(store::Error) -> anyhow::Error {
    move |error| match error.is_unavailable() {
        true => error.into(),
        false => anyhow::Error::from(error).context(means),
    }
}

/// Checks that database and log belong together, and returns the number of inbox partitions.
///
/// # Errors
/// Nothing was prepared yet, or the log is not the one that the database knows, or ends below a checkpoint.
pub async fn verify_log(store: &Store, log: &EventLog) -> anyhow::Result<u32> {
    let partitions = store.partitions().await.map_err(unless_away(NO_SCHEMA))?;
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

/// How far streams were read into rows. Read before the log's own state, which only grows: read after it, the inbox of an
/// installation at work would seem to be ahead of its log.
async fn checkpoints(store: &Store, partitions: u32) -> anyhow::Result<HashMap<StreamName, u64>> {
    let mut read = HashMap::new();
    for stream in (0..partitions).map(StreamName::Inbox).chain([StreamName::Outcome]) {
        let (inbox, webhooks) =
            (store.checkpoint(INBOX, stream).await?, store.checkpoint(WEBHOOKS, stream).await?);
        read.insert(stream, inbox.max(webhooks));
    }
    Ok(read)
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
            "stream {name} ends at {} but was read up to {checkpoint}: the log has lost its end",
            stream.last_seq
        );
    }
    Ok(())
}
