use std::time::Duration;

use domain::content::SmsContent;
use domain::event::DeliveryJob;
use domain::{Outcome, Timestamp};
use serde_json::json;
use stand_ins::http::{Reaction, Rule, status};
use stand_ins::twilio::refusal;
use testkit::eventually;

use crate::fixture::{
    LIMIT, Line, NOW, TO, assert_answer, assert_sent, captures, job, only, short, twilio, twilio_settings,
    twilio_within,
};

fn form(raw: &[u8]) -> Vec<(String, String)> {
    url::form_urlencoded::parse(raw).into_owned().collect()
}

#[tokio::test]
async fn a_message_has_the_parameters_of_twilios_api() {
    let (server, line) = twilio().await;
    let hello = SmsContent { text: "Grüße & 5 €".to_owned(), from: None };
    let expires_at = Some(NOW + Duration::from_secs(600));
    let order = DeliveryJob { expires_at, attempt: 3, ..job(TO, hello) };
    let answer = line.send_job(&order).await;
    let Outcome::Sent { provider_id: Some(sid) } = &answer.outcome else { panic!("{answer:?}") };
    let callback = "https://notify.example.com/v3/callbacks/twilio/1/main/00000000-0000-0000-0000-000000000007?attempt=3";
    assert_eq!(server.callback_of(sid).as_deref(), Some(callback));
    let fields = [
        ("To", TO),
        ("Body", "Grüße & 5 €"),
        ("From", "+15005550006"),
        ("StatusCallback", callback),
        ("ValidityPeriod", "600"),
    ];
    let captured = captures(server.outbox()).remove(0);
    assert_eq!(form(&captured.raw), fields.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[tokio::test]
async fn the_validity_period_stays_within_twilios_limits() {
    let (server, line) = twilio().await;
    for (expires_at, seconds) in [(1, "1"), (90_000_000_000, "14400")] {
        let expires_at = Some(Timestamp::from_millis(NOW.millis() + expires_at));
        let hello = SmsContent { text: "Hello".to_owned(), from: None };
        assert_sent(&line.send_job(&DeliveryJob { expires_at, ..job(TO, hello) }).await);
        let captured = captures(server.outbox()).remove(0);
        assert!(form(&captured.raw).contains(&("ValidityPeriod".to_owned(), seconds.to_owned())));
    }
}

#[tokio::test]
async fn a_send_may_add_twilio_parameters_but_not_change_recipient_or_text() {
    let (server, line) = twilio().await;
    let with = |members: serde_json::Value| {
        let members = members.as_object().unwrap().clone();
        let hello = SmsContent { text: "Hello".to_owned(), from: None };
        DeliveryJob { overrides: [("main".to_owned(), members)].into(), ..job(TO, hello) }
    };
    let order = with(json!({"_config": {"from": "Shop"}, "MaxPrice": 0.5, "SmartEncoded": true}));
    assert_sent(&line.send_job(&order).await);
    let captured = captures(server.outbox()).remove(0);
    let fields = form(&captured.raw);
    for (name, value) in [("From", "Shop"), ("MaxPrice", "0.5"), ("SmartEncoded", "true")] {
        assert!(fields.contains(&(name.to_owned(), value.to_owned())), "{name}: {fields:?}");
    }
    for member in ["To", "from", "Body", "MessagingServiceSid", "StatusCallback", "ApplicationSid"] {
        let answer = line.send_job(&with(json!({member: "x"}))).await;
        assert_answer(&answer, &Outcome::Failed, "override");
    }
    let others =
        DeliveryJob { overrides: [("other".to_owned(), order.overrides["main"].clone())].into(), ..order };
    assert_sent(&line.send_job(&others).await);
    assert_eq!(captures(server.outbox())[0].from, "+15005550006");
}

#[tokio::test]
async fn an_api_key_logs_in_and_a_messaging_service_sends() {
    let (server, _) = twilio().await;
    let mut settings = twilio_settings(&server);
    let (key, secret) = server.settings().api_key.clone();
    let service = server.settings().services[0].clone();
    settings["authToken"] = json!(null);
    settings["apiKey"] = json!(key);
    settings["apiSecret"] = json!(secret);
    settings["from"] = json!(null);
    settings["messagingServiceSid"] = json!(service);
    let answer = Line::new("twilio", settings).send(TO, "Hello").await;
    assert_eq!(only(server.outbox()).0, service);
    let Outcome::Sent { provider_id: Some(sid) } = answer.outcome else { panic!("{answer:?}") };
    assert_eq!(server.callback_of(&sid), None, "without the account's token, callbacks cannot be verified");
}

#[tokio::test]
async fn a_forbidden_number_does_not_affect_other_numbers() {
    use domain::outcome::Blame;
    let (server, line) = twilio().await;
    for (code, blame) in
        [(21408, Blame::None), (21608, Blame::None), (30034, Blame::None), (20003, Blame::Usual)]
    {
        server.script(Rule::answer(refusal(400, code, "no")));
        let answer = line.send(TO, "Hello").await;
        assert_eq!((&answer.outcome, answer.blame), (&Outcome::PauseProvider, blame), "{code}");
    }
}

#[tokio::test]
async fn a_wrong_token_is_an_account_problem() {
    let (server, _) = twilio().await;
    let mut settings = twilio_settings(&server);
    settings["authToken"] = json!("wrong");
    let answer = Line::new("twilio", settings).send(TO, "Hello").await;
    assert_answer(&answer, &Outcome::PauseProvider, "20003");
}

#[tokio::test]
async fn possibly_accepted_messages_are_unknown_and_unaccepted_ones_are_retried() {
    for (reaction, code, taken) in [
        (Reaction::CutBefore, "connection_lost", 0),
        (Reaction::CutAfter, "connection_lost", 1),
        (Reaction::Answer(status(500)), "500", 0),
        (Reaction::Answer(status(503)), "503", 0),
        (Reaction::Answer(refusal(503, 20503, "Service unavailable")), "20503", 0),
        (Reaction::Answer(refusal(500, 20429, "Too many, or not")), "20429", 0),
    ] {
        let (server, line) = twilio().await;
        server.script(Rule::new(reaction.clone()));
        let answer = line.send(TO, "Hello").await;
        assert_answer(&answer, &Outcome::Unknown, code);
        assert_eq!(answer.segments, Some(1), "the message may have been sent");
        assert_eq!(captures(server.outbox()).len(), taken, "{reaction:?}");
        assert_eq!(server.requests(), 1, "the provider is called once: {reaction:?}");
    }
    let (server, line) = twilio_within(short()).await;
    server.script(Rule::new(Reaction::Stall));
    assert_answer(&line.send(TO, "Hello").await, &Outcome::Unknown, "timeout");

    let mut settings = twilio_settings(&server);
    settings["baseUrl"] = json!(format!("http://127.0.0.1:{}", local_servers::port::free().unwrap()));
    let answer = Line::new("twilio", settings).send(TO, "Hello").await;
    assert_answer(&answer, &Outcome::RETRY, "connect");
}

#[tokio::test]
async fn numbers_in_twilios_texts_are_not_recorded() {
    let (server, line) = twilio().await;
    server.script(Rule::answer(refusal(
        400,
        21211,
        &format!("'To' number {TO} is not valid\r\n{}", &TO[1..]),
    )));
    let answer = line.send(TO, "Hello").await;
    assert_answer(&answer, &Outcome::GONE, "21211");
    assert_eq!(answer.message, "'To' number [recipient] is not valid[recipient]");
    server.script(Rule::answer(refusal(400, 21617, "The body 'Your code is 493817' is odd")));
    let answer = line.send(TO, "Your code is 493817").await;
    assert_eq!(answer.message, "The body '[recipient]' is odd");
}

#[tokio::test]
async fn hosts_that_are_not_public_are_not_called() {
    let (server, line) = twilio().await;
    let strict = worker::Outbound::new(false);
    let limits = crate::fixture::limits();
    let (sender, _receipts) = sms::SmsSender::start(strict, None, limits, service_kit::Tasks::new()).unwrap();
    let mut line = Line { sender, ..line };
    for base in [server.url(), "https://localhost:9".to_owned()] {
        line.provider.settings["baseUrl"] = json!(base);
        assert_answer(&line.send(TO, "Hello").await, &Outcome::PauseProvider, "not_public");
    }
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn a_dropped_call_is_not_made_again() {
    let (server, line) = twilio().await;
    server.script(Rule::new(Reaction::Stall));
    let asked = async || (server.requests() == 1).then_some(());
    tokio::select! {
        answer = line.send(TO, "Hello") => panic!("{answer:?}"),
        () = eventually(LIMIT, "the stand-in received the request", asked) => {}
    }
    assert_sent(&line.send(TO, "Hello").await);
    assert_eq!((server.requests(), captures(server.outbox()).len()), (2, 1));
}
