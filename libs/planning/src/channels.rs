//! Content of a template by channel, as operators write it. Each text is a template of the engine.

use domain::Channel;
use domain::content::Object;
use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Channels {
    pub(crate) in_app: Option<InAppTexts>,
    pub(crate) email: Option<EmailTexts>,
    pub(crate) sms: Option<SmsTexts>,
    pub(crate) web_push: Option<PushTexts>,
    pub(crate) mobile_push: Option<PushTexts>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct InAppTexts {
    pub(crate) title: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) icon: Option<String>,
    pub(crate) url: Option<String>,
    pub(crate) data: Object,
    pub(crate) blocks: Vec<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmailTexts {
    pub(crate) subject: String,
    pub(crate) text: Option<String>,
    pub(crate) html: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SmsTexts {
    pub(crate) text: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PushTexts {
    pub(crate) title: Option<String>,
    pub(crate) body: Option<String>,
    pub(crate) icon: Option<String>,
    pub(crate) url: Option<String>,
}

impl Channels {
    pub(crate) fn offered_channels(&self) -> Vec<Channel> {
        let present = [
            (Channel::InApp, self.in_app.is_some()),
            (Channel::Email, self.email.is_some()),
            (Channel::WebPush, self.web_push.is_some()),
            (Channel::MobilePush, self.mobile_push.is_some()),
            (Channel::Sms, self.sms.is_some()),
        ];
        present.into_iter().filter_map(|(channel, present)| present.then_some(channel)).collect()
    }

    /// Texts with their names, such as `email.subject`.
    pub(crate) fn texts(&self) -> Vec<(String, &str)> {
        let mut texts = Vec::new();
        if let Some(InAppTexts { title, message, icon, url, .. }) = &self.in_app {
            let fields = [("title", title), ("message", message), ("icon", icon), ("url", url)];
            push(&mut texts, "inApp", &fields.map(|(name, text)| (name, text.as_ref())));
        }
        if let Some(EmailTexts { subject, text, html }) = &self.email {
            push(
                &mut texts,
                "email",
                &[("subject", Some(subject)), ("text", text.as_ref()), ("html", html.as_ref())],
            );
        }
        if let Some(SmsTexts { text }) = &self.sms {
            push(&mut texts, "sms", &[("text", Some(text))]);
        }
        for (channel, content) in [("webPush", &self.web_push), ("mobilePush", &self.mobile_push)] {
            if let Some(PushTexts { title, body, icon, url }) = content {
                let fields = [("title", title), ("body", body), ("icon", icon), ("url", url)];
                push(&mut texts, channel, &fields.map(|(name, text)| (name, text.as_ref())));
            }
        }
        if let Some(in_app) = &self.in_app {
            for (key, value) in &in_app.data {
                leaves(&format!("inApp.data.{key}"), value, &mut texts);
            }
            for (index, block) in in_app.blocks.iter().enumerate() {
                leaves(&format!("inApp.blocks.{index}"), block, &mut texts);
            }
        }
        texts
    }
}

fn push<'a>(texts: &mut Vec<(String, &'a str)>, channel: &str, fields: &[(&str, Option<&'a String>)]) {
    let present = fields
        .iter()
        .filter_map(|(field, text)| Some((format!("{channel}.{field}"), text.as_ref()?.as_str())));
    texts.extend(present);
}

fn leaves<'a>(name: &str, value: &'a Value, texts: &mut Vec<(String, &'a str)>) {
    match value {
        Value::String(text) => texts.push((name.to_owned(), text)),
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| leaves(&format!("{name}.{index}"), item, texts));
        }
        Value::Object(members) => {
            members.iter().for_each(|(key, item)| leaves(&format!("{name}.{key}"), item, texts));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
