use std::time::Duration;

use anyhow::{Context, bail};
use credentials::secrets::{foreign, rotation};
use credentials::{MasterKey, link, vapid};
use event_log::ResizedStream;
use service_kit::connections::{self, CONNECTED_WITHIN};
use service_kit::{Config, installation};
use store::Store;
use store::database::schema::known_schema_version;

use crate::control_plane::Installation;

/// Bring the database schema, the streams and the keys of apps up to date.
///
/// It is safe to run this command again, and in several processes at once. Run it before the services of a new release
/// start. The first run fixes the number of inbox partitions (streams.partitions). Later runs set the limit
/// (nats.max_messages) and the replicas (nats.replicas) of the streams to the configured values. Services may keep
/// running while the command runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings migrate --config /etc/tidings.toml
  tidings migrate --config /etc/tidings.toml --service-role tidings_service
  tidings migrate --config /etc/tidings.toml --make-master-key
  DATABASE_URL=postgres://tidings@db/tidings NATS_URL=nats://nats:4222 tidings migrate")]
pub(crate) struct Arguments {
    /// Existing PostgreSQL role that the services use. It gets the rights to read and write rows, but not to change the
    /// schema or the audit log
    #[arg(long, value_name = "ROLE")]
    service_role: Option<String>,
    /// Create the master key if its file does not exist and nothing in the database is sealed yet
    #[arg(long)]
    make_master_key: bool,
    #[command(flatten)]
    installation: Installation,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let (config, running) = arguments.installation.configuration()?;
    let configured = config.streams.partitions;
    let partitions =
        if running { Partitions::AsInstalledElse(configured) } else { Partitions::Exactly(configured) };
    let mut report =
        install(&config, partitions, arguments.make_master_key, CONNECTED_WITHIN).await?.to_string();
    if let Some(role) = &arguments.service_role {
        let store = connections::store(&config, CONNECTED_WITHIN).await?;
        let granted = store.database().grant_to_services(role).await;
        granted.with_context(|| format!("cannot grant the rights of the services to {role:?}"))?;
        store.close().await;
        report.push_str(&format!("Rights of services: granted to {role}.\n"));
    }
    Ok(report)
}

#[derive(Clone, Copy)]
pub(crate) enum Partitions {
    /// An installation with another number is refused.
    Exactly(u32),
    /// The number of the existing installation, or this number if there is no installation yet.
    AsInstalledElse(u32),
}

pub(crate) struct MigrationReport {
    schema_before: Option<i64>,
    schema: Option<i64>,
    streams_before: usize,
    streams: usize,
    partitions: u32,
    /// Bytes that the log can hold; None if it is unknown.
    log_store: Option<u64>,
    resized: Vec<ResizedStream>,
    /// Id of the master key, if this run created it.
    made_master_key: Option<String>,
    /// None if no master key is configured, because these keys are sealed with it.
    keys: Option<NewKeys>,
}

struct NewKeys {
    /// Key pairs for web push.
    pairs: usize,
    /// Keys for signed links.
    links: usize,
}

impl std::fmt::Display for MigrationReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let schema = self.schema.unwrap_or_default();
        match self.schema_before {
            Some(before) if before == schema => writeln!(f, "Schema: version {schema}, as before.")?,
            Some(before) => writeln!(f, "Schema: version {schema}, was {before}.")?,
            None => writeln!(f, "Schema: version {schema}, in an empty database.")?,
        }
        let streams = self.streams;
        let created = streams.saturating_sub(self.streams_before);
        writeln!(f, "Streams: {streams}, {created} of them new. Inbox partitions: {}.", self.partitions)?;
        match self.log_store {
            Some(bytes) => writeln!(f, "Store of the log: {:.1} GB.", bytes as f64 / 1e9)?,
            None => writeln!(f, "Store of the log: unknown. Set nats.max_store.")?,
        }
        for ResizedStream {
            stream,
            max_messages: (limit_before, limit),
            replicas: (replicas_before, replicas),
        } in &self.resized
        {
            if limit != limit_before {
                writeln!(f, "Limit of {stream}: {limit} messages, was {limit_before}.")?;
            }
            if replicas != replicas_before {
                writeln!(f, "Replicas of {stream}: {replicas}, was {replicas_before}.")?;
            }
        }
        if let Some(id) = &self.made_master_key {
            writeln!(f, "Master key: {id}, new. Keep a copy separate from the backups of the database.")?;
        }
        let Some(NewKeys { pairs, links }) = self.keys else {
            return writeln!(
                f,
                "Keys of apps: none created, because no master key is configured (security.master_key_file)."
            );
        };
        if pairs > 0 {
            writeln!(f, "Key pairs for web push: {pairs} new.")?;
        }
        if links > 0 {
            writeln!(f, "Keys for signed links: {links} new.")?;
        }
        Ok(())
    }
}

