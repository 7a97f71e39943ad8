use super::*;

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn pair(channel: Channel, status: Status, reason: Option<Reason>) -> PairFacts {
    PairFacts {
        channel,
        status,
        reason,
        target: None,
        provider: None,
        planned_at: Some(at("2026-11-29T10:02:03.128Z")),
        wait: None,
        attempts: Vec::new(),
        item: None,
        suppression: None,
    }
}

fn facts(pairs: Vec<PairFacts>) -> Facts {
    let accepted_at = at("2026-11-29T10:02:03.120Z");
    Facts { who: "Ada".to_owned(), accepted_at, send_at: None, cancelled_at: None, pairs }
}

fn attempt(code: &str, message: &str) -> AttemptFacts {
    AttemptFacts {
        number: 1,
        started_at: at("2026-11-29T10:02:03.137Z"),
        ended_at: at("2026-11-29T10:02:03.447Z"),
        provider: Some("main".to_owned()),
        code: code.to_owned(),
        message: message.to_owned(),
        receipt: None,
    }
}

/// The example of the specification.
fn order_mail() -> Facts {
    let read = ItemFacts {
        seen_at: Some(at("2026-11-29T10:03:00.000Z")),
        read_at: Some(at("2026-11-29T10:04:12.000Z")),
        deleted_at: None,
    };
    let suppression = SuppressionFacts {
        target: "a***@example.com".to_owned(),
        code: "550 5.1.1".to_owned(),
        since: at("2026-11-29T10:02:03.447Z"),
    };
    facts(vec![
        PairFacts { item: Some(read), ..pair(Channel::InApp, Status::Delivered, None) },
        PairFacts {
            provider: Some("main".to_owned()),
            attempts: vec![attempt("550 5.1.1", "5.1.1 no such user")],
            suppression: Some(suppression),
            ..pair(Channel::Email, Status::Failed, Some(Reason::TargetGone))
        },
        pair(Channel::WebPush, Status::Skipped, Some(Reason::NoAddress)),
        pair(Channel::Sms, Status::Skipped, Some(Reason::PreferenceOff)),
    ])
}

#[test]
fn the_verdict_says_what_the_person_got_and_what_is_missing_and_why() {
    let story = tell(&order_mail());
    assert_eq!(
        story.verdict,
        "Ada has the inbox item. Ada read it at 10:04:12 UTC. The email did not arrive: main reports the address of Ada as \
         dead. main answered attempt 1: \"550 5.1.1 no such user\". a***@example.com is suppressed since 10:02:03 UTC, after \
         the answer \"550 5.1.1\". No text message: Ada turned this channel off for the category."
    );
    let email = &story.channels[1];
    assert_eq!(email.anchor, "failed-target_gone");
    assert_eq!(email.fix.as_ref().unwrap().action.as_deref(), Some("tidings suppression lift"));
    assert_eq!(story.channels[0].fix, None);
}

#[test]
fn events_say_how_long_each_step_waited_and_took() {
    let events = tell(&order_mail()).events;
    let texts: Vec<_> = events.iter().map(|event| event.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "the API accepted the send",
            "inApp yes, email yes, webPush no_address, sms preference_off",
            "attempt 1: main answered \"550 5.1.1\"",
            "seen in the inbox",
            "read in the inbox"
        ]
    );
    assert_eq!((events[1].waited_ms, events[2].waited_ms, events[2].took_ms), (Some(8), Some(9), Some(310)));
}

#[test]
fn durations_are_never_negative() {
    let early = AttemptFacts { ended_at: at("2026-11-29T09:00:00.000Z"), ..attempt("250", "ok") };
    let sent = pair(Channel::Email, Status::Sent, None);
    let told = tell(&facts(vec![PairFacts { attempts: vec![early], ..sent }]));
    assert_eq!(told.events[2].took_ms, Some(0));
}

#[test]
fn a_reason_that_all_channels_share_is_told_once() {
    let unknown = |channel| pair(channel, Status::Skipped, Some(Reason::RecipientUnknown));
    let story = tell(&facts(Channel::DELIVERED.map(unknown).to_vec()));
    assert_eq!(story.verdict, "Ada got nothing: Ada was no user of the app when the send was planned.");
    let erased = |channel| pair(channel, Status::Skipped, Some(Reason::RecipientErased));
    assert_eq!(tell(&facts(Channel::DELIVERED.map(erased).to_vec())).verdict, "The user was erased.");
}

#[test]
fn a_waiting_delivery_names_the_provider_the_code_and_the_next_attempt() {
    let wait = WaitFacts { code: Some("535".to_owned()), next_attempt_at: at("2026-11-30T00:00:05.000Z") };
    let waiting = PairFacts {
        provider: Some("main".to_owned()),
        wait: Some(wait),
        ..pair(Channel::Email, Status::Waiting, Some(Reason::BreakerOpen))
    };
    assert_eq!(
        tell(&facts(vec![waiting])).verdict,
        "The email waits: main keeps failing, and Tidings calls it again later. Its last answer was \"535\". Next attempt: \
         2026-11-30 00:00:05 UTC."
    );
}

#[test]
fn several_browsers_are_one_channel_of_which_the_best_is_told() {
    let push = |status, reason| pair(Channel::WebPush, status, reason);
    let gone = push(Status::Failed, Some(Reason::TargetGone));
    let story = tell(&facts(vec![gone.clone(), push(Status::Sent, None), gone]));
    assert_eq!(story.channels.len(), 1);
    assert_eq!(story.channels[0].pairs, [0, 1, 2]);
    assert_eq!(story.verdict, "The provider accepted the browser push. This is so for 1 of 3 browsers.");
}

#[test]
fn the_words_of_a_provider_are_quoted_on_one_line_and_shortened() {
    let words = format!("bad\r\n\"<b>\"{}", "x".repeat(500));
    let refused = PairFacts {
        attempts: vec![attempt("554", &words)],
        ..pair(Channel::Email, Status::Failed, Some(Reason::ProviderRefused))
    };
    let verdict = tell(&facts(vec![refused])).verdict;
    assert!(verdict.contains("main answered attempt 1: \"554 bad  '<b>'xxx"), "{verdict}");
    assert!(verdict.len() < 400 && !verdict.contains('\n'), "{verdict}");
}
