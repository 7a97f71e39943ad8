//! The demo app: created once, with the local stand-in as its provider for email.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use domain::{AppId, Channel};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use serde_json::json;
use service_kit::Context;
use service_kit::secrets::{same, sha256};
use store::provider::{NewProvider, SecretChange};

use crate::app::{Created, create_with_credentials, renew_secret};
use crate::control_plane::actor;
use crate::private_file;

const NAME: &str = "demo";
const PROVIDER: &str = "stand-in";
const PRIORITY: i32 = 100;
/// Another data directory may use the same database and know the previous secret.
const GRACE: Duration = Duration::from_secs(24 * 3600);

/// What a caller of the demo app needs; kept in the data directory, as the database does not tell the secret again.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Credentials {
    pub(super) app_id: AppId,
    pub(super) api_key: String,
    pub(super) api_secret: String,
}

/// The credentials that `file` keeps, where the database still knows them; else new ones, which it keeps from now on.
pub(super) async fn credentials(context: &Context, file: &Path) -> anyhow::Result<Credentials> {
    if let Some(kept) = read(file)?
        && is_valid(context, &kept).await?
    {
        return Ok(kept);
    }
    let (store, master_key) = (&context.store, &context.master_key);
    let credentials = match create_with_credentials(store, master_key, NAME, true).await? {
        Some(Created { id, api_key, api_secret }) => {
            Credentials { app_id: id, api_key, api_secret: api_secret.expose_secret().to_owned() }
        }
        None => {
            let app = store.app_by_name_or_id(NAME).await?.context("the demo app has just been deleted")?;
            let api_secret = renew_secret(store, master_key, app.id, GRACE).await?;
            let api_secret = api_secret.expose_secret().to_owned();
            Credentials { app_id: app.id, api_key: app.api_key, api_secret }
        }
    };
    private_file::write(file, &serde_json::to_string_pretty(&credentials)?)?;
    Ok(credentials)
}

fn read(file: &Path) -> anyhow::Result<Option<Credentials>> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let kept = serde_json::from_str(&text);
    kept.map(Some)
        .with_context(|| format!("{} is damaged; remove it, and new credentials are made", file.display()))
}

async fn is_valid(context: &Context, kept: &Credentials) -> anyhow::Result<bool> {
    let digest = sha256(kept.api_secret.as_bytes());
    let app = context.store.app_by_key(&kept.api_key).await?;
    Ok(app.is_some_and(|app| {
        app.id == kept.app_id && app.secrets.iter().any(|secret| same(&secret.digest, &digest))
    }))
}

/// Points the demo app's provider to where the stand-in listens now. What an operator changed about it stays.
pub(super) async fn set_provider(context: &Context, app: AppId, smtp: SocketAddr) -> anyhow::Result<()> {
    let settings = json!({
        "host": smtp.ip().to_string(),
        "port": smtp.port(),
        "security": "none",
        "from": "demo@tidings.example",
        "fromName": "Tidings demo",
    });
    let known =
        context.store.list_providers(app).await?.into_iter().find(|known| known.identifier == PROVIDER);
    let provider = NewProvider {
        identifier: PROVIDER,
        channel: Channel::Email,
        kind: email::settings::KIND,
        priority: known.as_ref().map_or(PRIORITY, |known| known.priority),
        enabled: known.is_none_or(|known| known.enabled),
        settings: &settings,
        secret: SecretChange::Remove,
    };
    context.store.put_provider(app, provider, &actor()).await?;
    Ok(())
}
