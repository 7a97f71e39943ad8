//! Content of a push together with the send's options in `override.channel.mobilePush`.

use std::time::Duration;

use domain::content::{Object, PushContent};
use domain::mobile_push::options::MobilePushOptions;
use domain::problem::joined;
use domain::{Answer, DeliveryId, Problem, Reason, Timestamp};
use serde_json::Value;
use worker::Call;

/// Location of the options in a request.
pub(crate) const PATH: &str = "override.channel.mobilePush";

/// A push message, independent of the push service.
pub(crate) struct Message {
    pub(crate) delivery: DeliveryId,
    pub(crate) now: Timestamp,
    pub(crate) title: Option<String>,
    pub(crate) body: Option<String>,
    pub(crate) icon: Option<String>,
    pub(crate) url: Option<String>,
    pub(crate) data: Object,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) options: MobilePushOptions,
}

impl Message {
    /// Reads a job's content and options. If an option is malformed, the error is an answer that fails the delivery
    /// permanently. The gateway refuses such a send by the same rules, but earlier releases had fewer.
    pub(crate) fn read(call: &Call<'_>, content: &PushContent) -> Result<Message, Answer> {
        let mut problems = Vec::new();
        let options = MobilePushOptions::parse(content.options.clone(), PATH, &mut problems);
        if !problems.is_empty() {
            return Err(unusable(&problems));
        }
        let chosen = |name: &str, usual: Option<&String>| {
            let own = content.options.get(name).and_then(Value::as_str).map(str::to_owned);
            own.or_else(|| usual.cloned()).filter(|text| !text.is_empty())
        };
        let by_ttl = options.ttl.map(|seconds| call.now + Duration::from_secs(seconds));
        Ok(Message {
            delivery: call.job.delivery_id,
            now: call.now,
            title: chosen("title", content.title.as_ref()),
            body: chosen("body", content.body.as_ref()),
            icon: chosen("icon", content.icon.as_ref()),
            url: chosen("url", content.url.as_ref()),
            data: content.data.clone(),
            // The message expires with the send or after `ttl`, whichever is earlier.
            expires_at: [call.job.expires_at, by_ttl].into_iter().flatten().min(),
            options,
        })
    }

    /// Returns true if the push is shown to the user.
    pub(crate) fn is_shown(&self) -> bool {
        self.title.is_some() || self.body.is_some()
    }

    /// Seconds until the message expires; None if it does not expire.
    pub(crate) fn lifetime(&self) -> Option<u64> {
        self.expires_at.map(|end| end.since(self.now).as_secs())
    }
}

/// The answer for options from which no push can be built.
pub(crate) fn unusable(problems: &[Problem]) -> Answer {
    let is_link = problems.iter().all(|problem| problem.code == "invalid_link");
    Answer::refused(Reason::InvalidContent, if is_link { "link" } else { "options" }, joined(problems))
}
