//! Reads and validates the member `override` of a send request.

mod email;
mod sms;

use std::collections::BTreeMap;

use serde_json::Value;

use self::email::{Address, EmailBody};
use self::sms::SmsBody;
use crate::body::kind::{Line, List, Nested};
use crate::body::rest::{AnyMembers, Each, Rest};
use crate::body::{Body, ObjectSchema, Presence, named};
use crate::content::Object;
use crate::fields::{Fields, check_identifier};
use crate::mobile_push::options::MobilePushBody;
use crate::overrides::Overrides;
use crate::size::json_size;
use crate::sms::sender::is_sender;
use crate::web_push::WebPushBody;
use crate::{Channel, EmailAddress, Problem, mobile_push, web_push};

pub use email::{MAX_COPIES, MAX_EMAIL_PART, MAX_HEADER_VALUE, MAX_HEADERS};

/// Longest name of a sender, in bytes.
pub const MAX_SENDER: usize = 255;
/// Maximum size of the overrides for providers, as JSON text, in bytes. The limit is needed because every job of the send
/// contains them.
pub const MAX_PROVIDER_OVERRIDES: usize = 64 * 1024;

crate::body! {
    /// Overrides of the template and of the app's settings, for this send only. Each member other than `channels` and `channel`
    /// overrides one provider of the app; its name is the provider's identifier.
    pub(super) struct OverrideBody as "Override" {
        /// The only channels to use: `inApp`, `email`, `webPush`, `mobilePush`, `sms`. The service skips the others with the reason
        /// `channel_unavailable`, and refuses them with strict handling.
        optional channels: List<Channel>,
        /// Overrides by channel.
        optional channel: Nested<ChannelOverrides>,
        ..Each<ProviderBody>
    }
}

crate::body! {
    /// Content and options by channel. A text given here replaces the text of the template and is not rendered as a template.
    struct ChannelOverrides {
        optional email: Nested<EmailBody>,
        optional sms: Nested<SmsBody>,
        optional mobile_push as "mobilePush": Nested<MobilePushBody>,
        optional web_push as "webPush": Nested<WebPushBody>,
    }
    example {
        "email": {"fromName": "The shop", "subject": "Your invoice", "cc": ["books@example.com"]},
        "sms": {"text": "Your invoice is in your mailbox."},
    }
}

crate::schemas! {
    /// Overrides for one provider. [`check_config`] reads `_config`; the worker reads the other members.
    ProviderBody = |schemas| named(schemas, "ProviderOverride", |schemas| {
        let about = "Overrides for one provider: the sender, and members that only this provider understands.";
        let mut object = ObjectSchema::new(&[about]);
        let about = "Sender to use. Hosts and credentials belong to the provider's settings; the service refuses them here.";
        object.add("_config", Presence::Optional, &[about], SenderBody::schema(schemas));
        let mut schema = object.finish();
        AnyMembers::add_to(&mut schema, schemas);
        schema
    });
}

crate::body! {
    struct SenderBody as "SenderOverride" {
        /// 400 (`sender_not_allowed`) if the settings of this email provider do not allow the address.
        optional from: Line<MAX_SENDER>,
        optional sender_name as "fromName": Line<MAX_SENDER>,
        optional reply_to as "replyTo": Address,
    }
}

impl OverrideBody {
    /// Returns the selected channels (None if the send selects none) and all other overrides.
    pub(super) fn read(
        mut self,
        strict: bool,
        problems: &mut Vec<Problem>,
    ) -> (Option<Vec<Channel>>, Overrides) {
        let names = self.channels(problems).unwrap_or_default();
        let channels = read_channels(&names, strict, problems);
        let mut overrides = Overrides::default();
        if let Some(by_channel) = self.channel(problems) {
            by_channel.read(&mut overrides, strict, problems);
        }
        overrides.providers = read_providers(self.fields, problems);
        (channels, overrides)
    }
}

impl ChannelOverrides {
    fn read(mut self, overrides: &mut Overrides, strict: bool, problems: &mut Vec<Problem>) {
        let email = self.email(problems);
        overrides.email = email.map(|email| Box::new(email.read(strict, problems)));
        overrides.sms = self.sms(problems).map(|sms| sms.read(strict, problems));
        overrides.mobile_push = self.mobile_push(problems).map(|push| push.read(problems));
        overrides.web_push = self.web_push(problems).map(|push| push.read(problems));
        if let Some(push) = &overrides.mobile_push {
            mobile_push::check(push, "override.channel.mobilePush", problems);
        }
        if let Some(push) = &overrides.web_push {
            web_push::check(push, "override.channel.webPush", problems);
        }
        self.fields.finish(strict, problems);
    }
}

fn read_channels(names: &[Value], strict: bool, problems: &mut Vec<Problem>) -> Option<Vec<Channel>> {
    let mut channels = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let code = match name.as_str().map(str::parse::<Channel>) {
            Some(Ok(channel)) if strict && !channel.is_delivered() => "channel_unavailable",
            Some(Ok(channel)) if channels.contains(&channel) => continue,
            Some(Ok(channel)) => {
                channels.push(channel);
                continue;
            }
            _ => "unknown_channel",
        };
        let path = format!("override.channels[{index}]");
        let message = format!("{path} must be one of {}", Channel::delivered_names());
        problems.push(Problem::new(path, code, message));
    }
    (!channels.is_empty()).then_some(channels)
}

/// Reads the overrides for single providers: each remaining member of `override` has a provider's identifier as its name.
fn read_providers(mut fields: Fields, problems: &mut Vec<Problem>) -> BTreeMap<String, Object> {
    let mut providers = BTreeMap::new();
    for identifier in fields.keys() {
        let Some(members) = fields.free_object(&identifier, problems) else { continue };
        let path = fields.path(&identifier);
        let Some(identifier) = check_identifier(&path, identifier, problems) else { continue };
        check_config(&path, &members, problems);
        providers.insert(identifier, members);
    }
    let size = json_size(&providers);
    if size > MAX_PROVIDER_OVERRIDES {
        let message =
            format!("override has {size} bytes for providers; at most {MAX_PROVIDER_OVERRIDES} are allowed");
        problems.push(Problem::new("override", "too_long", message));
    }
    providers
}

/// Checks `_config`. A send may set another sender, but not the host or the credentials of a provider. Otherwise a request could
/// direct credentials or messages to another host.
fn check_config(path: &str, members: &Object, problems: &mut Vec<Problem>) {
    let Some(config) = members.get("_config").filter(|config| !config.is_null()) else { return };
    let path = format!("{path}._config");
    let Some(mut config) = SenderBody::open(&path, config.clone(), problems) else { return };
    for key in config.fields.keys() {
        match key.as_str() {
            // An address or the sender of an SMS, depending on the provider, which the caller of this crate looks up.
            "from" => {
                let from = config.from(problems);
                if from.is_some_and(|from| EmailAddress::parse(&from).is_err() && !is_sender(&from)) {
                    let path = config.fields.path(&key);
                    let message = format!("{path} must be an email address or the sender of an SMS");
                    problems.push(Problem::new(path, "invalid_sender", message));
                }
            }
            "fromName" => {
                config.sender_name(problems);
            }
            "replyTo" => {
                config.reply_to(problems);
            }
            _ => {
                let path = config.fields.path(&key);
                let message = format!(
                    "{path} cannot be set by a send, which may set only from, fromName and replyTo; hosts and \
                     credentials belong to the provider's own settings"
                );
                problems.push(Problem::new(path, "not_allowed", message));
            }
        }
    }
}
