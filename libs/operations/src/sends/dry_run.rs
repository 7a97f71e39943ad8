//! Dry runs: the deliveries that a send would make, skip or fail to make, with the reasons.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::content::{Content, InAppContent, Object};
use domain::plan::Decision;
use domain::request::MAX_RECIPIENTS;
use domain::send::Recipient;
use domain::target::masked;
use domain::{AppId, Channel, Reason, SendId, SendRequest, Status};
use fairness::waiting::remaining_time;
use planning::{
    ContentRenderer, EmailLook, Template, TemplateError, decide_chunk, item_size, next_expansion,
};
use serde_json::{Value, json};
use service_kit::clock;
use store::control::template::TemplateVersion;
use store::sends::chunk::Chunk;
use store::sends::facts::Facts;
use store::sends::planned_chunk::PlannedChunk;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::sends::push_sizes::too_large;
use crate::sends::submission::Submission;
use crate::waiting::database;
use crate::{Caller, OperationError, Permission, Sends};

/// Number of recipients whose content the result has, from the first recipient of the send on. The number is limited to bound
/// the size of the result.
const SHOWN: usize = 10;
const WITHIN: Duration = Duration::from_millis(2500);

/// Effect that a send would have.
#[derive(Default)]
pub struct DryRun {
    /// Number of recipients that the dry run shows.
    pub recipients: usize,
    /// True if the topics of the send have more subscribers than the dry run shows: it ends after 10,000 recipients.
    pub more: bool,
    /// Number of deliveries by channel and status.
    pub counts: BTreeMap<Channel, BTreeMap<Status, u32>>,
    /// Deliveries, sorted by the recipient's position in the send, then by channel.
    pub data: Vec<Pair>,
    /// Paths of members of `data.attachments` that Tidings does not know and ignores.
    pub ignored: Vec<String>,
}

/// Effect of a send for one recipient on one channel.
pub struct Pair {
    pub recipient: String,
    pub channel: Channel,
    /// Address, token or subscription of the recipient, masked. None for the inbox and for skipped deliveries.
    pub target: Option<String>,
    /// `Queued` if the send would make the delivery, otherwise `Skipped` or `Failed`.
    pub status: Status,
    pub reason: Option<Reason>,
    /// None if the status is not `Queued`, and from the eleventh recipient on.
    pub content: Option<Box<RenderedContent>>,
}

pub enum RenderedContent {
    InApp(InAppContent),
    External(Content),
}

impl RenderedContent {
    /// Returns the content as JSON, without members that have no value.
    ///
    /// # Errors
    /// Returns an error if the content cannot be written as JSON, which no content of a template causes.
    pub fn to_json(&self) -> serde_json::Result<Value> {
        let mut value = match self {
            RenderedContent::InApp(content) => serde_json::to_value(content),
            RenderedContent::External(Content::Email(content)) => serde_json::to_value(content),
            RenderedContent::External(Content::Push(content)) => serde_json::to_value(content),
            RenderedContent::External(Content::Sms(content)) => serde_json::to_value(content),
        }?;
        if let Value::Object(members) = &mut value {
            members.retain(|_, value| !value.is_null() && *value != json!({}) && *value != json!([]));
        }
        Ok(value)
    }
}

impl Sends {
    /// Returns the effect that a send would have now. It uses the same checks, decisions and templates as a real send, but
    /// writes nothing and reserves no idempotency key. Fails if that takes longer than 2.5 s.
    pub async fn dry_run(&self, caller: &Caller, submission: Submission) -> Result<DryRun, OperationError> {
        caller.may(Permission::Send, submission.app)?;
        self.check(&submission).await?;
        let Submission { app, send, files, .. } = submission;
        let within = remaining_time(WITHIN);
        match timeout(within, Box::pin(self.plan_without_writing(app, *send, Instant::now() + within))).await
        {
            Ok(outcome) => outcome.map(|outcome| DryRun { ignored: files.ignored, ..outcome }),
            Err(_) => {
                let message = "the dry run took too long; name fewer recipients or topics";
                Err(OperationError::later(message, "the dry run took too long"))
            }
        }
    }

    /// Plans the send chunk by chunk, without writing. Rendering runs on a blocking thread, which a timeout cannot stop, so
    /// the rendering code checks `until` itself.
    async fn plan_without_writing(
        &self,
        app: AppId,
        send: SendRequest,
        until: Instant,
    ) -> Result<DryRun, OperationError> {
        let (send, accepted_at, send_id) = (Arc::new(send), clock::now(), SendId(clock::new_id()));
        let click_url = self.sample_click_url(app, send_id).await?;
        let mut outcome = DryRun::default();
        let mut next = Some(Chunk::listed(app, send_id, 0, accepted_at, send));
        while let Some(chunk) = next {
            let (planned, facts) = database(self.store.sends().simulate_facts(chunk)).await?;
            let before = outcome.recipients;
            outcome.recipients += planned.chunk.recipients().len();
            next = self.chunk_after(&planned.chunk).await?;
            let click_url = click_url.clone();
            let pairs =
                spawn_blocking(move || pairs(&planned, before, &facts, click_url.as_deref(), until)).await;
            for pair in pairs.map_err(OperationError::defect)? {
                *outcome.counts.entry(pair.channel).or_default().entry(pair.status).or_default() += 1;
                outcome.data.push(pair);
            }
            if outcome.recipients >= MAX_RECIPIENTS {
                outcome.more = next.is_some();
                break;
            }
        }
        Ok(outcome)
    }

