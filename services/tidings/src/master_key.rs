use std::path::PathBuf;

use anyhow::bail;
use clap::Subcommand;
use credentials::MasterKey;
use credentials::secrets::rotation::{self, KeyUsage, ResealReport};
use serde_json::{Value, json};

use crate::listing::table;
use crate::options::Options;

/// Create and rotate the master key, which seals the stored secrets.
#[derive(Debug, Subcommand)]
#[command(after_help = "To rotate the key:
  1. tidings master-key generate new.key
  2. set master_key_file to the new file and previous_master_key_file to the old one, and restart the services one
     after the other; do not set secrets until all of them have restarted
  3. tidings master-key rotate
  4. tidings master-key status    if no record is sealed with the old key, remove previous_master_key_file and restart

Example:
  tidings master-key status")]
pub(crate) enum Command {
    Generate(GenerateArguments),
    /// Reseal every record that is not sealed with the primary key. Services keep running. If the command is
    /// interrupted, run it again.
    #[command(
        after_help = "Exit code 1 if a secret cannot be opened with either key, or is still sealed with the previous key.

Example:
  tidings master-key rotate"
    )]
    Rotate(Options),
    /// Show how many records each key seals.
    #[command(after_help = "Example:
  tidings master-key status --json")]
    Status(Options),
}

/// Create a new key in a file that only its owner can use.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidings master-key generate /etc/tidings/master.key")]
pub(crate) struct GenerateArguments {
    /// File to create; it must not exist
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(command: Command) -> anyhow::Result<String> {
    match command {
        Command::Generate(arguments) => generate(&arguments),
        Command::Rotate(options) => rotate(&options).await,
        Command::Status(options) => status(&options).await,
    }
}

fn generate(arguments: &GenerateArguments) -> anyhow::Result<String> {
    let id = MasterKey::generate_file(&arguments.file)?.id();
    let file = arguments.file.display();
    Ok(if arguments.json {
        format!("{}\n", json!({"key": id, "file": arguments.file}))
    } else {
        format!("Created master key {id} in {file}. Keep a copy separate from the backups of the database.\n")
    })
}

async fn rotate(options: &Options) -> anyhow::Result<String> {
    let control_plane = options.open_database().await?;
    let master_key = control_plane.configured_key()?;
    let tables = rotation::reseal_all(&control_plane.store, &master_key, |table, records| {
        eprintln!("tidings: {table}: {records} records resealed");
    })
    .await?;
    let unreadable: Vec<_> = tables.iter().flat_map(|table| &table.unreadable).collect();
    let records: u64 = tables.iter().map(|table| table.records).sum();
    if !unreadable.is_empty() {
        let lines: String = unreadable.iter().map(|(_, cause)| format!("\n  - {cause}")).collect();
        bail!(
            "{records} records were resealed, but {} cannot be opened; set previous_master_key_file to the key that \
             sealed them, or set these secrets again:{lines}",
            unreadable.len()
        );
    }
    let left = rotation::left(&control_plane.store, &master_key).await?;
    if left > 0 {
        bail!(
            "{records} records were resealed, but {left} are sealed with another key: a service that has only the old key \
             wrote them during the rotation. The previous key is still needed. Restart that service, and run this command again"
        );
    }
    let key = master_key.id();
    if options.json {
        let tables: Value = tables
            .iter()
            .map(|ResealReport { table, records, .. }| json!({"table": table, "resealed": records}))
            .collect();
        return Ok(format!("{}\n", json!({"key": key, "resealed": records, "tables": tables})));
    }
    Ok(format!(
        "Everything is sealed with master key {key}; {records} records were resealed. The previous key is no longer \
         needed.\n"
    ))
}

async fn status(options: &Options) -> anyhow::Result<String> {
    let control_plane = options.open_database().await?;
    let master_key = control_plane.configured_key()?;
    let primary = master_key.id();
    let previous = master_key.previous_id();
    let role = |key: &str| match key {
        key if key == primary => "primary",
        key if Some(key) == previous.as_deref() => "previous",
        _ => "unknown",
    };
    let found = rotation::status(&control_plane.store).await?;
    let left: u64 = found.iter().filter(|found| found.key != primary).map(|found| found.records).sum();
    if options.json {
        let tables: Value = found
            .iter()
            .map(|KeyUsage { table, key, records }| {
                json!({"table": table, "key": key, "role": role(key), "records": records})
            })
            .collect();
        let status = json!({"primary": primary, "previous": previous, "left": left, "tables": tables});
        return Ok(format!("{status}\n"));
    }
    let rows = found.iter().map(|KeyUsage { table, key, records }| {
        [(*table).to_owned(), key.clone(), role(key).to_owned(), records.to_string()]
    });
    let table = table(["TABLE", "KEY", "ROLE", "RECORDS"], rows);
    Ok(match left {
        0 => format!("{table}\nEverything is sealed with the primary key.\n"),
        left => format!(
            "{table}\n{left} records are not sealed with the primary key; `tidings master-key rotate` reseals them.\n"
        ),
    })
}
