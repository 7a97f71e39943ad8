//! Success statuses whose bodies do not say that the message was accepted.

use bytes::Bytes;
use domain::Outcome;
use serde_json::{Value, json};
use stand_ins::http::{Rule, json as answer_with, status};
use stand_ins::sms_http::SmsHttpStandIn;

use crate::fixture::{Line, TO, assert_answer, assert_sent, http, http_settings};

const PAGE: &str = "<!doctype html><title>Log in</title>";

fn text(code: u16, body: impl Into<Bytes>) -> Rule {
    let mut response = status(code);
    *response.body_mut() = body.into();
    Rule::answer(response)
}

fn answer(code: u16, body: &Value) -> Rule {
    Rule::answer(answer_with(code, body))
}

/// Creates a line whose settings have these members instead of those for codes.
fn line(server: &SmsHttpStandIn, members: &Value) -> Line {
    let mut settings = http_settings(server);
    let all = settings.as_object_mut().unwrap();
    for member in ["idPointer", "codePointer", "codes"] {
        all.remove(member);
    }
    all.extend(members.as_object().unwrap().clone());
    Line::new("http", settings)
}

fn only_zero() -> Value {
    json!({"idPointer": "/id", "codePointer": "/code", "codes": {"0": "sent"}})
}

#[tokio::test]
async fn an_answer_that_the_codes_do_not_list_is_no_success() {
    let (server, _) = http().await;
    let codes_of_refusals = json!({"codePointer": "/code", "codes": {"0": "sent", "9": "pause_provider"}});
    for members in [only_zero(), codes_of_refusals] {
        let line = line(&server, &members);
        for (rule, code) in [
            (answer(200, &json!({"code": 4})), "4"),
            (answer(202, &json!({"code": "4", "id": "m-1"})), "4"),
            (answer(200, &json!({"id": null})), "200"),
            (answer(200, &json!([])), "200"),
            (text(200, "ERROR:14"), "200"),
            (text(200, PAGE), "200"),
            (text(200, "{\"code\": 0"), "200"),
            (text(200, ""), "200"),
            (text(204, ""), "204"),
        ] {
            server.script(rule);
            // The provider may have accepted the message: no provider gets it again.
            assert_answer(&line.send(TO, "Hello").await, &Outcome::Unknown, code);
        }
        server.script(answer(200, &json!({"code": 0})));
        assert_sent(&line.send(TO, "Hello").await);
    }
    let line = line(&server, &only_zero());
    server.script(answer(200, &json!({"id": "m-1"})));
    assert_answer(&line.send(TO, "Hello").await, &Outcome::Unknown, "200");
}

#[tokio::test]
async fn the_settings_decide_on_other_codes_and_on_answers_without_a_code() {
    let (server, _) = http().await;
    let mut members = only_zero();
    members["otherCodes"] = json!("retry");
    members["withoutCode"] = json!("failed");
    let line = line(&server, &members);
    for (rule, outcome, code) in [
        (answer(200, &json!({"code": 4})), Outcome::RETRY, "4"),
        (answer(200, &json!({"id": "m-1"})), Outcome::Failed, "200"),
        (text(200, PAGE), Outcome::Failed, "200"),
    ] {
        server.script(rule);
        assert_answer(&line.send(TO, "Hello").await, &outcome, code);
    }
    let mut repeatable = only_zero();
    repeatable["idempotent"] = json!(true);
    let line = self::line(&server, &repeatable);
    server.script(answer(200, &json!({"code": 4})));
    assert_answer(&line.send(TO, "Hello").await, &Outcome::REPEAT, "4");
}

#[tokio::test]
async fn codes_of_refusals_leave_other_answers_to_the_id_or_the_status() {
    let (server, _) = http().await;
    let refusals = json!({"codePointer": "/error", "codes": {"9": "pause_provider"}});
    let with_id =
        json!({"idPointer": "/id", "codePointer": "/error", "codes": {"9": "pause_provider", "8": "sent"}});
    for (members, body, is_sent) in [
        (refusals.clone(), json!({"id": "m-1"}), true),
        (refusals.clone(), json!({"error": 7}), false),
        (with_id.clone(), json!({"id": "m-1"}), true),
        (with_id.clone(), json!({}), false),
        (json!({}), json!({"error": 7}), true),
        (json!({"idPointer": "/id"}), json!({}), true),
        (json!({"idPointer": "/id", "requireId": true}), json!({}), false),
        (json!({"idPointer": "/id", "requireId": true}), json!({"id": 7}), true),
    ] {
        server.script(answer(200, &body));
        let got = line(&server, &members).send(TO, "Hello").await;
        let has_sent = matches!(got.outcome, Outcome::Sent { .. });
        assert_eq!((has_sent, got.outcome == Outcome::Unknown), (is_sent, !is_sent), "{members} {body}");
    }
    for members in [refusals, with_id, json!({"idPointer": "/id"})] {
        server.script(text(200, PAGE));
        let got = line(&server, &members).send(TO, "Hello").await;
        assert_answer(&got, &Outcome::Unknown, "200");
    }
}

#[tokio::test]
async fn a_long_pointer_into_a_deep_answer_is_followed_without_recursion() {
    let (server, _) = http().await;
    let pointer = "/0".repeat(100);
    let line = line(&server, &json!({"idPointer": pointer, "requireId": true}));
    let nested = |depth: usize| format!("{}\"m-1\"{}", "[".repeat(depth), "]".repeat(depth));
    server.script(text(200, nested(100)));
    let answer = line.send(TO, "Hello").await;
    assert_eq!(answer.outcome, Outcome::Sent { provider_id: Some("m-1".to_owned()) });
    for depth in [99, 101, 127, 128, 30_000] {
        server.script(text(200, nested(depth)));
        assert_eq!(line.send(TO, "Hello").await.outcome, Outcome::Unknown, "{depth}");
    }
}
