//! `POST /v3/sdk/connect`: a user signs in on a device.

use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use domain::body::Body as _;
use domain::body::kind::{As, Text};
use domain::body::words::{OneOf, Words};
use domain::content::Object;
use domain::fields::{check_identifier, check_plain_json};
use domain::request::MAX_REFERENCE;
use domain::{CategoryId, Channel, DeviceType, Problem};
use operations::connect::{self, NewDevice};
use serde::Serialize;
use serde_json::{Value, json};
use store::directory::category::Category;
use utoipa::ToSchema;
use web::body::Body;
use web::failure::{Failure, valid_or_problems};
use web::handling::Handling;
use web::headers::Credential;

use crate::access::Access;
use crate::access::caller::UserCaller;
use crate::access::device_secret::device_of;
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

    let Device { device_type, token } = device;
    let device = NewDevice { device: device_of(&request, &caller, &device_id)?, device_type, token };
    let connected = connect::connect(&gateway.operations, &caller.caller, device).await?;
    Ok(answer(&caller, connected))
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

fn answer(caller: &UserCaller, connected: connect::Connected) -> HttpResponse {
    let connect::Connected { device_secret, counts, categories, channels, public_key } = connected;
    let categories = categories.iter().map(|Category { id, name, .. }| CategoryBody { id: *id, name });
    HttpResponse::Ok().json(Connected {
        unread_count: counts.unread,
        unseen_count: counts.unseen,
        app: AppBody {
            id: caller.app.id.to_string(),
            name: &caller.app.name,
            enable_web_push: public_key.is_some() && channels.contains(&Channel::WebPush),
            public_key: public_key.as_deref(),
            hide_branding: true,
            channels,
            categories: categories.collect(),
        },
        device_secret: device_secret.as_deref(),
    })
}
