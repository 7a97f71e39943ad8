use operations::providers;
use serde::Deserialize;
use serde_json::json;

use super::{ProviderArguments, unknown};
use crate::place::Place;
use crate::refused::OrMissing as _;

#[derive(Deserialize)]
struct Switched {
    version: i64,
}

pub(super) async fn enable(arguments: &ProviderArguments, enabled: bool) -> anyhow::Result<String> {
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let identifier = &arguments.identifier;
    let switched = match place {
        Place::Database(database) => {
            let (operations, caller) = (&database.operations, &database.caller);
            let version = providers::enable(operations, caller, app.id, identifier, enabled).await;
            version.map(|version| Switched { version })
        }
        Place::Console(api) => {
            let switch = if enabled { "enable" } else { "disable" };
            api.post(&[&"apps", &app.id, &"providers", identifier, &switch], &json!({})).await
        }
    };
    let Switched { version } = switched.or_missing(|| unknown(&app.name, identifier))?;
    let done = if enabled { "Enabled" } else { "Disabled" };
    let report = json!({"identifier": identifier, "enabled": enabled, "version": version});
    Ok(arguments
        .options
        .report(&report, format!("{done} provider {identifier} of app {}, version {version}.\n", app.name)))
}

pub(super) async fn remove(arguments: &ProviderArguments) -> anyhow::Result<String> {
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let identifier = &arguments.identifier;
    let removed = match place {
        Place::Database(database) => {
            providers::remove(&database.operations, &database.caller, app.id, identifier).await
        }
        Place::Console(api) => api.delete(&[&"apps", &app.id, &"providers", identifier]).await,
    };
    removed.or_missing(|| unknown(&app.name, identifier))?;
    let report = json!({"identifier": identifier, "removed": true});
    Ok(arguments.options.report(&report, format!("Removed provider {identifier} of app {}.\n", app.name)))
}
