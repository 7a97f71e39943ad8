use std::sync::Arc;

use domain::content::{InAppContent, Object};
use domain::plan::Decision;
use domain::send::{Lane, Recipient, TemplateRef};
use domain::{AppId, Channel, Reason, SendId, SendRequest};
use planning::{Template, decide_chunk};
use service_kit::clock;
use store::sends::chunk::Chunk;

use crate::waiting::database;
use crate::{OperationError, Operations};

/// A send that is made up to decide what would happen now.
pub(super) struct Like<'a> {
    pub(super) category: Option<&'a str>,
    pub(super) template: Option<&'a str>,
    /// None if the send selects no channels.
    pub(super) channels: Option<Vec<Channel>>,
}

/// Decisions for a send that would be made now.
#[derive(Clone, Debug)]
pub struct Now {
    pub category: Option<String>,
    pub channels: Vec<NowChannel>,
}

#[derive(Clone, Copy, Debug)]
pub struct NowChannel {
    pub channel: Channel,
    /// None if the message would be sent.
    pub reason: Option<Reason>,
}

impl Now {
    /// Returns one line, such as `inApp yes · email no, suppressed`.
    #[must_use]
    pub fn line(&self) -> String {
        let texts = self.channels.iter().map(|NowChannel { channel, reason }| match reason {
            None => format!("{channel} yes"),
            Some(reason) => format!("{channel} no, {}", reason.as_str().replace('_', " ")),
        });
        texts.collect::<Vec<_>>().join(" · ")
    }
}

/// Decides with the rules and facts of planning, and writes nothing.
pub(super) async fn decide(
    operations: &Operations,
    app: AppId,
    user: &str,
    like: Like<'_>,
) -> Result<Now, OperationError> {
    let recipient = Recipient { identifier: user.to_owned(), profile: None, data: Object::new() };
    let send = SendRequest {
        content: InAppContent { title: Some("now".to_owned()), ..InAppContent::default() },
        template: like.template.map(|template| TemplateRef::Identifier(template.to_owned())),
        category: like.category.map(str::to_owned),
        recipients: vec![recipient],
        topics: Vec::new(),
        exclude: Vec::new(),
        channels: like.channels,
        proven_targets: false,
        cancellation_key: None,
        overrides: domain::overrides::Overrides::default(),
        attachments: Vec::new(),
        send_at: None,
        expires_at: None,
        lane: Lane::Transactional,
        idempotency: None,
    };
    let chunk = Chunk::listed(app, SendId(clock::new_id()), 0, clock::now(), Arc::new(send));
    let (planned, facts) = database(operations.store.sends().simulate_facts(chunk)).await?;
    let template = planned.template.as_ref().and_then(|version| Template::compile(&version.channels).ok());
    let decided = decide_chunk(&planned, &facts, template.as_ref());
    let channels = decided.into_iter().next().map(|(_, decision)| channels(&decision)).unwrap_or_default();
    Ok(Now { category: like.category.map(str::to_owned), channels })
}

fn channels(decision: &Decision) -> Vec<NowChannel> {
    Channel::ALL
        .iter()
        .filter_map(|&channel| {
            let skip = decision.skips.iter().find(|(skipped, _)| *skipped == channel);
            let is_sent = channel == Channel::InApp && decision.in_app
                || decision.deliveries.iter().any(|delivery| delivery.channel == channel);
            let reason = skip.map(|(_, reason)| *reason);
            (is_sent || reason.is_some()).then_some(NowChannel { channel, reason })
        })
        .collect()
}
