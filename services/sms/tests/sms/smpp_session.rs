use std::time::Duration;

use domain::Outcome;
use serde_json::json;
use service_kit::Tasks;
use sms::{Limits, SmsSender};
use stand_ins::outbox::Outbox;
use stand_ins::smsc::{Reaction, Rule, SmscSettings, SmscStandIn, Stage};
use stand_ins::tls::Authority;
use testkit::eventually;
use tokio::task::JoinSet;
use worker::Outbound;

use crate::fixture::{
    LIMIT, Line, TO, assert_answer, assert_sent, captures, limits, probe, smpp_settings, smsc, smsc_with,
};

#[tokio::test]
async fn one_session_carries_many_messages_within_its_window() {
    let (server, line) = smsc().await;
    let mut settings = smpp_settings(&server);
    settings["window"] = json!(4);
    let line = Line { provider: crate::fixture::provider("smpp", settings), ..line };
    let mut sends = JoinSet::new();
    for number in 0..200 {
        let (sender, provider) = (line.sender.clone(), line.provider.clone());
        sends.spawn(async move {
            let tasks = service_kit::Tasks::new();
            let (_nobody, receipts) = tokio::sync::mpsc::channel(1);
            Line { sender, provider, receipts, tasks }.send(TO, &format!("Hello {number}")).await
        });
    }
    for answer in sends.join_all().await {
        assert_sent(&answer);
    }
    assert_eq!((server.connections(), server.binds(), captures(server.outbox()).len()), (1, 1, 200));
    assert!(server.most_unanswered() <= 4);
}

#[tokio::test]
async fn unanswered_submissions_stay_within_the_window() {
    let limits =
        Limits { connecting: Duration::from_millis(1_500), response: Duration::from_secs(3), ..limits() };
    let (server, line) = smsc_with(SmscSettings::default(), limits).await;
    let mut settings = smpp_settings(&server);
    settings["window"] = json!(2);
    let line = Line { provider: crate::fixture::provider("smpp", settings), ..line };
    assert_sent(&line.send(TO, "first").await);
    server.script(Rule::new(Stage::Submit, Reaction::Stall).times(2));
    let answers =
        tokio::join!(line.send(TO, "1"), line.send(TO, "2"), line.send(TO, "3"), line.send(TO, "4"),);
    let answers = [answers.0, answers.1, answers.2, answers.3];
    let (unknown, busy): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.outcome == Outcome::Unknown);
    assert_eq!((unknown.len(), busy.len()), (2, 2), "{answers:?}");
    for answer in busy {
        assert_answer(answer, &Outcome::RETRY, "busy");
    }
    assert_eq!(server.submissions(), 3, "messages that end as `busy` are not submitted");
    assert_sent(&line.send(TO, "room again").await);
}

#[tokio::test]
async fn an_unavailable_message_centre_is_called_again() {
    let (server, line) = smsc().await;
    server.script(Rule::new(Stage::Bind, Reaction::CutBefore).times(2));
    let sent = async || {
        let answer = line.send(TO, "Hello").await;
        match answer.outcome {
            Outcome::Sent { .. } => Some(()),
            _ => {
                assert_answer(&answer, &Outcome::RETRY, "connect");
                None
            }
        }
    };
    eventually(LIMIT, "the session is bound", sent).await;
    assert_eq!((server.connections(), server.binds()), (3, 1));
    assert_eq!(captures(server.outbox()).len(), 1);

    let mut settings = smpp_settings(&server);
    settings["port"] = json!(local_servers::port::free().unwrap());
    assert_answer(&Line::new("smpp", settings).send(TO, "Hello").await, &Outcome::RETRY, "connect");
}

#[tokio::test]
async fn a_centre_at_a_private_address_is_not_called_unless_that_is_allowed() {
    let (server, line) = smsc().await;
    let strict = Outbound::new(false);
    for host in ["127.0.0.1", "localhost"] {
        let (sender, _receipts) = SmsSender::start(strict, None, limits(), Tasks::new()).unwrap();
        let mut settings = smpp_settings(&server);
        settings["host"] = json!(host);
        settings["security"] = json!("tls");
        let provider = crate::fixture::provider("smpp", settings);
        let guarded = probe(strict, &provider).await.unwrap_err();
        assert_answer(&guarded, &Outcome::PauseProvider, "not_public");
        let (_nobody, receipts) = tokio::sync::mpsc::channel(1);
        let answer = Line { sender, provider, receipts, tasks: Tasks::new() }.send(TO, "Hello").await;
        assert_answer(&answer, &Outcome::PauseProvider, "not_public");
    }
    assert_eq!(server.connections(), 0);
    drop(line);
}

#[tokio::test]
async fn no_password_or_message_is_sent_in_plaintext_unless_private_addresses_are_allowed() {
    let (server, line) = smsc().await;
    let strict = Outbound::new(false);
    for host in ["127.0.0.1", "smpp.example.com"] {
        let (sender, _receipts) = SmsSender::start(strict, None, limits(), Tasks::new()).unwrap();
        let mut settings = smpp_settings(&server);
        settings["host"] = json!(host);
        settings.as_object_mut().unwrap().remove("security");
        let provider = crate::fixture::provider("smpp", settings);
        let refused = probe(strict, &provider).await.unwrap_err();
        assert_answer(&refused, &Outcome::PauseProvider, "insecure_login");
        let (_nobody, receipts) = tokio::sync::mpsc::channel(1);
        let answer = Line { sender, provider, receipts, tasks: Tasks::new() }.send(TO, "Hello").await;
        assert_answer(&answer, &Outcome::PauseProvider, "insecure_login");
        assert!(answer.message.contains("security"), "{answer:?}");
    }
    assert_eq!(server.connections(), 0);
    drop(line);
}

