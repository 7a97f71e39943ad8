use std::time::Duration;

use domain::Channel;
use serde::Serialize;
use serde_json::json;

use crate::app::AppRow;
use crate::control_plane::ControlPlane;
use crate::place::{Place, PlaceArguments};

const LONGEST_GRACE: Duration = Duration::from_secs(90 * 24 * 3600);

/// Output format and place of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
}

/// Arguments of a command about one app.
#[derive(Debug, clap::Args)]
pub(crate) struct AppArguments {
    /// Name or id of the app
    app: String,
    #[command(flatten)]
    pub(crate) options: Options,
}

impl AppArguments {
    pub(crate) async fn open(&self) -> anyhow::Result<(Place, AppRow)> {
        self.options.open_app(&self.app).await
    }
}

impl Options {
    pub(crate) async fn open(&self) -> anyhow::Result<Place> {
        self.place.open().await
    }

    pub(crate) async fn open_app(&self, name_or_id: &str) -> anyhow::Result<(Place, AppRow)> {
        let place = self.open().await?;
        let app = place.app(name_or_id).await?;
        Ok((place, app))
    }

    pub(crate) async fn open_database(&self) -> anyhow::Result<ControlPlane> {
        self.place.open_database().await
    }

    pub(crate) fn report(&self, row: &impl Serialize, text: String) -> String {
        if self.json { format!("{}\n", json!(row)) } else { text }
    }
}
/// `refusal` is the error text for a duration longer than `longest`.
pub(crate) fn parse_time(text: &str, longest: Duration, refusal: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time > longest { Err(refusal.to_owned()) } else { Ok(time) }
}

pub(crate) fn parse_grace(text: &str) -> Result<Duration, String> {
    parse_time(text, LONGEST_GRACE, "at most 90 days")
}

/// Accepts only channels that have providers.
pub(crate) fn parse_channel(text: &str) -> Result<Channel, String> {
    let named = Channel::EXTERNAL.into_iter().find(|channel| channel.as_str().eq_ignore_ascii_case(text));
    named.ok_or_else(|| format!("expected one of {}", Channel::EXTERNAL.map(Channel::as_str).join(", ")))
}
