use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use super::*;

const PLAIN: &[Channel] = &Channel::DELIVERED;

fn facts<'a>(selected: Option<&'a [Channel]>, providers: &'a [Channel]) -> SendFacts<'a> {
    let send_id = SendId(Uuid::from_u128(1));
    SendFacts { send_id, ids: DeliveryIds::Hashed, selected, content: PLAIN, providers, push_kinds: fcm() }
}

fn fcm() -> &'static [String] {
    static FCM: LazyLock<[String; 1]> = LazyLock::new(|| ["fcm".to_owned()]);
    &*FCM
}

fn profile() -> Object {
    let profile =
        json!({"email": "ada@example.com", "phoneNumber": "+4915112345678", "fcm": {"tokens": ["a", "b"]}});
    profile.as_object().cloned().unwrap()
}

fn plan(facts: &SendFacts<'_>, turned_off: &[Channel], suppressed: &SuppressedTargets) -> Decision {
    let profile = profile();
    let person =
        Person { number: UserNumber(5), profile: &profile, turned_off, topic_channels: None, endpoints: &[] };
    decide_recipient(facts, &Recipient::plain("ada".into()), Some(person), suppressed)
}

fn reason(decision: &Decision, channel: Channel) -> Option<Reason> {
    decision.skips.iter().find(|(skipped, _)| *skipped == channel).map(|(_, reason)| *reason)
}

#[test]
fn a_plain_send_uses_every_channel_with_a_provider_and_an_address() {
    let decision = plan(
        &facts(None, &[Channel::Email, Channel::MobilePush, Channel::WebPush]),
        &[],
        &SuppressedTargets::new(),
    );
    assert!(decision.in_app);
    let targets: Vec<_> = decision.deliveries.iter().map(|delivery| delivery.target.as_str()).collect();
    assert_eq!(targets, ["ada@example.com", "fcm:a", "fcm:b"]);
    assert_eq!(decision.skips, [(Channel::WebPush, Reason::NoAddress), (Channel::Sms, Reason::NoProvider)]);
}

fn planned(profile: &serde_json::Value) -> Decision {
    let profile = profile.as_object().unwrap();
    let person =
        Person { number: UserNumber(5), profile, turned_off: &[], topic_channels: None, endpoints: &[] };
    let facts = facts(None, &[Channel::Email, Channel::Sms]);
    decide_recipient(&facts, &Recipient::plain("ada".into()), Some(person), &SuppressedTargets::new())
}

#[test]
fn addresses_are_normalised_and_a_malformed_one_has_its_own_reason() {
    let decision =
        planned(&json!({"email": " Ada@B\u{fc}cher.Example ", "phoneNumber": "+49 (0)151 123 456-78"}));
    let targets: Vec<_> = decision.deliveries.iter().map(|delivery| delivery.target.as_str()).collect();
    assert_eq!(targets, ["Ada@xn--bcher-kva.example", "+4915112345678"]);
    let decision = planned(&json!({"email": "Ada <ada@x.example>", "phoneNumber": "0151 12345678"}));
    assert_eq!(reason(&decision, Channel::Email), Some(Reason::InvalidAddress));
    assert_eq!(reason(&decision, Channel::Sms), Some(Reason::InvalidAddress));
    let decision = planned(&json!({"email": "", "name": "Ada"}));
    assert_eq!(reason(&decision, Channel::Email), Some(Reason::NoAddress));
    assert_eq!(reason(&decision, Channel::Sms), Some(Reason::NoAddress));
}

#[test]
fn the_id_of_a_delivery_follows_from_the_text_that_earlier_releases_sent_to() {
    let decision = planned(&json!({"email": "Ada@B\u{fc}cher.Example"}));
    let before = DeliveryIds::Hashed.derive(
        SendId(Uuid::from_u128(1)),
        UserNumber(5),
        Channel::Email,
        "Ada@B\u{fc}cher.Example",
    );
    assert_eq!(decision.deliveries[0].id, before);
}

