//! Decides for each recipient of a chunk which channels to use, and why the others are skipped.

use std::collections::HashSet;

use crate::content::Object;
use crate::send::Recipient;
use crate::{Channel, DeliveryId, Reason, SendId, UserNumber, profile};

/// Facts that are common to all recipients of a send.
#[derive(Clone, Debug)]
pub struct SendFacts<'a> {
    pub send_id: SendId,
    /// The only channels to use, if the send selects channels.
    pub selected: Option<&'a [Channel]>,
    /// Channels for which the template or the plain send has content.
    pub content: &'a [Channel],
    /// External channels for which the app has an enabled provider.
    pub providers: &'a [Channel],
    /// Kinds of the enabled mobile push providers: each serves the tokens of its own service.
    pub push_kinds: &'a [String],
}

/// A recipient that is a user of the app.
#[derive(Clone, Copy, Debug)]
pub struct Person<'a> {
    pub number: UserNumber,
    pub profile: &'a Object,
    /// Channels that the user turned off for the send's category, if preferences apply to it.
    pub turned_off: &'a [Channel],
    /// Endpoints of the unexpired web push subscriptions of the user's devices.
    pub endpoints: &'a [String],
}

impl SendFacts<'_> {
    /// Returns true if any provider serves the target. Push tokens start with the kind of provider that serves them.
    fn is_served(&self, channel: Channel, target: &str) -> bool {
        let service = target.split(':').next().unwrap_or_default();
        channel != Channel::MobilePush || self.push_kinds.iter().any(|kind| kind == service)
    }

    /// Returns the channels to decide on: all delivered ones and all that the send names.
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
}

/// A planned external delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedDelivery {
    /// Derived id: planning the send again yields the same one.
    pub id: DeliveryId,
    pub channel: Channel,
    /// The address, token or subscription.
    pub target: String,
}

/// Targets that a provider reported dead.
pub type Suppressed = HashSet<(Channel, String)>;

/// Decides for one recipient. Every delivered channel and every channel that the send names ends up in the deliveries,
/// in the inbox or in the skips.
#[must_use]
pub fn decide(
    facts: &SendFacts<'_>,
    recipient: &Recipient,
    person: Option<Person<'_>>,
    suppressed: &Suppressed,
) -> Decision {
    let mut decision = Decision {
        identifier: recipient.identifier.clone(),
        user: person.map(|person| person.number),
        in_app: false,
        deliveries: Vec::new(),
        skips: Vec::new(),
    };
    for channel in facts.channels() {
        match channel_targets(facts, channel, &recipient.identifier, person, suppressed) {
            Err(reason) => decision.skips.push((channel, reason)),
            Ok(_) if channel == Channel::InApp => decision.in_app = true,
            Ok((person, targets)) => {
                let delivery = |target: String| PlannedDelivery {
                    id: DeliveryId::derive(facts.send_id, person.number, channel, &target),
                    channel,
                    target,
                };
                decision.deliveries.extend(targets.into_iter().map(delivery));
            }
        }
    }
    decision
}

/// Decides for a recipient that was erased after the send was accepted: all channels are skipped, and the decision does
/// not identify the user.
#[must_use]
pub fn decide_erased(facts: &SendFacts<'_>) -> Decision {
    Decision {
        identifier: String::new(),
        user: None,
        in_app: false,
        deliveries: Vec::new(),
        skips: facts.channels().map(|channel| (channel, Reason::RecipientErased)).collect(),
    }
}

/// Returns the channels that cancelling a send stops for each recipient without a decision: the delivered ones among
/// those that the send selects, or all delivered ones.
#[must_use]
pub fn stoppable(selected: Option<&[Channel]>) -> Vec<Channel> {
    let channels = Channel::DELIVERED.into_iter();
    channels.filter(|channel| selected.is_none_or(|selected| selected.contains(channel))).collect()
}

/// Decides for a recipient without a decision when the request was cancelled.
#[must_use]
pub fn decide_cancelled(
    facts: &SendFacts<'_>,
    recipient: &Recipient,
    person: Option<Person<'_>>,
) -> Decision {
    let stopped = stoppable(facts.selected);
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
    }
}

/// Returns a person's targets on a channel (none for the inbox), or the reason to skip the channel.
fn channel_targets<'a>(
    facts: &SendFacts<'_>,
    channel: Channel,
    identifier: &str,
    person: Option<Person<'a>>,
    suppressed: &Suppressed,
) -> Result<(Person<'a>, Vec<String>), Reason> {
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
    if channel == Channel::InApp {
        return Ok((person, Vec::new()));
    }
    let mut targets = targets(channel, identifier, person.profile, person.endpoints);
    if targets.is_empty() {
        return Err(Reason::NoAddress);
    }
    targets.retain(|target| facts.is_served(channel, target));
    if targets.is_empty() {
        return Err(Reason::NoProvider);
    }
    targets.retain(|target| !suppressed.contains(&(channel, target.clone())));
    if targets.is_empty() { Err(Reason::Suppressed) } else { Ok((person, targets)) }
}

