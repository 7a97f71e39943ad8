use std::time::Duration;

use serde_json::Value;

use super::PATH;
use super::options::MobilePushOptions;
use crate::content::{Object, PushContent};
use crate::problem::joined;
use crate::{Answer, DeliveryId, Problem, Reason, Timestamp};

pub struct Message {
    pub delivery: DeliveryId,
    pub now: Timestamp,
    pub title: Option<String>,
    pub body: Option<String>,
    pub icon: Option<String>,
    pub url: Option<String>,
    pub data: Object,
    pub expires_at: Option<Timestamp>,
    pub options: MobilePushOptions,
}

impl Message {
    /// The message expires at `expires_at`, or earlier by its option `ttl`. A malformed option fails the delivery permanently: the gateway
    /// refuses such a send, but earlier releases had fewer rules.
    pub fn read(
        delivery: DeliveryId,
        expires_at: Option<Timestamp>,
        now: Timestamp,
        content: &PushContent,
    ) -> Result<Message, Answer> {
        let mut problems = Vec::new();
        let options = MobilePushOptions::parse(content.options.clone(), PATH, &mut problems);
        if !problems.is_empty() {
            return Err(unusable(&problems));
        }
        let chosen = |name: &str, usual: Option<&String>| {
            let own = content.options.get(name).and_then(Value::as_str).map(str::to_owned);
            own.or_else(|| usual.cloned()).filter(|text| !text.is_empty())
        };
        let by_ttl = options.ttl.map(|seconds| now + Duration::from_secs(seconds));
        Ok(Message {
            delivery,
            now,
            title: chosen("title", content.title.as_ref()),
            body: chosen("body", content.body.as_ref()),
            icon: chosen("icon", content.icon.as_ref()),
            url: chosen("url", content.url.as_ref()),
            data: content.data.clone(),
            // The message expires with the send or after `ttl`, whichever is earlier.
            expires_at: [expires_at, by_ttl].into_iter().flatten().min(),
            options,
        })
    }

    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.title.is_some() || self.body.is_some()
    }

    /// Seconds until the message expires; None if it does not expire.
    #[must_use]
    pub fn lifetime(&self) -> Option<u64> {
        self.expires_at.map(|end| end.since(self.now).as_secs())
    }
}

#[must_use]
pub fn unusable(problems: &[Problem]) -> Answer {
    let is_link = problems.iter().all(|problem| problem.code == "invalid_link");
    Answer::refused(Reason::InvalidContent, if is_link { "link" } else { "options" }, joined(problems))
}
