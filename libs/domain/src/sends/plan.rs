//! Decides for each recipient of a chunk which channels to use, and why the other channels are skipped.

use std::collections::HashSet;

use crate::content::Object;
use crate::profile::NoAddress;
use crate::send::Recipient;
use crate::{Channel, DeliveryId, DeliveryIds, EmailAddress, Reason, SendId, UserNumber, profile};

/// Facts that are common to all recipients of a send.
#[derive(Clone, Debug)]
pub struct SendFacts<'a> {
    pub send_id: SendId,
    /// Derivation of the ids of the send's deliveries.
    pub ids: DeliveryIds,
    /// The only channels to use, if the send selects channels.
    pub selected: Option<&'a [Channel]>,
    /// Channels for which the send has content, from its template, its own fields or its overrides.
    pub content: &'a [Channel],
    /// External channels for which the app has an enabled provider.
    pub providers: &'a [Channel],
    /// Kinds of the enabled mobile push providers (`fcm`, `apns`). A provider serves only push tokens of the same kind.
    pub push_kinds: &'a [String],
}

/// A recipient that is a user of the app.
#[derive(Clone, Copy, Debug)]
pub struct Person<'a> {
    pub number: UserNumber,
    pub profile: &'a Object,
    /// Channels that the user turned off for the send's category; empty if preferences do not apply to the category.
    pub turned_off: &'a [Channel],
    /// The only channels that the user's subscriptions to the send's topics allow; None if they allow all, or do not apply.
    pub topic_channels: Option<&'a [Channel]>,
    /// Endpoints of the unexpired web push subscriptions of the user's devices.
    pub endpoints: &'a [String],
}

impl SendFacts<'_> {
    /// Returns true if any provider serves the target. Push tokens start with the kind of provider that serves them.
    fn is_served(&self, channel: Channel, target: &str) -> bool {
        let service = target.split(':').next().unwrap_or_default();
        channel != Channel::MobilePush || self.push_kinds.iter().any(|kind| kind == service)
    }

    /// Returns the channels to decide on: those on which Tidings sends messages, and those that the send names.
    fn channels(&self) -> impl Iterator<Item = Channel> {
        let named = |channel| self.selected.is_some_and(|selected| selected.contains(&channel));
        Channel::ALL.iter().copied().filter(move |&channel| channel.is_delivered() || named(channel))
    }
}

/// The decision for one recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The recipient's identifier in the send; empty for an erased user.
    pub identifier: String,
    /// The user; None if the app has no user with this identifier, or the user was erased.
    pub user: Option<UserNumber>,
    /// True if the inbox gets an item.
    pub in_app: bool,
    pub deliveries: Vec<PlannedDelivery>,
    /// The skipped channels and their reasons, in the order of [`Channel::ALL`].
    pub skips: Vec<(Channel, Reason)>,
    /// Variables of the template that the send and the profile lack for the recipient. Those of the profile begin with `recipient.`.
    pub missing: Vec<String>,
}

/// A planned external delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedDelivery {
    /// Derived id: if the send is planned again, the delivery gets the same id.
    pub id: DeliveryId,
    pub channel: Channel,
    /// The address, token or subscription.
    pub target: String,
}

/// A target of a user on an external channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The address, token or subscription in the form in which it is stored and sent to.
    pub text: String,
    /// The text in the user's profile, if it differs. The ids of deliveries are derived from it, because earlier releases stored
    /// and sent to that text.
    pub written: Option<String>,
}

impl Target {
    /// Forms of the target in suppressions: this release's, and further ones that earlier releases wrote and that the database
    /// cannot compare with it.
    pub fn spellings(&self, channel: Channel) -> impl Iterator<Item = String> {
        let address = (channel == Channel::Email).then(|| EmailAddress::parse(&self.text).ok()).flatten();
        let unicode = address.and_then(|address| address.with_unicode_domain());
        std::iter::once(self.text.clone()).chain(unicode)
    }
}

impl From<String> for Target {
    fn from(text: String) -> Target {
        Target { text, written: None }
    }
}

/// Targets that a provider reported dead.
pub type SuppressedTargets = HashSet<(Channel, String)>;

/// Decides for one recipient. For every channel on which Tidings sends messages, and every other channel that the send names, the
/// decision contains deliveries, an inbox item or a skip.
#[must_use]
pub fn decide_recipient(
    facts: &SendFacts<'_>,
    recipient: &Recipient,
    person: Option<Person<'_>>,
    suppressed: &SuppressedTargets,
) -> Decision {
    let mut decision = Decision {
        identifier: recipient.identifier.clone(),
        user: person.map(|person| person.number),
        in_app: false,
        deliveries: Vec::new(),
        skips: Vec::new(),
        missing: Vec::new(),
    };
    for channel in facts.channels() {
        match channel_targets(facts, channel, &recipient.identifier, person, suppressed) {
            Err(reason) => decision.skips.push((channel, reason)),
            Ok(_) if channel == Channel::InApp => decision.in_app = true,
            Ok((person, targets)) => {
                let delivery = |target: Target| PlannedDelivery {
                    id: facts.ids.derive(
                        facts.send_id,
                        person.number,
                        channel,
                        target.written.as_ref().unwrap_or(&target.text),
                    ),
                    channel,
                    target: target.text,
                };
                decision.deliveries.extend(targets.into_iter().map(delivery));
            }
        }
    }
    decision
}

