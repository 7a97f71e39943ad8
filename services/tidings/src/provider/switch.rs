use operations::providers;
use serde_json::json;

use super::{ProviderArguments, unknown};
use crate::control_plane::ControlPlane;
use crate::refused::OrMissing as _;

pub(super) async fn enable(arguments: &ProviderArguments, enabled: bool) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let identifier = &arguments.identifier;
    let enable = providers::enable(&operations, &caller, app.id, identifier, enabled).await;
    let version = enable.or_missing(|| unknown(&app.name, identifier))?;
    let done = if enabled { "Enabled" } else { "Disabled" };
    let report = json!({"identifier": identifier, "enabled": enabled, "version": version});
    Ok(arguments
        .options
        .report(&report, format!("{done} provider {identifier} of app {}, version {version}.\n", app.name)))
}

pub(super) async fn remove(arguments: &ProviderArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let identifier = &arguments.identifier;
    let removed = providers::remove(&operations, &caller, app.id, identifier).await;
    removed.or_missing(|| unknown(&app.name, identifier))?;
    let report = json!({"identifier": identifier, "removed": true});
    Ok(arguments.options.report(&report, format!("Removed provider {identifier} of app {}.\n", app.name)))
}