/// Returns the user's targets on an external channel, without those that are too long for a key of the ledger.
#[must_use]
pub fn targets(channel: Channel, identifier: &str, profile: &Object, endpoints: &[String]) -> Vec<String> {
    let mut targets: Vec<String> = match channel {
        Channel::Email => profile::email(identifier, profile).map(str::to_owned).into_iter().collect(),
        Channel::Sms => profile::phone(profile).map(str::to_owned).into_iter().collect(),
        Channel::MobilePush => profile::push_targets(profile).collect(),
        Channel::WebPush => endpoints.to_vec(),
        _ => Vec::new(),
    };
    targets.retain(|target| target.len() <= profile::MAX_TARGET);
    targets
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    const PLAIN: &[Channel] = &Channel::DELIVERED;

    fn facts<'a>(selected: Option<&'a [Channel]>, providers: &'a [Channel]) -> SendFacts<'a> {
        let send_id = SendId(Uuid::from_u128(1));
        SendFacts { send_id, selected, content: PLAIN, providers, push_kinds: fcm() }
    }

    fn fcm() -> &'static [String] {
        static FCM: LazyLock<[String; 1]> = LazyLock::new(|| ["fcm".to_owned()]);
        &*FCM
    }

    fn profile() -> Object {
        let profile = json!({"email": "ada@example.com", "phoneNumber": "+4915112345678", "fcm": {"tokens": ["a", "b"]}});
        profile.as_object().cloned().unwrap()
    }

    fn plan(facts: &SendFacts<'_>, turned_off: &[Channel], suppressed: &Suppressed) -> Decision {
        let profile = profile();
        let person = Person { number: UserNumber(5), profile: &profile, turned_off, endpoints: &[] };
        decide(facts, &Recipient::plain("ada".into()), Some(person), suppressed)
    }

    fn reason(decision: &Decision, channel: Channel) -> Option<Reason> {
        decision.skips.iter().find(|(skipped, _)| *skipped == channel).map(|(_, reason)| *reason)
    }

    #[test]
    fn a_plain_send_uses_every_channel_with_a_provider_and_an_address() {
        let decision = plan(
            &facts(None, &[Channel::Email, Channel::MobilePush, Channel::WebPush]),
            &[],
            &Suppressed::new(),
        );
        assert!(decision.in_app);
        let targets: Vec<_> = decision.deliveries.iter().map(|delivery| delivery.target.as_str()).collect();
        assert_eq!(targets, ["ada@example.com", "fcm:a", "fcm:b"]);
        assert_eq!(
            decision.skips,
            [(Channel::WebPush, Reason::NoAddress), (Channel::Sms, Reason::NoProvider)]
        );
    }

    #[test]
    fn an_unknown_recipient_gets_nothing() {
        let decision = decide(
            &facts(None, &[Channel::Email]),
            &Recipient::plain("eve".into()),
            None,
            &Suppressed::new(),
        );
        assert!(!decision.in_app && decision.deliveries.is_empty());
        assert_eq!(reason(&decision, Channel::InApp), Some(Reason::RecipientUnknown));
        assert_eq!(reason(&decision, Channel::Email), Some(Reason::RecipientUnknown));
        assert_eq!(reason(&decision, Channel::Sms), Some(Reason::NoProvider));
    }

    #[test]
    fn tokens_that_no_provider_serves_are_not_planned() {
        let profile = json!({"fcm": {"tokens": ["a"]}, "apns": {"tokens": ["b"]}});
        let profile = profile.as_object().unwrap();
        let person = Person { number: UserNumber(5), profile, endpoints: &[], turned_off: &[] };
        let planned = |kinds: &[&str], dead: &[&str]| {
            let kinds: Vec<_> = kinds.iter().map(ToString::to_string).collect();
            let dead = dead.iter().map(|target| (Channel::MobilePush, target.to_string())).collect();
            let facts = SendFacts { push_kinds: &kinds, ..facts(None, &[Channel::MobilePush]) };
            let decision = decide(&facts, &Recipient::plain("ada".into()), Some(person), &dead);
            let targets: Vec<_> =
                decision.deliveries.iter().map(|delivery| delivery.target.clone()).collect();
            (targets.join(" "), reason(&decision, Channel::MobilePush))
        };
        assert_eq!(planned(&["fcm", "apns"], &[]), ("fcm:a apns:b".to_owned(), None));
        assert_eq!(planned(&["apns"], &[]), ("apns:b".to_owned(), None));
        assert_eq!(planned(&["another"], &[]), (String::new(), Some(Reason::NoProvider)));
        assert_eq!(planned(&["apns"], &["apns:b"]), (String::new(), Some(Reason::Suppressed)));
    }

    #[test]
    fn an_overlong_token_is_no_target() {
        let profile = json!({"fcm": {"tokens": ["a", "b".repeat(profile::MAX_TARGET)]}});
        let targets = targets(Channel::MobilePush, "ada", profile.as_object().unwrap(), &[]);
        assert_eq!(targets, ["fcm:a"]);
    }

    #[test]
    fn each_browser_gets_its_own_delivery_except_dead_ones() {
        let profile = profile();
        let endpoints = ["https://a", "https://b", "https://c"].map(str::to_owned);
        let providers = [Channel::WebPush];
        let person =
            |off| Person { number: UserNumber(5), profile: &profile, turned_off: off, endpoints: &endpoints };
        let dead = |dead: &[&str]| dead.iter().map(|&target| (Channel::WebPush, target.to_owned())).collect();
        let decide = |off, suppressed: &Suppressed| {
            decide(&facts(None, &providers), &Recipient::plain("ada".into()), Some(person(off)), suppressed)
        };
        let decision = decide(&[], &dead(&["https://b"]));
        let targets: Vec<_> = decision.deliveries.iter().map(|delivery| delivery.target.as_str()).collect();
        assert_eq!(targets, ["https://a", "https://c"]);
        assert_ne!(decision.deliveries[0].id, decision.deliveries[1].id);
        let decision = decide(&[], &dead(&["https://a", "https://b", "https://c"]));
        assert_eq!(reason(&decision, Channel::WebPush), Some(Reason::Suppressed));
        let decision = decide(&[Channel::WebPush], &Suppressed::new());
        assert_eq!(reason(&decision, Channel::WebPush), Some(Reason::PreferenceOff));
    }

    #[test]
    fn an_erased_recipient_is_skipped_on_every_channel_and_not_identified() {
        let selected = [Channel::Email, Channel::Slack];
        let decision = decide_erased(&facts(Some(&selected), &[Channel::Email]));
        assert_eq!((decision.identifier.as_str(), decision.user, decision.in_app), ("", None, false));
        assert!(decision.deliveries.is_empty());
        let channels: Vec<_> = Channel::DELIVERED.into_iter().chain([Channel::Slack]).collect();
        assert_eq!(decision.skips.iter().map(|(channel, _)| *channel).collect::<Vec<_>>(), channels);
        assert!(decision.skips.iter().all(|(_, reason)| *reason == Reason::RecipientErased));
    }

    #[test]
    fn preferences_selection_and_suppression_each_record_their_reason() {
        let selected = [Channel::Email, Channel::Slack, Channel::Sms];
        let dead = Suppressed::from([(Channel::Sms, "+4915112345678".to_owned())]);
        let decision =
            plan(&facts(Some(&selected), &[Channel::Email, Channel::Sms]), &[Channel::Email], &dead);
        assert_eq!(
            decision.skips,
            [
                (Channel::InApp, Reason::NotSelected),
                (Channel::Email, Reason::PreferenceOff),
                (Channel::WebPush, Reason::NotSelected),
                (Channel::MobilePush, Reason::NotSelected),
                (Channel::Sms, Reason::Suppressed),
                (Channel::Slack, Reason::ChannelUnavailable),
            ]
        );
    }

    fn channels() -> impl Strategy<Value = Vec<Channel>> {
        prop::sample::subsequence(Channel::ALL, 0..Channel::ALL.len())
    }

    proptest! {
        #[test]
        fn every_channel_is_accounted_for_once_and_planning_is_deterministic(
            selected in prop::option::of(channels()), content in channels(), providers in channels(), off in channels(), known: bool,
            endpoints in prop::collection::vec("[a-z]{1,4}", 0..3),
        ) {
            let profile = profile();
            let person = known.then_some(Person {
                number: UserNumber(5), profile: &profile, turned_off: &off, endpoints: &endpoints,
            });
            let facts = SendFacts {
                send_id: SendId(Uuid::from_u128(1)), selected: selected.as_deref(), content: &content, providers: &providers,
                push_kinds: fcm(),
            };
            let recipient = Recipient::plain("ada".into());
            let decision = decide(&facts, &recipient, person, &Suppressed::new());
            prop_assert_eq!(&decision, &decide(&facts, &recipient, person, &Suppressed::new()));
            let cancelled = decide_cancelled(&facts, &recipient, person);
            let stopped = cancelled.skips.iter().filter(|(_, reason)| *reason == Reason::RequestCancelled).count();
            prop_assert_eq!(stopped, stoppable(selected.as_deref()).len());
            let accounted = |decision: &Decision| {
                let sent = decision.deliveries.iter().map(|delivery| delivery.channel);
                let skipped = decision.skips.iter().map(|(channel, _)| *channel);
                let in_app = decision.in_app.then_some(Channel::InApp);
                sent.chain(skipped).chain(in_app).collect::<HashSet<_>>()
            };
            prop_assert_eq!(accounted(&cancelled), accounted(&decision));
            for channel in Channel::DELIVERED {
                let delivered = decision.deliveries.iter().any(|delivery| delivery.channel == channel);
                let in_inbox = channel == Channel::InApp && decision.in_app;
                let skipped = decision.skips.iter().filter(|(skipped, _)| *skipped == channel).count();
                prop_assert_eq!(usize::from(delivered) + usize::from(in_inbox) + skipped, 1, "{}", channel);
                if off.contains(&channel) || !content.contains(&channel) {
                    prop_assert!(!delivered && !in_inbox);
                }
            }
        }
    }
}