    /// Returns the next chunk of the send. None after the last one, and if no subscriber follows.
    async fn chunk_after(&self, chunk: &Chunk) -> Result<Option<Chunk>, OperationError> {
        if chunk.is_last() {
            return Ok(None);
        }
        let mut next = Chunk { chunk: chunk.chunk + 1, expansion: None, ..chunk.clone() };
        if next.chunk as usize >= chunk.send.chunks() {
            let expansion = database(next_expansion(&self.store, chunk)).await?;
            if expansion.is_last && expansion.recipients.is_empty() {
                return Ok(None);
            }
            next.expansion = Some(Arc::new(expansion));
        }
        Ok(Some(next))
    }
}

/// Returns the deliveries of a chunk. `before` is the number of recipients of the chunks before it.
fn pairs(
    planned: &PlannedChunk,
    before: usize,
    facts: &Facts,
    click_url: Option<&str>,
    until: Instant,
) -> Vec<Pair> {
    let chunk = &planned.chunk;
    let template = planned.template.as_ref().and_then(|version| compiled(chunk.app, version));
    let template = template.as_ref();
    let category = planned.category.as_deref();
    let layout = facts.email_layout(chunk.app).and_then(|version| compiled(chunk.app, version));
    let unsubscribe = planned.category_with_preferences().is_some() && click_url.is_some();
    let look = EmailLook { brand: facts.brand(chunk.app), layout: layout.as_ref(), unsubscribe };
    let renderer = ContentRenderer::new(&chunk.send, template, facts.app_name(chunk.app), look, category)
        .with_template_profile(facts.template_profile(chunk.app));
    let no_profile = Object::new();
    let mut pairs = Vec::new();
    let decided = decide_chunk(planned, facts, template).into_iter().zip(chunk.recipients());
    for (place, ((_, decision), recipient)) in decided.enumerate() {
        // The time limit has passed, and the request was answered with 503.
        if Instant::now() >= until {
            break;
        }
        let profile =
            facts.user(chunk.app, &recipient.identifier).map_or(&no_profile, |(_, profile)| profile);
        let shown = before + place < SHOWN;
        let trial = DryRunRecipient { renderer: &renderer, recipient, profile, click_url, shown };
        pairs.extend(trial.pairs(decision));
    }
    pairs
}

fn compiled(app: AppId, version: &TemplateVersion) -> Option<Template> {
    let log = |error| {
        let template = &version.identifier;
        tracing::error!(%app, template, %error, "cannot compile a template for a dry run; showing its deliveries as skipped (no_content), or in the built-in layout");
    };
    Template::compile(&version.channels).map_err(log).ok()
}

struct DryRunRecipient<'a> {
    renderer: &'a ContentRenderer<'a>,
    recipient: &'a Recipient,
    profile: &'a Object,
    /// A link of the length that web pushes contain.
    click_url: Option<&'a str>,
    /// True if the answer shows the content of this recipient.
    shown: bool,
}

impl DryRunRecipient<'_> {
    /// Returns the entries of this recipient, sorted by channel as in `GET /v3/requests/{requestId}/deliveries`.
    fn pairs(&self, decision: Decision) -> Vec<Pair> {
        let skips = decision.skips.into_iter().map(|(channel, reason)| Pair {
            reason: Some(reason),
            ..self.pair(channel, None, reason.planned_status())
        });
        let mut pairs: Vec<_> = skips.collect();
        if decision.in_app {
            pairs.push(self.rendered(Channel::InApp, None, self.in_app()));
        }
        for delivery in decision.deliveries {
            let (channel, target) = (delivery.channel, delivery.target.as_str());
            let content = self.renderer.shown(channel, self.recipient, self.profile);
            pairs.push(match content {
                Ok(content) if too_large(channel, target, &content, self.click_url).is_some() => Pair {
                    reason: Some(Reason::TooLarge),
                    ..self.pair(channel, Some(target), Status::Failed)
                },
                content => self.rendered(channel, Some(target), content.map(RenderedContent::External)),
            });
        }
        pairs.sort_by_key(|pair| pair.channel.as_str());
        pairs
    }

    fn in_app(&self) -> Result<RenderedContent, TemplateError> {
        let content = self.renderer.in_app(self.recipient, self.profile)?;
        item_size(&content)?;
        Ok(RenderedContent::InApp(content.into_owned()))
    }

    fn rendered(
        &self,
        channel: Channel,
        target: Option<&str>,
        content: Result<RenderedContent, TemplateError>,
    ) -> Pair {
        match content {
            Ok(content) => Pair {
                content: self.shown.then(|| Box::new(content)),
                ..self.pair(channel, target, Status::Queued)
            },
            Err(_) => Pair {
                reason: Some(Reason::TemplateError),
                ..self.pair(channel, target, Reason::TemplateError.planned_status())
            },
        }
    }

    fn pair(&self, channel: Channel, target: Option<&str>, status: Status) -> Pair {
        Pair {
            recipient: self.recipient.identifier.clone(),
            channel,
            target: target.map(masked),
            status,
            reason: None,
            content: None,
        }
    }
}
