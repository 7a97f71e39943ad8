use std::time::Duration;

use domain::content::SmsContent;
use domain::{Outcome, Route};
use serde_json::json;
use sms::SmsSender;
use stand_ins::http::{Reaction, Rule, half_answer, json as answer_with, status};
use stand_ins::sms_http::TOKEN;
use worker::Outbound;

use crate::fixture::{
    Line, TO, assert_answer, assert_sent, captures, http, http_settings, http_within, job, limits, only,
    probe, short, twilio,
};

const TEXT: &str = "A \"quote\", {to}, 50 % & more\n=\\ Ж";

#[tokio::test]
async fn calls_can_be_json_a_form_or_a_query() {
    let (server, _) = http().await;
    let url = server.url();
    let by_query = format!("{url}/messages?to={{to}}&from={{from}}&text={{text}}");
    for change in [
        json!({}),
        json!({"contentType": "application/x-www-form-urlencoded", "body": "to={to}&from={from}&text={text}"}),
        json!({"method": "GET", "body": null, "url": by_query}),
        json!({"method": "PUT"}),
    ] {
        let mut settings = http_settings(&server);
        settings.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let answer = Line::new("http", settings).send(TO, TEXT).await;
        let Outcome::Sent { provider_id: Some(_) } = &answer.outcome else { panic!("{change}: {answer:?}") };
        assert_eq!(only(server.outbox()), ("Shop".to_owned(), TO.to_owned(), TEXT.to_owned()), "{change}");
        server.outbox().clear().unwrap();
    }
}

#[tokio::test]
async fn the_code_of_an_answer_takes_precedence_over_its_status() {
    let (server, line) = http().await;
    let z = Outcome::PauseProvider;
    for (status, code, outcome) in [
        (400, "invalid_number", Outcome::GONE),
        (402, "no_credit", z.clone()),
        (400, "busy", Outcome::RETRY),
        (500, "spam", Outcome::Failed),
        (400, "odd", Outcome::Unknown),
        (409, "duplicate", Outcome::Sent { provider_id: None }),
        // A success status with a code that means failure.
        (200, "no_credit", z),
        // Codes that the settings do not list.
        (400, "new", Outcome::Failed),
        (503, "new", Outcome::Unknown),
    ] {
        server.script(Rule::answer(answer_with(status, &json!({"error": {"code": code}}))));
        assert_answer(&line.send(TO, "Hello").await, &outcome, code);
    }
    let body = json!({"error": {"code": 7}, "about": TO});
    server.script(Rule::answer(answer_with(429, &body)));
    let answer = line.send(TO, "Hello").await;
    assert_answer(&answer, &Outcome::RETRY, "7");
    assert!(answer.message.contains("[recipient]") && !answer.message.contains(&TO[1..]), "{answer:?}");
    assert_answer(&line.send("+15005550001", "Hello").await, &Outcome::GONE, "invalid_number");
}

#[tokio::test]
async fn a_truncated_refusal_is_unknown_if_its_code_could_mean_sent() {
    let (server, _) = http().await;
    for (codes, idempotent, outcome) in [
        (json!({"duplicate": "sent"}), false, Outcome::Unknown),
        (json!({"odd": "unknown"}), false, Outcome::Unknown),
        (json!({"odd": "unknown"}), true, Outcome::REPEAT),
        (json!({"busy": "retry"}), false, Outcome::RETRY),
    ] {
        let (url, serving) = half_answer(400).await.unwrap();
        let mut settings = http_settings(&server);
        for (member, value) in [("url", json!(url)), ("codes", codes), ("idempotent", json!(idempotent))] {
            settings[member] = value;
        }
        let line = Line::new("http", settings);
        let (served, answer) = tokio::join!(serving, line.send(TO, "Hello"));
        served.unwrap();
        assert_answer(&answer, &outcome, "cut_short");
    }
}

#[tokio::test]
async fn the_success_statuses_can_be_configured() {
    let (server, _) = http().await;
    let mut settings = http_settings(&server);
    settings["successStatuses"] = json!([202]);
    let line = Line::new("http", settings);
    assert_sent(&line.send(TO, "Hello").await);
    server.script(Rule::answer(status(200)));
    assert_answer(&line.send(TO, "Hello").await, &Outcome::Unknown, "200");
}

#[tokio::test]
async fn a_retry_waits_as_long_as_the_provider_asks() {
    let (server, line) = http().await;
    let mut response = status(429);
    response.headers_mut().insert("retry-after", "17".parse().unwrap());
    server.script(Rule::answer(response));
    let waits = Outcome::Retry { after: Some(Duration::from_secs(17)), limit: None };
    assert_eq!(line.send(TO, "Hello").await.outcome, waits);
}

#[tokio::test]
async fn possibly_accepted_messages_are_unknown_unless_calls_may_be_repeated() {
    for idempotent in [false, true] {
        let open = if idempotent { Outcome::REPEAT } else { Outcome::Unknown };
        for (reaction, code, taken) in [
            (Reaction::CutBefore, "connection_lost", 0),
            (Reaction::CutAfter, "connection_lost", 1),
            (Reaction::Answer(status(502)), "502", 0),
            (Reaction::Stall, "timeout", 0),
        ] {
            let is_stalled = matches!(reaction, Reaction::Stall);
            let (server, line) = http_within(if is_stalled { short() } else { limits() }).await;
            let mut settings = http_settings(&server);
            settings["idempotent"] = json!(idempotent);
            let line = Line { provider: crate::fixture::provider("http", settings), ..line };
            server.script(Rule::new(reaction.clone()));
            assert_answer(&line.send(TO, "Hello").await, &open, code);
            assert_eq!(captures(server.outbox()).len(), taken, "{reaction:?}");
            if idempotent {
                assert_sent(&line.send(TO, "Hello").await);
                let captured = captures(server.outbox());
                assert_eq!(captured.len(), 1, "calls with the same key create one message: {reaction:?}");
                let key = &captured[0].summary.headers["idempotency-key"];
                assert_eq!(key, &["00000000-0000-0000-0000-000000000007"]);
            }
        }
    }
    let (server, _) = http().await;
    let mut settings = http_settings(&server);
    settings["url"] = json!(format!("http://127.0.0.1:{}/", local_servers::port::free().unwrap()));
    assert_answer(&Line::new("http", settings).send(TO, "Hello").await, &Outcome::RETRY, "connect");
}

