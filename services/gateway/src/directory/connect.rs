//! `POST /v3/sdk/connect`: a user signs in on a device.

use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use credentials::secrets::sha256;
use domain::body::Body as _;
use domain::body::kind::{As, Text};
use domain::body::words::{OneOf, Words};
use domain::content::Object;
use domain::fields::{check_identifier, check_plain_json};
use domain::profile::{Author, push_targets};
use domain::request::MAX_REFERENCE;
use domain::{CategoryId, Channel, DeviceType, Problem};
use serde::Serialize;
use serde_json::{Value, json};
use store::directory::category::Category;
use store::directory::device::unproven::UnprovenDevice;
use store::inbox::list::InboxOwner;
use utoipa::ToSchema;
use web::body::Body;
use web::database::database;
use web::failure::{Failure, valid_or_problems};
use web::handling::Handling;
use web::headers::Credential;

use crate::access::Access;
use crate::access::caller::UserCaller;
use crate::access::device_secret;
use crate::directory::categories::MOST_CATEGORIES;
use crate::gateway::Gateway;
use crate::openapi::described;
use crate::openapi::vocabulary::{self, Count, HeaderIdentifier, Id};

domain::body! {
    /// The device that signs in.
    pub(crate) struct DeviceBody as "Device" {
        /// Type of the device. Required, except for callers with the API secret.
        conditional device_type as "deviceType": As<OneOf<DeviceType>, Text<MAX_REFERENCE>>,
        optional browser_type as "browserType": Text<MAX_REFERENCE>,
        /// Push token of the device. It is added to the user's profile.
        optional push_token as "pushToken": Text<MAX_REFERENCE>,
        /// Push service that issued the token. Default: `fcm`.
        optional push_provider as "pushProvider": As<OneOf<PushProvider>, Text<MAX_REFERENCE>>,
    }
    example {"deviceType": "android", "pushToken": "fcm-token-1", "pushProvider": "fcm"}
}

/// Key of a profile with the tokens of a push service.
#[derive(Clone, Copy)]
struct PushProvider(&'static str);

impl Words for PushProvider {
    /// The first one is the default.
    const WORDS: &'static [(&'static str, Self)] =
        &[("fcm", PushProvider("fcm")), ("apns", PushProvider("apns"))];
}

/// A device as the request describes it.
struct Device {
    device_type: Option<DeviceType>,
    /// Profile pairs that add the device's push token; empty if there is none.
    token: Object,
}

/// Data that a front end needs at start-up.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "unreadCount": 1, "unseenCount": 0,
    "app": {
        "id": "1", "name": "Shop", "enableWebPush": false, "publicKey": null, "hideBranding": true,
        "channels": ["inApp", "email"], "categories": [{"id": 7, "name": "Orders"}],
    },
    "deviceSecret": null,
}))]
struct Connected<'a> {
    #[schema(value_type = Count)]
    unread_count: i64,
    #[schema(value_type = Count)]
    unseen_count: i64,
    app: AppBody<'a>,
    /// Secret that proves this device in later calls with only the public key. Null unless the app guards addresses
    /// (`address-keys=guarded`), the call has only the public key, and it creates the user. The secret is never shown again.
    device_secret: Option<&'a str>,
}

/// The data of an app that its front ends may see.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = App)]
struct AppBody<'a> {
    id: String,
    name: &'a str,
    /// True if the app has an enabled web-push provider and a key with which browsers subscribe.
    enable_web_push: bool,
    /// Public key with which browsers subscribe (VAPID): an uncompressed point of P-256 in base64url.
    public_key: Option<&'a str>,
    hide_branding: bool,
    /// The channels on which the app can deliver.
    #[schema(value_type = Vec<vocabulary::Channel>)]
    channels: Vec<Channel>,
    /// The first 1,000 categories of the app.
    categories: Vec<CategoryBody<'a>>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = NamedCategory)]
struct CategoryBody<'a> {
    #[schema(value_type = Id)]
    id: CategoryId,
    name: &'a str,
}

/// Signs a user in on a device: stores the device, and creates the user if missing.
///
/// If the app itself makes the call for the user, it may omit the body. If the app guards addresses (`address-keys=guarded`), a
/// caller with only the public key may register a push token only if this call creates the user. The answer then contains
/// `deviceSecret`, with which the device can replace its token later. Any other call with a push token gets a 403
/// (`address_guarded`).
#[utoipa::path(
    post,
    path = "/v3/sdk/connect",
    operation_id = "connect",
    tag = "devices",
    security(("user" = [])),
    params(
        ("DEVICE-ID" = inline(HeaderIdentifier), Header, description = "Unique identifier of the device or installation."),
        ("DEVICE-SECRET" = Option<String>, Header, description = "The device's secret. Only callers with just the public key need it."),
    ),
    request_body(content(
        (described::Device = "application/json"),
        (described::Device = "application/x-www-form-urlencoded"),
    )),
    responses((status = 200, description = "The user is signed in.", body = Connected)),
)]
pub(crate) async fn connect(
    caller: UserCaller,
    gateway: Data<Gateway>,
    request: HttpRequest,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.json_or_form().await?;
    let mut problems = Vec::new();
    let device_id = read_device_id(&request, &mut problems)?;
    let body = body.filter(|body| !body.is_null()).unwrap_or_else(|| json!({}));
    // An app that makes the call for a user does not always know the type of the device.
    let device = read_device(body, !caller.by_app, handling.strict, &mut problems);
    let (device_id, device) = valid_or_problems(device_id.zip(device), problems)?;

    let app = caller.app.id;
    let store = &gateway.store;
    let secret = if caller.author() == Author::Unproven {
        gateway.connect_unproven(&request, &caller, &device_id, &device).await?
    } else {
        let connecting = store.directory().connect_device(
            app,
            caller.writer(),
            &device.token,
            &device_id,
            device.device_type,
        );
        database(connecting).await?;
        None
    };
    let (counts, categories, channels, public_key) = tokio::try_join!(
        database(store.inbox().inbox_owner(app, &caller.user)),
        database(store.directory().list_categories(app, None, MOST_CATEGORIES)),
        gateway.channels(&caller),
        database(store.control().vapid_public_key(app)),
    )?;
    Ok(answer(&caller, secret.as_deref(), counts, channels, public_key.as_deref(), &categories))
}

