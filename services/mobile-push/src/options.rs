//! Content of a push together with the send's options in `override.channel.mobilePush`.

use std::time::Duration;

use domain::content::{Object, PushContent};
use domain::fields::Fields;
use domain::link::is_icon;
use domain::{Answer, DeliveryId, Outcome, Problem, Timestamp};
use serde_json::Value;
use worker::Call;

use domain::problem::joined;

/// Maximum length in bytes of the text options other than title, body, icon and URL.
const LONGEST: usize = 2_048;

/// A push message, independent of the push service.
pub(crate) struct Message {
    pub(crate) delivery: DeliveryId,
    pub(crate) now: Timestamp,
    pub(crate) title: Option<String>,
    pub(crate) subtitle: Option<String>,
    pub(crate) body: Option<String>,
    pub(crate) icon: Option<String>,
    pub(crate) image: Option<String>,
    pub(crate) url: Option<String>,
    pub(crate) data: Object,
    /// Name of the sound. An empty name means no sound; None means the default of the push service.
    pub(crate) sound: Option<String>,
    pub(crate) badge: Option<i64>,
    /// Id of a thread. Phones group the messages of a thread.
    pub(crate) thread_id: Option<String>,
    /// Collapse id: a later message replaces an earlier one with the same id.
    pub(crate) collapse_id: Option<String>,
    /// Category that determines the actions that the app offers.
    pub(crate) category: Option<String>,
    pub(crate) interruption_level: Option<String>,
    pub(crate) mutable_content: bool,
    pub(crate) content_available: bool,
    pub(crate) is_urgent: bool,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) android: Object,
    pub(crate) apns: Object,
    pub(crate) webpush: Object,
}

impl Message {
    /// Reads a job's content and options. If an option is malformed, the error is an answer that fails the delivery
    /// permanently.
    pub(crate) fn read(call: &Call<'_>, content: &PushContent) -> Result<Message, Answer> {
        let mut problems = Vec::new();
        let path = "override.channel.mobilePush";
        let options = Fields::open(path, Value::Object(content.options.clone()), &mut problems);
        let message = options.map(|options| read(call, content, options, &mut problems));
        match message {
            Some(message) if problems.is_empty() => Ok(message),
            _ => Err(Answer::new(Outcome::Failed, "options", joined(&problems))),
        }
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

fn read(call: &Call<'_>, content: &PushContent, mut options: Fields, problems: &mut Vec<Problem>) -> Message {
    let mut text = |name: &str, usual: Option<&String>| {
        options.string(name, 64 * 1024, problems).or_else(|| usual.cloned()).filter(|text| !text.is_empty())
    };
    let (title, body) = (text("title", content.title.as_ref()), text("body", content.body.as_ref()));
    let (icon, url) = (text("icon", content.icon.as_ref()), text("url", content.url.as_ref()));
    let mut short = |name: &str| options.string(name, LONGEST, problems);
    let (subtitle, image, sound) = (short("subtitle"), short("image"), short("sound"));
    let (thread_id, collapse_id) = (short("threadId"), short("collapseId"));
    let (category, interruption_level) = (short("category"), short("interruptionLevel"));
    let priority = short("priority");
    if image.as_deref().is_some_and(|image| !is_icon(image)) {
        let path = options.path("image");
        let message = format!("{path} must be a link or data:image/…");
        problems.push(Problem::new(path, "invalid_link", message));
    }
    if priority.as_deref().is_some_and(|priority| !matches!(priority, "high" | "normal")) {
        let path = options.path("priority");
        let message = format!("{path} must be high or normal");
        problems.push(Problem::new(path, "unknown_value", message));
    }
    let ttl = options.whole_number("ttl", problems).map(|seconds| u64::try_from(seconds).unwrap_or_default());
    let by_ttl = ttl.map(|seconds| call.now + Duration::from_secs(seconds));
    let mut object = |name: &str| options.free_object(name, problems).unwrap_or_default();
    let (android, apns, webpush) = (object("android"), object("apns"), object("webpush"));
    Message {
        delivery: call.job.delivery_id,
        now: call.now,
        title,
        subtitle,
        body,
        icon,
        image,
        url,
        data: content.data.clone(),
        sound,
        badge: options.whole_number("badge", problems),
        thread_id,
        collapse_id,
        category,
        interruption_level,
        mutable_content: options.flag("mutableContent", problems).unwrap_or_default(),
        content_available: options.flag("contentAvailable", problems).unwrap_or_default(),
        is_urgent: priority.as_deref() != Some("normal"),
        // The message expires with the send or after `ttl`, whichever is earlier.
        expires_at: [call.job.expires_at, by_ttl].into_iter().flatten().min(),
        android,
        apns,
        webpush,
    }
}
