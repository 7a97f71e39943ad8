use serde_json::json;
use service_kit::Build;

pub(crate) const BUILD: Build =
    Build { version: env!("CARGO_PKG_VERSION"), revision: env!("TIDINGS_REVISION") };
/// Set by the build script if it found no commit.
const UNKNOWN: &str = "unknown";

/// Print the version, and the commit from which the program was built.
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
    } else if revision == UNKNOWN {
        format!("tidings {version} (built outside of a Git checkout, so the commit is unknown)\n")
    } else {
        format!("tidings {version} ({revision})\n")
    }
}
