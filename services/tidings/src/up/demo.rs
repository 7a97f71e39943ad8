use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use credentials::secrets::{constant_time_eq, sha256};
use domain::{Action, AppId, Channel, Role};
use email::smtp::Smtp;
use mobile_push::apns::Apns;
use mobile_push::fcm::Fcm;
use operations::apps::creation::{self, PublicAccess};
use operations::{Conflict, MasterKeySource, OperationError, Operations, operators};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use service_kit::Context;
use sms::http::Http;
use sms::smpp::Smpp;
use sms::twilio::Twilio;
use stand_ins::StandIns;
use stand_ins::interface;
use store::control::provider::{NewProvider, SecretChange};
use web_push::Vapid;
use worker::ProviderKind as _;

use crate::control_plane::caller;
use crate::private_file;
use crate::provider::kinds;

const NAME: &str = "demo";
/// Email of the operator of the demo.
const OPERATOR: &str = "admin@tidings.example";
const PRIORITY: i32 = 100;
/// A `tidings up` on another data directory with the same database may still use the previous API secret.
const GRACE: Duration = Duration::from_secs(24 * 3600);

/// Stored in a file, because the secret cannot be read from the database.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Credentials {
    pub(crate) app_id: AppId,
    pub(crate) api_key: String,
    pub(crate) api_secret: String,
}

/// Creates new credentials and writes them to `file` if those in it are not valid.
pub(crate) async fn credentials(context: &Context, file: &Path) -> anyhow::Result<Credentials> {
    if let Some(kept) = read(file)?
        && is_valid(context, &kept).await?
    {
        return Ok(kept);
    }
    let master_key = MasterKeySource::Loaded(context.master_key.clone());
    let allow_private = context.config.outbound.allow_private;
    let operations = Operations::new(context.store.clone(), master_key, allow_private);
    let access = PublicAccess::Development;
    let (app_id, api_key, api_secret) =
        creation::create_or_renew(&operations, &caller(), NAME, access, GRACE).await?;
    let api_secret = api_secret.expose_secret().to_owned();
    let credentials = Credentials { app_id, api_key, api_secret };
    private_file::write(file, &serde_json::to_string_pretty(&credentials)?)?;
    Ok(credentials)
}

/// Returns a link that signs an administrator of the demo in to the console, once.
pub(crate) async fn console_link(context: &Context) -> anyhow::Result<String> {
    let master_key = MasterKeySource::Loaded(context.master_key.clone());
    let operations =
        Operations::new(context.store.clone(), master_key, context.config.outbound.allow_private);
    let caller = caller();
    match operators::create(&operations, &caller, OPERATOR, None, Role::Admin).await {
        Ok(_) | Err(OperationError::Conflict(Conflict::NameTaken)) => {}
        Err(error) => return Err(error.into()),
    }
    let code = operators::link(&operations, &caller, OPERATOR, true).await?;
    Ok(console::welcome_link(&console::console_url(&context.config), &code))
}

fn read(file: &Path) -> anyhow::Result<Option<Credentials>> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let kept = serde_json::from_str(&text);
    kept.map(Some)
        .with_context(|| format!("{} is damaged; remove it to create new credentials", file.display()))
}

async fn is_valid(context: &Context, kept: &Credentials) -> anyhow::Result<bool> {
    let digest = sha256(kept.api_secret.as_bytes());
    let app = context.store.control().app_by_key(&kept.api_key).await?;
    Ok(app.is_some_and(|app| {
        app.id == kept.app_id && app.secrets.iter().any(|secret| constant_time_eq(&secret.digest, &digest))
    }))
}

pub(crate) struct StandIn {
    identifier: &'static str,
    channel: Channel,
    kind: &'static str,
    /// Settings, including the secrets.
    settings: Value,
}

impl StandIn {
    /// Document for `tidings provider set`.
    pub(crate) fn document(&self) -> Value {
        let StandIn { identifier, channel, kind, settings } = self;
        json!({"identifier": identifier, "channel": channel.as_str(), "kind": kind, "settings": settings})
    }
}

pub(crate) fn providers(stand_ins: &StandIns) -> Vec<StandIn> {
    let smtp = stand_ins.smtp_address();
    let email = StandIn {
        identifier: "stand-in",
        channel: Channel::Email,
        kind: Smtp::NAME,
        settings: json!({
            "host": interface::host(),
            "port": smtp.port(),
            "security": "none",
            "from": "demo@tidings.example",
            "fromName": "Tidings demo",
        }),
    };
    let web_push = StandIn {
        identifier: "stand-in-web-push",
        channel: Channel::WebPush,
        kind: Vapid::NAME,
        settings: json!({"subject": "mailto:demo@tidings.example"}),
    };
    let apns = StandIn {
        identifier: "stand-in-apns",
        channel: Channel::MobilePush,
        kind: Apns::NAME,
        settings: stand_ins.apns().provider_settings(),
    };
    let fcm = StandIn {
        identifier: "stand-in-fcm",
        channel: Channel::MobilePush,
        kind: Fcm::NAME,
        settings: stand_ins.fcm().provider_settings(),
    };
    let sms = |identifier, kind, settings| StandIn { identifier, channel: Channel::Sms, kind, settings };
    let twilio = sms("stand-in-sms", Twilio::NAME, stand_ins.twilio().provider_settings());
    let smpp = sms("stand-in-sms-smpp", Smpp::NAME, stand_ins.smsc().provider_settings());
    let http = sms("stand-in-sms-http", Http::NAME, stand_ins.sms_http().provider_settings());
    vec![email, web_push, apns, fcm, twilio, smpp, http]
}

/// Keeps the priority of an existing provider, and leaves a disabled one disabled.
pub(crate) async fn set_providers(
    context: &Context,
    app: AppId,
    stand_ins: &[StandIn],
) -> anyhow::Result<()> {
    let known = context.store.control().list_providers(app).await?;
    for StandIn { identifier, channel, kind, settings } in stand_ins {
        let known = known.iter().find(|known| known.identifier == *identifier);
        let mut settings = settings.clone();
        let sealed = seal(context, app, identifier, (*channel, kind), &mut settings)?;
        let provider = NewProvider {
            identifier,
            channel: *channel,
            kind,
            priority: known.map_or(PRIORITY, |known| known.priority),
            enabled: known.is_none_or(|known| known.enabled),
            settings: &settings,
            secret: sealed.as_deref().map_or(SecretChange::Remove, SecretChange::Replace),
            max_per_second: None,
        };
        let caller = caller();
        let actor = caller.authorize(Action::ProviderSet, app)?;
        context.store.control().put_provider(app, provider, actor).await?;
    }
    Ok(())
}

/// Removes the secrets from the settings. Returns None if the settings contain no secrets.
fn seal(
    context: &Context,
    app: AppId,
    identifier: &str,
    (channel, kind): (Channel, &str),
    settings: &mut Value,
) -> anyhow::Result<Option<Vec<u8>>> {
    let names = kinds::find(channel, kind).map_or(&[][..], |kind| kind.secrets());
    let secrets: Map<String, Value> = match settings {
        Value::Object(members) => names.iter().filter_map(|name| members.remove_entry(*name)).collect(),
        _ => Map::new(),
    };
    if secrets.is_empty() {
        return Ok(None);
    }
    let secrets = Value::Object(secrets).to_string();
    Ok(Some(context.master_key.seal(&format!("provider:{app}:{identifier}"), secrets.as_bytes())?))
}
