use std::time::Duration;

use domain::Outcome;
use domain::content::SmsContent;
use domain::outcome::RetryLimit;
use domain::sms::twilio::{TABLE, is_about_sender, of_undelivered};
use serde_json::json;
use sms::answers::{FAMILIES, family};
use stand_ins::http::{Rule, json as answer_with, status};
use stand_ins::twilio::refusal;

use crate::fixture::{TO, assert_answer, assert_sent, captures, twilio};

const ONCE: Outcome =
    Outcome::Retry { after: None, limit: Some(RetryLimit { retries: 1, over: Duration::from_secs(600) }) };
const TWICE: Outcome =
    Outcome::Retry { after: None, limit: Some(RetryLimit { retries: 2, over: Duration::from_secs(86_400) }) };
const Z: Outcome = Outcome::PauseProvider;
const R: Outcome = Outcome::RETRY;
const D: Outcome = Outcome::GONE;
const P: Outcome = Outcome::Failed;

/// A case for each row of [`TABLE`]: HTTP status, code and outcome.
const CASES: &[(u16, u32, Outcome)] = &[
    (401, 20003, Z),
    (401, 20005, Z),
    (403, 20008, Z),
    (404, 20404, Z),
    (400, 30002, Z),
    (400, 21408, Z),
    (400, 21608, Z),
    (400, 21212, Z),
    (400, 21603, Z),
    (400, 21606, Z),
    (400, 21659, Z),
    (400, 21660, Z),
    (400, 21701, Z),
    (400, 21703, Z),
    (400, 30032, Z),
    (400, 30034, Z),
    (429, 20429, R),
    (429, 21611, R),
    (400, 30001, R),
    (400, 30022, R),
    (400, 30008, ONCE),
    (400, 30003, TWICE),
    (400, 21211, D),
    (400, 21614, D),
    (400, 21635, D),
    (400, 30005, D),
    (400, 30006, D),
    (400, 21610, D),
    (400, 30004, P),
    (400, 30007, P),
    (400, 21612, P),
    (400, 21602, P),
    (400, 21617, P),
    (400, 30019, P),
];

#[tokio::test]
async fn every_code_of_the_table_has_its_outcome() {
    let (server, line) = twilio().await;
    for (status, code, outcome) in CASES {
        server.script(Rule::answer(refusal(*status, *code, "as said")));
        let answer = line.send(TO, "Hello").await;
        assert_answer(&answer, outcome, &code.to_string());
        assert_eq!((answer.message.as_str(), answer.segments), ("as said", None));
        assert_eq!(of_undelivered(Some(*code)), *outcome, "in a status callback");
    }
    assert!(captures(server.outbox()).is_empty());
    for (code, outcome) in TABLE {
        let case = CASES.iter().find(|case| case.1 == *code);
        assert_eq!(case.map(|case| &case.2), Some(outcome), "no case for {code}");
    }
    assert_eq!(TABLE.len(), CASES.len(), "each code has one case");
    assert_sent(&line.send(TO, "Hello").await);
}

#[tokio::test]
async fn a_refused_sender_chosen_by_the_send_does_not_count_against_the_provider() {
    let (server, line) = twilio().await;
    for (status, code, outcome) in CASES {
        server.script(Rule::answer(refusal(*status, *code, "as said")));
        let content = SmsContent { text: "Hello".to_owned(), from: Some("Other".to_owned()) };
        let expected = if is_about_sender(*code) { &P } else { outcome };
        assert_answer(&line.send_content(TO, content).await, expected, &code.to_string());
    }
}

/// A case for each row of [`FAMILIES`]: the row, the HTTP status and the outcome.
const STATUSES: &[(&str, u16, Outcome)] = &[
    ("401", 401, Z),
    ("403", 403, Z),
    ("408", 408, R),
    ("429", 429, R),
    ("3xx", 302, P),
    ("4xx", 400, P),
    ("4xx", 404, P),
    ("4xx", 418, P),
    ("5xx", 500, Outcome::Unknown),
    ("5xx", 504, Outcome::Unknown),
];

#[tokio::test]
async fn an_unknown_code_counts_as_its_status() {
    let (server, line) = twilio().await;
    for (pattern, code, outcome) in STATUSES {
        assert_eq!(family(*code).unwrap().0, *pattern);
        server.script(Rule::answer(status(*code)));
        assert_answer(&line.send(TO, "Hello").await, outcome, &code.to_string());
        server.script(Rule::answer(refusal(*code, 99_999, "new")));
        assert_answer(&line.send(TO, "Hello").await, outcome, "99999");
    }
    for (pattern, _) in FAMILIES {
        assert!(STATUSES.iter().any(|case| case.0 == *pattern), "no case for {pattern}");
    }
    assert_eq!(of_undelivered(Some(99_999)), P);
    assert_eq!(of_undelivered(None), P);
}

#[tokio::test]
async fn a_retry_waits_as_long_as_twilio_asks() {
    let (server, line) = twilio().await;
    for mut response in [status(429), refusal(429, 20429, "Too many requests")] {
        response.headers_mut().insert("retry-after", "17".parse().unwrap());
        server.script(Rule::answer(response));
        let waits = Outcome::Retry { after: Some(Duration::from_secs(17)), limit: None };
        assert_eq!(line.send(TO, "Hello").await.outcome, waits);
    }
}

#[tokio::test]
async fn a_success_status_counts_regardless_of_the_body() {
    let (server, line) = twilio().await;
    for (response, id) in [
        (status(201), None),
        (answer_with(200, &json!({"sid": "SM1", "status": "accepted"})), Some("SM1")),
        (answer_with(201, &json!({"sid": "not\r\nan id"})), None),
        (answer_with(201, &json!(["odd"])), None),
    ] {
        server.script(Rule::answer(response));
        let answer = line.send(TO, "Hello").await;
        assert_eq!(answer.outcome, Outcome::Sent { provider_id: id.map(str::to_owned) });
    }
}

#[tokio::test]
async fn a_success_status_that_twilio_does_not_use_needs_an_id_to_count() {
    let (server, line) = twilio().await;
    let login_page = answer_with(200, &json!("<html>Sign in to the network</html>"));
    for response in
        [login_page, status(204), answer_with(200, &json!({"sid": ""})), answer_with(202, &json!([]))]
    {
        server.script(Rule::answer(response));
        assert_answer(&line.send(TO, "Hello").await, &Outcome::Unknown, "no_sid");
    }
}

#[tokio::test]
async fn twilios_magic_numbers_have_the_same_effect_here() {
    let (_server, line) = twilio().await;
    for (to, outcome, code) in [
        ("+15005550001", D, "21211"),
        ("+15005550002", P, "21612"),
        ("+15005550003", Z, "21408"),
        ("+15005550004", D, "21610"),
        ("+15005550009", D, "21614"),
    ] {
        assert_answer(&line.send(to, "Hello").await, &outcome, code);
    }
    for (from, outcome, code) in
        [("+15005550001", P, "21212"), ("+15005550007", P, "21606"), ("+15005550008", R, "21611")]
    {
        let content = SmsContent { text: "Hello".to_owned(), from: Some(from.to_owned()) };
        assert_answer(&line.send_content(TO, content).await, &outcome, code);
    }
    assert_answer(&line.send(TO, &"a".repeat(1601)).await, &P, "21617");
    assert_sent(&line.send("+15005550006", "Hello").await);
}