#[tokio::test]
async fn possibly_accepted_messages_are_not_repeated_after_the_provider_changed() {
    let (server, line) = http().await;
    let mut asked_again = job(TO, SmsContent { text: "Hello".to_owned(), from: None });
    asked_again.route = Route { only: Some("main".to_owned()), keyed: true, ..Route::default() };
    assert_answer(&line.send_job(&asked_again).await, &Outcome::Unknown, "provider_changed");
    let (twilio, changed) = twilio().await;
    assert_answer(&changed.send_job(&asked_again).await, &Outcome::Unknown, "provider_changed");
    assert_eq!((server.requests(), twilio.requests()), (0, 0));

    let mut settings = http_settings(&server);
    settings["idempotent"] = true.into();
    assert_sent(&Line::new("http", settings).send_job(&asked_again).await);
    assert_sent(&line.send(TO, "Hello").await);
}

#[tokio::test]
async fn a_conflict_means_that_the_first_call_is_in_progress_if_calls_have_keys() {
    for (idempotent, outcome) in [(true, Outcome::REPEAT), (false, Outcome::Failed)] {
        let (server, _) = http().await;
        let mut settings = http_settings(&server);
        settings["idempotent"] = idempotent.into();
        server.script(Rule::answer(status(409)));
        assert_answer(&Line::new("http", settings).send(TO, "Hello").await, &outcome, "409");
    }
}

#[tokio::test]
async fn redirects_are_not_followed_and_wrong_credentials_are_account_problems() {
    let (server, line) = http().await;
    let mut response = status(307);
    response.headers_mut().insert("location", format!("{}/messages", server.url()).parse().unwrap());
    server.script(Rule::answer(response));
    assert_answer(&line.send(TO, "Hello").await, &Outcome::Failed, "307");
    assert_eq!(server.requests(), 1);
    let mut settings = http_settings(&server);
    settings["secretHeaders"] = json!({"authorization": format!("Bearer not-{TOKEN}")});
    let answer = Line::new("http", settings).send(TO, "Hello").await;
    assert_answer(&answer, &Outcome::PauseProvider, "unauthorized");
}

#[tokio::test]
async fn credentials_are_sent_only_over_https_unless_private_addresses_are_allowed() {
    let (_server, line) = http().await;
    let tasks = service_kit::Tasks::new();
    let (sender, _receipts) = SmsSender::start(Outbound::new(false), None, limits(), tasks).unwrap();
    let mut line = Line { sender, ..line };
    line.provider.settings["url"] = json!("http://sms.example.com/messages");
    line.provider.settings["probeUrl"] = json!("http://sms.example.com/balance");
    let answer = line.send(TO, "Hello").await;
    assert_answer(&answer, &Outcome::PauseProvider, "insecure_url");
    assert!(answer.message.contains("https"), "{answer:?}");
    let probed = probe(Outbound::new(false), &line.provider).await.unwrap_err();
    assert_answer(&probed, &Outcome::PauseProvider, "insecure_url");
}

#[tokio::test]
async fn message_text_in_a_providers_answer_is_not_recorded() {
    let (server, line) = http().await;
    let text = "Your \"code\":\n493817, for Ada";
    let code_alone = json!({"about": "cut: 493817"});
    for body in [
        json!({"text": text, "from": "TideShop", "to": TO}),
        code_alone,
        json!("text=Your+%22code%22%3A%0A493817%2C+for+Ada"),
    ] {
        server.script(Rule::answer(answer_with(400, &body)));
        let content = SmsContent { text: text.to_owned(), from: Some("TideShop".to_owned()) };
        let answer = line.send_content(TO, content).await;
        assert_answer(&answer, &Outcome::Failed, "400");
        for part in ["493817", "Ada", "TideShop", &TO[1..]] {
            assert!(!answer.message.contains(part), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_secret_is_inserted_into_the_call_and_not_recorded_if_the_answer_repeats_it() {
    let (server, mut line) = http().await;
    line.provider.settings["secrets"] = json!({"ref": "k3y&\"x"});
    line.provider.settings["body"] =
        json!(r#"{"to":"{to}","from":"{from}","text":"{text}","ref":"{secret:ref}"}"#);
    assert_sent(&line.send(TO, "Hello").await);
    server.script(Rule::answer(answer_with(400, &json!({"about": "no k3y&\"x here"}))));
    let answer = line.send(TO, "Hello").await;
    assert!(!answer.message.contains("k3y"), "{answer:?}");
}

#[tokio::test]
async fn a_forbidden_number_does_not_count_against_the_provider() {
    let (server, line) = http().await;
    server.script(Rule::answer(answer_with(403, &json!({}))));
    let answer = line.send(TO, "Hello").await;
    assert_eq!((answer.outcome, answer.blame), (Outcome::PauseProvider, domain::outcome::Blame::User));
}
