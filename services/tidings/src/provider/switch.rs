//! `tidings provider enable`, `disable` and `remove`.

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::{ProviderArguments, unknown};
use crate::control_plane::actor;

pub(super) async fn enable(arguments: &ProviderArguments, enabled: bool) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let identifier = &arguments.identifier;
    let version =
        control_plane.store.control().enable_provider(app.id, identifier, enabled, &actor()).await?;
    let version = version.with_context(|| unknown(&app.name, identifier))?;
    let done = if enabled { "Enabled" } else { "Disabled" };
    let report = json!({"identifier": identifier, "enabled": enabled, "version": version});
    Ok(arguments
        .options
        .report(&report, format!("{done} provider {identifier} of app {}, version {version}.\n", app.name)))
}

pub(super) async fn remove(arguments: &ProviderArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let identifier = &arguments.identifier;
    let removed = control_plane.store.control().remove_provider(app.id, identifier, &actor()).await?;
    ensure!(removed, unknown(&app.name, identifier));
    let report = json!({"identifier": identifier, "removed": true});
    Ok(arguments.options.report(&report, format!("Removed provider {identifier} of app {}.\n", app.name)))
}
