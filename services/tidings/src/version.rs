use serde_json::json;
use service_kit::Build;

pub(crate) const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    revision: match option_env!("TIDINGS_BUILD_REVISION") {
        Some(revision) => revision,
        None => "unknown",
    },
};

/// Print the version.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidings version --json")]
pub(crate) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> String {
    let Build { version, revision } = BUILD;
    if arguments.json {
        format!("{}\n", json!({"version": version, "revision": revision}))
    } else {
        format!("tidings {version} ({revision})\n")
    }
}
