//! Checks of a send against the app's providers: what a provider's kind or settings refuse is refused before the send is accepted.

use crate::OperationError;
use crate::waiting::database;
use domain::content::PushContent;
use domain::mobile_push::{self, apns};
use domain::overrides::PushOverride;
use domain::{AppId, Channel, EmailAddress, Problem, SendRequest, allowed_senders, provider_override};
use serde_json::Value;
use store::control::provider::ProviderSummary;

use crate::Sends;

impl Sends {
    /// Returns the problems of `override` that depend on the app's providers: members that a provider's kind does not accept, senders
    /// and topics that no provider of the channel accepts, pushes that are too large for a provider's push service, and with
    /// `strict` providers that the app does not have. Reads the providers only if `override` has such members.
    pub(crate) async fn provider_problems(
        &self,
        app: AppId,
        send: &SendRequest,
        strict: bool,
    ) -> Result<Vec<Problem>, OperationError> {
        let from = sender(send);
        let push = send.overrides.push(Channel::MobilePush).map(|push| (push, least_content(send, push)));
        let push = push.filter(|(push, content)| depends_on_provider(push, content));
        if send.overrides.providers.is_empty() && from.is_none() && push.is_none() {
            return Ok(Vec::new());
        }
        let known = database(self.store.control().list_providers(app)).await?;
        let mut problems = Vec::new();
        for (named, members) in &send.overrides.providers {
            match known.iter().find(|provider| provider.identifier == *named) {
                Some(provider) => {
                    let path = format!("override.{named}");
                    provider_override::check(provider.channel, &provider.kind, &path, members, &mut problems);
                    problems.extend(own_sender_problem(provider, &path, members.get("_config")));
                }
                None if strict => problems.push(unknown_provider(named)),
                None => {}
            }
        }
        let of_channel =
            |channel| known.iter().filter(move |provider| provider.enabled && provider.channel == channel);
        if let Some(from) = from {
            // A provider with a sender of its own in the send does not use this one.
            let mut using =
                of_channel(Channel::Email).filter(|provider| !has_own_sender(send, provider)).peekable();
            let is_used = using.peek().is_some();
            if is_used && !using.any(|provider| allowed_senders::may_send_as(&provider.settings, &from)) {
                problems.push(sender_not_allowed("override.channel.email.from"));
            }
        }
        if let Some((push, content)) = push {
            problems.extend(topic_problem(push, of_channel(Channel::MobilePush)));
            problems.extend(size_problem(&content, of_channel(Channel::MobilePush)));
        }
        Ok(problems)
    }
}

/// Returns the sender that the send sets for all email providers, if it may use email.
fn sender(send: &SendRequest) -> Option<EmailAddress> {
    let from = send.overrides.email()?.options.from.as_deref()?;
    let may_use = send.channels.as_ref().is_none_or(|channels| channels.contains(&Channel::Email));
    if may_use { EmailAddress::parse(from).ok() } else { None }
}

fn has_own_sender(send: &SendRequest, provider: &ProviderSummary) -> bool {
    let config =
        send.overrides.providers.get(&provider.identifier).and_then(|members| members.get("_config"));
    config.and_then(|config| config.get("from")).is_some_and(Value::is_string)
}

fn own_sender_problem(provider: &ProviderSummary, path: &str, config: Option<&Value>) -> Option<Problem> {
    let from = EmailAddress::parse(config?.get("from")?.as_str()?).ok()?;
    let is_refused =
        provider.channel == Channel::Email && !allowed_senders::may_send_as(&provider.settings, &from);
    is_refused.then(|| sender_not_allowed(&format!("{path}._config.from")))
}

/// Returns the part of a push that is known before templates and recipients are: the override, and the send's own title, with which
/// the push is shown.
fn least_content(send: &SendRequest, push: &PushOverride) -> PushContent {
    let alone = push.alone();
    PushContent { title: alone.title.or_else(|| send.content.title.clone()), ..alone }
}

fn depends_on_provider(push: &PushOverride, content: &PushContent) -> bool {
    let is_too_large = |service| mobile_push::too_large(content, service).is_some();
    topic(push).is_some() || mobile_push::SERVICES.into_iter().any(is_too_large)
}

fn topic(push: &PushOverride) -> Option<String> {
    let headers = apns::headers(push.options.get("apns")?.as_object()?)?;
    headers.get("apns-topic").map(apns::header_text)
}

fn topic_problem<'a>(
    push: &PushOverride,
    providers: impl Iterator<Item = &'a ProviderSummary>,
) -> Option<Problem> {
    let named = topic(push)?;
    let topics: Vec<&str> = providers
        .filter(|provider| provider.kind == "apns")
        .filter_map(|provider| provider.settings.get("topic")?.as_str())
        .collect();
    if topics.is_empty() || topics.iter().any(|topic| apns::serves_topic(topic, &named)) {
        return None;
    }
    let path = format!("{}.apns.headers.apns-topic", mobile_push::PATH);
    let message = format!("{path} must be the topic of a provider of the app, or begin with it and a dot");
    Some(Problem::new(path, "invalid_header", message))
}

fn size_problem<'a>(
    content: &PushContent,
    mut providers: impl Iterator<Item = &'a ProviderSummary>,
) -> Option<Problem> {
    let answer = providers.find_map(|provider| mobile_push::too_large(content, &provider.kind))?;
    let path = mobile_push::PATH;
    let message = format!("{path} does not fit into a push, shorten data: {}", answer.message);
    Some(Problem::new(path, "too_long", message))
}

fn sender_not_allowed(path: &str) -> Problem {
    let message =
        format!("{path} is not allowed by the settings (allowedFrom) of any provider that would use it");
    Problem::new(path, "sender_not_allowed", message)
}

fn unknown_provider(identifier: &str) -> Problem {
    let field = format!("override.{identifier}");
    let message =
        format!("{field} is neither a member of override nor the identifier of a provider of the app");
    Problem::new(field, "unknown_member", message)
}