/// Waits at most `limit` for each server.
pub(crate) async fn install(
    config: &Config,
    wanted: Partitions,
    make_master_key: bool,
    limit: Duration,
) -> anyhow::Result<MigrationReport> {
    let (store, log) =
        tokio::try_join!(connections::store(config, limit), connections::event_log(config, limit))?;
    let schema_before = store.schema_version().await?;
    let known = known_schema_version();
    if let Some(newer) = schema_before.filter(|version| *version > known) {
        bail!(
            "the database is of a newer release: its schema has version {newer}, and this release knows up to {known}. \
             Nothing was changed. Migrate with the newer release; services of this release may keep running"
        );
    }
    store.migrate().await?;
    let partitions = match wanted {
        Partitions::Exactly(partitions) => partitions,
        Partitions::AsInstalledElse(partitions) => store.database().partitions().await?.unwrap_or(partitions),
    };
    let streams_before = store.database().recorded_streams().await?.len();
    installation::prepare(&store, &log, partitions).await?;
    installation::record_log_store(&store, &log, partitions).await?;
    let resized = installation::resize(&store, &log, partitions, &config.nats).await?;
    let made_master_key = if make_master_key { make_missing_key(&store, config).await? } else { None };
    let keys = match &config.security.master_key_file {
        Some(_) => {
            let master_key = MasterKey::configured(&config.security)?;
            foreign::refuse(&store, &master_key, &config.security).await?;
            Some(missing_keys(&store, &master_key).await?)
        }
        None => None,
    };
    let installed = MigrationReport {
        schema_before,
        schema: store.schema_version().await?,
        streams_before,
        streams: store.database().recorded_streams().await?.len(),
        partitions,
        log_store: store_of_log(config, &store).await?,
        resized,
        made_master_key,
        keys,
    };
    store.close().await;
    Ok(installed)
}

/// Returns the configured number of bytes, or else the one that the servers grant.
async fn store_of_log(config: &Config, store: &Store) -> anyhow::Result<Option<u64>> {
    let configured = Some(config.nats.max_store).filter(|bytes| *bytes > 0);
    Ok(configured.or(store.database().log_store().await?))
}

/// Returns the id of the created key. Fails if the database contains sealed secrets, because only the key that sealed them can decrypt
/// them.
async fn make_missing_key(store: &Store, config: &Config) -> anyhow::Result<Option<String>> {
    let file = config.security.master_key_file.as_deref();
    let file = file.context("--make-master-key needs security.master_key_file, which is not set")?;
    if file.try_exists().with_context(|| format!("master key file {}", file.display()))? {
        return Ok(None);
    }
    if let Some(found) = rotation::status(store).await?.first() {
        bail!(
            "master key file {} does not exist, but secrets of this database are sealed with master key {}: restore that \
             file from its copy",
            file.display(),
            found.key
        );
    }
    Ok(Some(MasterKey::generate_file(file)?.id()))
}

/// An earlier release created apps without keys.
async fn missing_keys(store: &Store, master_key: &MasterKey) -> anyhow::Result<NewKeys> {
    let pairs = vapid::create_missing(store, master_key).await?;
    let links = link::create_missing(store, master_key).await?;
    Ok(NewKeys { pairs, links })
}
