use domain::app_setting::{self, AppSetting};
use operations::apps::settings;
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::admin_api::Query;
use crate::app::{AppRow, DELETED};
use crate::place::{Place, PlaceArguments};
use crate::refused::{InvalidInput, OrMissing as _};

/// Set switches of an app. If one of them is invalid, none is set. Switches take effect in the services within five
/// seconds.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Arguments {
    /// Name or id of the app
    app: String,
    /// Switches to set
    #[arg(required = true, value_name = "SWITCH=VALUE")]
    switches: Vec<String>,
    /// Print the app as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: PlaceArguments,
}

fn help() -> String {
    format!(
        "Switches:
{}
Examples:
  tidings app set shop secure-mode=on require-exp=on
  tidings app set shop cors-origins=https://shop.example rate-limit=500
  tidings app set shop disabled=off --json",
        app_setting::help()
    )
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let settings = AppSetting::parse_all(&arguments.switches)
        .map_err(|problems| InvalidInput::document("the command line", &problems))?;
    let place = arguments.place.open().await?;
    let app = place.app(&arguments.app).await?;
    let changed = match place {
        Place::Database(database) => {
            settings::set(&database.operations, &database.caller, app.id, &settings).await.map(AppRow::from)
        }
        Place::Console(api) => {
            let values = settings.iter().map(|setting| (setting.name().to_owned(), setting.value().into()));
            let body = json!({"settings": values.collect::<Map<String, Value>>()});
            api.call(Method::PATCH, &[&"apps", &app.id], &Query::default(), Some(&body)).await
        }
    };
    let app = changed.or_missing(|| DELETED.to_owned())?;
    if arguments.json {
        return Ok(format!("{}\n", json!(app)));
    }
    let lines: String = settings.iter().map(|setting| format!("  {setting}\n")).collect();
    let unsigned = app.settings.hmac && app.secrets.iter().all(|secret| !secret.signs);
    let note = if unsigned {
        "The app's valid secrets were created while hmac was off and cannot verify signatures. Create a new secret with \
         `tidings app rotate-secret`, and sign with it.\n"
    } else {
        ""
    };
    Ok(format!("Set for app {} with id {}:\n{lines}{note}", app.name, app.id))
}