#[test]
fn an_unknown_recipient_gets_nothing() {
    let decision = decide_recipient(
        &facts(None, &[Channel::Email]),
        &Recipient::plain("eve".into()),
        None,
        &SuppressedTargets::new(),
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
    let person =
        Person { number: UserNumber(5), profile, topic_channels: None, endpoints: &[], turned_off: &[] };
    let planned = |kinds: &[&str], dead: &[&str]| {
        let kinds: Vec<_> = kinds.iter().map(ToString::to_string).collect();
        let dead = dead.iter().map(|target| (Channel::MobilePush, target.to_string())).collect();
        let facts = SendFacts { push_kinds: &kinds, ..facts(None, &[Channel::MobilePush]) };
        let decision = decide_recipient(&facts, &Recipient::plain("ada".into()), Some(person), &dead);
        let targets: Vec<_> = decision.deliveries.iter().map(|delivery| delivery.target.clone()).collect();
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
    assert_eq!(targets, Ok(vec!["fcm:a".to_owned().into()]));
}

#[test]
fn each_browser_gets_its_own_delivery_except_dead_ones() {
    let profile = profile();
    let endpoints = ["https://a", "https://b", "https://c"].map(str::to_owned);
    let providers = [Channel::WebPush];
    let person = |off| Person {
        number: UserNumber(5),
        profile: &profile,
        turned_off: off,
        topic_channels: None,
        endpoints: &endpoints,
    };
    let dead = |dead: &[&str]| dead.iter().map(|&target| (Channel::WebPush, target.to_owned())).collect();
    let decide_recipient = |off, suppressed: &SuppressedTargets| {
        decide_recipient(
            &facts(None, &providers),
            &Recipient::plain("ada".into()),
            Some(person(off)),
            suppressed,
        )
    };
    let decision = decide_recipient(&[], &dead(&["https://b"]));
    let targets: Vec<_> = decision.deliveries.iter().map(|delivery| delivery.target.as_str()).collect();
    assert_eq!(targets, ["https://a", "https://c"]);
    assert_ne!(decision.deliveries[0].id, decision.deliveries[1].id);
    let decision = decide_recipient(&[], &dead(&["https://a", "https://b", "https://c"]));
    assert_eq!(reason(&decision, Channel::WebPush), Some(Reason::Suppressed));
    let decision = decide_recipient(&[Channel::WebPush], &SuppressedTargets::new());
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
    let dead = SuppressedTargets::from([(Channel::Sms, "+4915112345678".to_owned())]);
    let decision = plan(&facts(Some(&selected), &[Channel::Email, Channel::Sms]), &[Channel::Email], &dead);
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

#[test]
fn subscriptions_limit_the_channels_that_preferences_leave() {
    let profile = profile();
    let person = Person {
        number: UserNumber(5),
        profile: &profile,
        turned_off: &[Channel::InApp],
        topic_channels: Some(&[Channel::InApp, Channel::Sms]),
        endpoints: &[],
    };
    let facts = facts(None, &[Channel::Email, Channel::Sms]);
    let decision =
        decide_recipient(&facts, &Recipient::plain("ada".into()), Some(person), &SuppressedTargets::new());
    assert!(!decision.in_app);
    assert_eq!(
        decision.deliveries.iter().map(|delivery| delivery.channel).collect::<Vec<_>>(),
        [Channel::Sms]
    );
    assert_eq!(
        decision.skips,
        [
            (Channel::InApp, Reason::PreferenceOff),
            (Channel::Email, Reason::TopicChannelOff),
            (Channel::WebPush, Reason::NoProvider),
            (Channel::MobilePush, Reason::NoProvider),
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
            number: UserNumber(5), profile: &profile, turned_off: &off, topic_channels: None, endpoints: &endpoints,
        });
        let facts = SendFacts {
            ids: DeliveryIds::Hashed,
            send_id: SendId(Uuid::from_u128(1)), selected: selected.as_deref(), content: &content, providers: &providers,
            push_kinds: fcm(),
        };
        let recipient = Recipient::plain("ada".into());
        let decision = decide_recipient(&facts, &recipient, person, &SuppressedTargets::new());
        prop_assert_eq!(&decision, &decide_recipient(&facts, &recipient, person, &SuppressedTargets::new()));
        let cancelled = decide_cancelled(&facts, &recipient, person);
        let stopped = cancelled.skips.iter().filter(|(_, reason)| *reason == Reason::RequestCancelled).count();
        prop_assert_eq!(stopped, cancellable_channels(selected.as_deref()).len());
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
