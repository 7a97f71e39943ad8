//! `tidings migrate`: brings the schema and the streams to where this release needs them.

use std::time::Duration;

use service_kit::connections::{self, CONNECTED_WITHIN};
use service_kit::{Config, MasterKey, installation, vapid};

use crate::control_plane::Installation;

/// Bring the database schema, the streams and the keys of apps up to date.
///
/// Safe to run again, and by several processes at once. Run it before the services of a new release start. The number
/// of inbox partitions (streams.partitions) is fixed when it runs for the first time.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings migrate --config /etc/tidings.toml
  DATABASE_URL=postgres://tidings@db/tidings NATS_URL=nats://nats:4222 tidings migrate")]
pub(crate) struct Arguments {
    #[command(flatten)]
    installation: Installation,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let (config, running) = arguments.installation.configuration()?;
    let configured = config.streams.partitions;
    let partitions =
        if running { Partitions::AsInstalledElse(configured) } else { Partitions::Exactly(configured) };
    Ok(install(&config, partitions, CONNECTED_WITHIN).await?.to_string())
}

/// How many inbox partitions there are to be.
#[derive(Clone, Copy)]
pub(crate) enum Partitions {
    /// This many: an installation with another number is refused.
    Exactly(u32),
    /// As many as the installation has; this many where there is none yet.
    AsInstalledElse(u32),
}

/// What was there and what is now.
pub(crate) struct Installed {
    schema_before: Option<i64>,
    schema: Option<i64>,
    streams_before: usize,
    streams: usize,
    partitions: u32,
    /// Apps that got their key pair for web push; None without a master key to seal it with.
    key_pairs: Option<usize>,
}

impl std::fmt::Display for Installed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let schema = self.schema.unwrap_or_default();
        match self.schema_before {
            Some(before) if before == schema => writeln!(f, "Schema: version {schema}, as before.")?,
            Some(before) => writeln!(f, "Schema: version {schema}, was {before}.")?,
            None => writeln!(f, "Schema: version {schema}, in an empty database.")?,
        }
        let (streams, created) = (self.streams, self.streams.saturating_sub(self.streams_before));
        writeln!(f, "Streams: {streams}, {created} of them new. Inbox partitions: {}.", self.partitions)?;
        match self.key_pairs {
            Some(0) => Ok(()),
            Some(made) => writeln!(f, "Key pairs for web push: {made} new."),
            None => writeln!(
                f,
                "Key pairs for web push: none made, as no master key is configured (security.master_key_file)."
            ),
        }
    }
}

/// Migrates the schema, declares the streams and makes the key pairs that apps lack, waiting at most `limit` for each server.
pub(crate) async fn install(
    config: &Config,
    wanted: Partitions,
    limit: Duration,
) -> anyhow::Result<Installed> {
    let (store, log) =
        tokio::try_join!(connections::store(config, limit), connections::event_log(config, limit))?;
    let schema_before = store.schema_version().await?;
    store.migrate().await?;
    let partitions = match wanted {
        Partitions::Exactly(partitions) => partitions,
        Partitions::AsInstalledElse(partitions) => store.partitions().await?.unwrap_or(partitions),
    };
    let streams_before = store.recorded_streams().await?.len();
    installation::prepare(&store, &log, partitions).await?;
    let key_pairs = match &config.security.master_key_file {
        Some(file) => Some(vapid::create_missing(&store, &MasterKey::load(file)?).await?),
        None => None,
    };
    let installed = Installed {
        schema_before,
        schema: store.schema_version().await?,
        streams_before,
        streams: store.recorded_streams().await?.len(),
        partitions,
        key_pairs,
    };
    store.close().await;
    Ok(installed)
}