fn read_device(
    body: Value,
    must_have_type: bool,
    strict: bool,
    problems: &mut Vec<Problem>,
) -> Option<Device> {
    check_plain_json("", &body, problems);
    let mut body = DeviceBody::open("", body, problems)?;
    if must_have_type {
        body.fields.require("deviceType", problems);
    }
    let device_type = body.device_type(problems);
    let device_type = device_type.and_then(|name| read_word("deviceType", &name, problems));
    body.browser_type(problems);
    let token = body.push_token(problems).filter(|token| !token.is_empty());
    let provider = body.push_provider(problems);
    let provider = provider.and_then(|name| read_word("pushProvider", &name, problems));
    body.fields.finish(strict, problems);
    let PushProvider(provider) = provider.unwrap_or(PushProvider::WORDS[0].1);
    let token = token.map(|token| (provider.to_owned(), json!({ "tokens": [token] })));
    Some(Device { device_type, token: token.into_iter().collect() })
}

fn read_word<W: Words>(key: &str, sent: &str, problems: &mut Vec<Problem>) -> Option<W> {
    let found = W::WORDS.iter().find(|(word, _)| *word == sent);
    if found.is_none() {
        let words: Vec<_> = W::WORDS.iter().map(|(word, _)| *word).collect();
        let message = format!("{key} must be one of {}", words.join(", "));
        problems.push(Problem::new(key, "unknown_value", message));
    }
    found.map(|(_, value)| *value)
}

impl Gateway {
    /// Connects a device of a caller with only the public key. Returns the device's secret if the call created the user.
    async fn connect_unproven(
        &self,
        request: &HttpRequest,
        caller: &UserCaller,
        device_id: &str,
        device: &Device,
    ) -> Result<Option<String>, Failure> {
        let secret = device_secret::verify(&self.store, request, caller, device_id).await?;
        let fresh = device_secret::create()?;
        let push_target = push_targets(&device.token).next();
        let connecting = UnprovenDevice {
            device_id,
            device_type: device.device_type,
            push_target: push_target.as_deref(),
            secret: secret.as_ref().map(|secret| &secret[..]),
        };
        let digest = sha256(fresh.as_bytes());
        let connecting =
            self.store.directory().connect_unproven(caller.app.id, &caller.user, connecting, &digest);
        Ok(database(connecting).await?.then_some(fresh))
    }

    /// Returns the channels that the app can deliver on: the inbox, and every channel with an enabled provider.
    async fn channels(&self, caller: &UserCaller) -> Result<Vec<Channel>, Failure> {
        let providers = database(self.store.control().list_providers(caller.app.id)).await?;
        let has_provider =
            |channel| providers.iter().any(|provider| provider.enabled && provider.channel == channel);
        let channels = Channel::DELIVERED.into_iter();
        Ok(channels.filter(|&channel| channel == Channel::InApp || has_provider(channel)).collect())
    }
}

/// Reads the identifier of the calling device from its header. A missing or invalid identifier adds a problem. In
/// the problem, the header's name has the first configured prefix.
fn read_device_id(request: &HttpRequest, problems: &mut Vec<Problem>) -> Result<Option<String>, Failure> {
    let names = &Access::of(request)?.header_names;
    let sent = names.read(request.headers(), Credential::DeviceId)?;
    let name = names.name(Credential::DeviceId);
    let Some(id) = sent else {
        problems.push(Problem::new(&name, "required", format!("the header {name} is required")));
        return Ok(None);
    };
    Ok(check_identifier(&name, id.to_owned(), problems))
}

fn answer(
    caller: &UserCaller,
    device_secret: Option<&str>,
    owner: Option<InboxOwner>,
    channels: Vec<Channel>,
    public_key: Option<&str>,
    categories: &[Category],
) -> HttpResponse {
    let counts = owner.map(|owner| owner.counts).unwrap_or_default();
    let categories = categories.iter().map(|Category { id, name, .. }| CategoryBody { id: *id, name });
    HttpResponse::Ok().json(Connected {
        unread_count: counts.unread,
        unseen_count: counts.unseen,
        app: AppBody {
            id: caller.app.id.to_string(),
            name: &caller.app.name,
            enable_web_push: public_key.is_some() && channels.contains(&Channel::WebPush),
            public_key,
            hide_branding: true,
            channels,
            categories: categories.collect(),
        },
        device_secret,
    })
}