#[tokio::test]
async fn a_lost_session_is_bound_again_before_it_is_needed() {
    let (server, line) = smsc().await;
    assert_sent(&line.send(TO, "Hello").await);
    server.script(Rule::new(Stage::Submit, Reaction::CutAfter));
    assert_eq!(line.send(TO, "Hello").await.outcome, Outcome::Unknown);
    let bound = async || (server.binds() == 2 && server.bound() == 1).then_some(());
    eventually(LIMIT, "the session is bound again", bound).await;
}

#[tokio::test]
async fn a_silent_message_centre_is_probed_and_disconnected() {
    let (server, line) = smsc().await;
    let mut settings = smpp_settings(&server);
    settings["enquireLinkSeconds"] = json!(1);
    let line = Line { provider: crate::fixture::provider("smpp", settings), ..line };
    assert_sent(&line.send(TO, "Hello").await);
    eventually(LIMIT, "two enquiries are answered", async || (server.enquiries() >= 2).then_some(())).await;
    assert_eq!(server.binds(), 1);
    server.script(Rule::new(Stage::EnquireLink, Reaction::Stall));
    let bound = async || (server.binds() == 2 && server.bound() == 1).then_some(());
    eventually(LIMIT, "another session is bound", bound).await;
}

#[tokio::test]
async fn enquiries_of_the_message_centre_are_answered() {
    let settings = SmscSettings { enquire_link: Duration::from_millis(50), ..SmscSettings::default() };
    let (server, line) = smsc_with(settings, limits()).await;
    assert_sent(&line.send(TO, "Hello").await);
    let answered = async || (server.enquiries_answered() >= 3).then_some(());
    eventually(LIMIT, "three enquiries are answered", answered).await;
    assert_sent(&line.send(TO, "Hello").await);
    assert_eq!(server.binds(), 1);
}

#[tokio::test]
async fn changed_settings_open_a_new_session_and_a_stop_unbinds() {
    let (server, mut line) = smsc().await;
    assert_sent(&line.send(TO, "Hello").await);
    line.provider.version = 2;
    line.provider.settings["from"] = json!("Shop");
    assert_sent(&line.send(TO, "Hello").await);
    eventually(LIMIT, "the old session unbinds", async || (server.unbinds() == 1).then_some(())).await;
    assert_eq!((server.binds(), captures(server.outbox())[0].from.as_str()), (2, "Shop"));
    let Line { sender, tasks, .. } = line;
    drop(sender);
    tasks.stop();
    tasks.finish().await.unwrap();
    assert_eq!((server.unbinds(), server.bound()), (2, 0), "every session ended with an unbind");
}

#[tokio::test]
async fn an_unused_session_is_unbound() {
    let limits = Limits { idle: Duration::from_millis(100), ..limits() };
    let (server, line) = smsc_with(SmscSettings::default(), limits).await;
    assert_sent(&line.send(TO, "Hello").await);
    tokio::select! {
        never = line.sender.reap() => match never {},
        () = eventually(LIMIT, "the session unbinds", async || (server.unbinds() == 1).then_some(())) => {}
    }
    assert_sent(&line.send(TO, "Hello").await);
    assert_eq!(server.binds(), 2);
}

#[tokio::test]
async fn nothing_is_written_for_a_cancelled_submission() {
    let (server, line) = smsc().await;
    server.script(Rule::new(Stage::Bind, Reaction::Stall));
    tokio::select! {
        biased;
        answer = line.send(TO, "given up") => panic!("{answer:?}"),
        () = eventually(LIMIT, "the bind stalls", async || (server.rules_left() == 0).then_some(())) => {}
    }
    // Another session can be bound only after the stalled bind has timed out.
    let sent = async || matches!(line.send(TO, "sent").await.outcome, Outcome::Sent { .. }).then_some(());
    eventually(LIMIT, "the session is bound", sent).await;
    let texts: Vec<_> = captures(server.outbox()).into_iter().map(|one| one.summary.text.unwrap()).collect();
    assert_eq!(texts, ["sent"]);
}

#[tokio::test]
async fn tls_requires_a_trusted_authority() {
    let authority = Authority::new().unwrap();
    let settings = SmscSettings { tls: Some(authority.server(&[])), ..SmscSettings::default() };
    let server = SmscStandIn::start(settings, Outbox::in_memory()).await.unwrap();
    let mut settings = smpp_settings(&server);
    settings["security"] = json!("tls");
    assert_answer(&Line::new("smpp", settings.clone()).send(TO, "Hello").await, &Outcome::RETRY, "connect");
    settings["caCertificate"] = json!(authority.pem());
    assert_sent(&Line::new("smpp", settings).send(TO, "Hello").await);
    assert_eq!(captures(server.outbox()).len(), 1);
}