/// Decides for a recipient who was erased after the send was accepted. All channels are skipped, and the decision does not
/// identify the user.
#[must_use]
pub fn decide_erased(facts: &SendFacts<'_>) -> Decision {
    Decision {
        identifier: String::new(),
        user: None,
        in_app: false,
        deliveries: Vec::new(),
        skips: facts.channels().map(|channel| (channel, Reason::RecipientErased)).collect(),
        missing: Vec::new(),
    }
}

/// Returns the channels that a cancellation skips for a recipient without a decision: all channels on which Tidings sends
/// messages or, if the send selects channels, only the selected ones among them.
#[must_use]
pub fn cancellable_channels(selected: Option<&[Channel]>) -> Vec<Channel> {
    let channels = Channel::DELIVERED.into_iter();
    channels.filter(|channel| selected.is_none_or(|selected| selected.contains(channel))).collect()
}

/// Decides for a recipient who had no decision when the request was cancelled: all channels are skipped.
#[must_use]
pub fn decide_cancelled(
    facts: &SendFacts<'_>,
    recipient: &Recipient,
    person: Option<Person<'_>>,
) -> Decision {
    let stopped = cancellable_channels(facts.selected);
    let reason = |channel: Channel| {
        if !channel.is_delivered() {
            Reason::ChannelUnavailable
        } else if stopped.contains(&channel) {
            Reason::RequestCancelled
        } else {
            Reason::NotSelected
        }
    };
    Decision {
        identifier: recipient.identifier.clone(),
        user: person.map(|person| person.number),
        in_app: false,
        deliveries: Vec::new(),
        skips: facts.channels().map(|channel| (channel, reason(channel))).collect(),
        missing: Vec::new(),
    }
}

/// Returns the person and their targets on a channel, or the reason to skip the channel. The in-app channel has no targets.
fn channel_targets<'a>(
    facts: &SendFacts<'_>,
    channel: Channel,
    identifier: &str,
    person: Option<Person<'a>>,
    suppressed: &SuppressedTargets,
) -> Result<(Person<'a>, Vec<Target>), Reason> {
    if facts.selected.is_some_and(|selected| !selected.contains(&channel)) {
        return Err(Reason::NotSelected);
    }
    if !channel.is_delivered() {
        return Err(Reason::ChannelUnavailable);
    }
    if !facts.content.contains(&channel) {
        return Err(Reason::NoContent);
    }
    if channel != Channel::InApp && !facts.providers.contains(&channel) {
        return Err(Reason::NoProvider);
    }
    let person = person.ok_or(Reason::RecipientUnknown)?;
    if person.turned_off.contains(&channel) {
        return Err(Reason::PreferenceOff);
    }
    if person.topic_channels.is_some_and(|allowed| !allowed.contains(&channel)) {
        return Err(Reason::TopicChannelOff);
    }
    if channel == Channel::InApp {
        return Ok((person, Vec::new()));
    }
    let mut targets = targets(channel, identifier, person.profile, person.endpoints).map_err(Reason::from)?;
    targets.retain(|target| facts.is_served(channel, &target.text));
    if targets.is_empty() {
        return Err(Reason::NoProvider);
    }
    targets.retain(|target| !suppressed.contains(&(channel, target.text.clone())));
    if targets.is_empty() { Err(Reason::Suppressed) } else { Ok((person, targets)) }
}

/// Returns the user's targets on an external channel, without those longer than [`MAX_TARGET`](profile::MAX_TARGET).
///
/// # Errors
/// Returns the reason if there is no target.
pub fn targets(
    channel: Channel,
    identifier: &str,
    profile: &Object,
    endpoints: &[String],
) -> Result<Vec<Target>, NoAddress> {
    let mut targets: Vec<Target> = match channel {
        Channel::Email => {
            let found = profile::email(identifier, profile)?;
            let text = found.address.to_string();
            let written = (found.written != text).then(|| found.written.to_owned());
            vec![Target { text, written }]
        }
        Channel::Sms => vec![profile::phone(profile)?.to_string().into()],
        Channel::MobilePush => profile::push_targets(profile).map(Target::from).collect(),
        Channel::WebPush => endpoints.iter().cloned().map(Target::from).collect(),
        _ => Vec::new(),
    };
    targets.retain(|target| target.text.len() <= profile::MAX_TARGET);
    if targets.is_empty() { Err(NoAddress::Absent) } else { Ok(targets) }
}

#[cfg(test)]
mod tests;
