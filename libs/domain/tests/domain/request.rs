//! Tests of how the body of a send request is read and validated.

use domain::id::TemplateId;
use domain::request::{
    MAX_DATA, MAX_MESSAGE, MAX_RECIPIENTS, MAX_TITLE, MAX_TOPICS, ParsedSend, SendRules, parse_send,
};
use domain::send::{Lane, TemplateRef};
use domain::{Channel, Timestamp};
use serde_json::{Value, json};

pub(crate) fn rules() -> SendRules {
    SendRules { now: Timestamp::parse("2026-11-21T12:00:00Z").unwrap(), strict: false }
}

/// Returns a valid body in which some members are replaced.
pub(crate) fn body(changes: Value) -> Value {
    let Value::Object(changes) = changes else { panic!("{changes} is no object") };
    let mut body = json!({"notification": {"title": "Hi"}, "sendTo": {"recipients": ["ada"]}});
    for (key, value) in changes {
        body[key] = value;
    }
    body
}

pub(crate) fn parsed(body: Value) -> ParsedSend {
    parse_send(body, rules()).unwrap_or_else(|unsound| panic!("{:?}", unsound.problems))
}

/// Returns the field and the code of every problem.
pub(crate) fn problems(body: Value, rules: SendRules) -> Vec<(String, &'static str)> {
    match parse_send(body, rules) {
        Ok(parsed) => panic!("accepted: {parsed:?}"),
        Err(unsound) => unsound.problems.into_iter().map(|problem| (problem.field, problem.code)).collect(),
    }
}

#[test]
fn a_full_request_becomes_a_send() {
    let parsed = parsed(json!({
        "notification": {
            "title": "Shipped", "message": "On its way", "icon": "i", "url": "https://example.com", "category": "inner",
            "data": {"a": 1, "b": 1}, "blocks": [{"type": "text"}],
        },
        "sendTo": {"recipients": ["ada", {"identifier": "bob", "email": "b@example.com", "data": {"x": 1}}, "ada"]},
        "recipients": ["cyd", "bob"],
        "category": "orders",
        "data": {"b": 2},
        "override": {"channels": ["inApp", "slack", "inApp"]},
        "sendAt": "2026-11-21T14:00:00+01:00",
        "expiresAt": "2026-11-22T00:00:00Z",
        "lane": "bulk",
        "onUnknownRecipient": "reject",
        "idempotencyKey": "order-7",
    }));
    assert!(parsed.deprecated && parsed.reject_unknown);
    assert_eq!(parsed.idempotency_key.as_deref(), Some("order-7"));
    let send = parsed.send;
    let names: Vec<_> = send.recipients.iter().map(|recipient| recipient.identifier.as_str()).collect();
    assert_eq!(names, ["ada", "bob", "cyd"]);
    assert_eq!(json!(send.recipients[1].profile), json!({"email": "b@example.com"}));
    assert_eq!(json!(send.recipients[1].data), json!({"x": 1}));
    assert_eq!(send.category.as_deref(), Some("orders"));
    assert_eq!(json!(send.content.data), json!({"a": 1, "b": 2}));
    assert_eq!(send.channels, Some(vec![Channel::InApp, Channel::Slack]));
    assert_eq!(send.send_at.unwrap().to_string(), "2026-11-21T13:00:00.000Z");
    assert_eq!(send.lane, Lane::Bulk);
}

#[test]
fn lenient_forms_are_accepted() {
    let lenient = parsed(json!({
        "notification": {"title": "Hi", "message": null, "data": [], "workflow": null},
        "sendTo": {"recipients": ["ada"]}, "recipients": null, "override": [], "data": null, "sendAt": null, "shoe": 1,
    }));
    assert_eq!(lenient.send, parsed(body(json!({}))).send);
    assert!(!lenient.deprecated);
    // A past `sendAt` means now. A recipient that is an object with only an identifier has an empty profile, so the user is
    // created.
    assert_eq!(parsed(body(json!({"sendAt": "2026-11-21T11:59:59Z"}))).send.send_at, None);
    let object = parsed(body(json!({"sendTo": {"recipients": [{"identifier": "ada"}]}})));
    assert_eq!(object.send.recipients[0].profile.as_ref().map(serde_json::Map::len), Some(0));
}

#[test]
fn a_template_can_be_named_in_three_ways_and_replaces_the_title() {
    let named = |notification: Value| parsed(body(json!({"notification": notification}))).send.template;
    let identifier = Some(TemplateRef::Identifier("shipped".to_owned()));
    assert_eq!(named(json!({"templateIdentifier": "shipped"})), identifier);
    assert_eq!(named(json!({"workflow": {"identifier": "shipped"}})), identifier);
    assert_eq!(named(json!({"templateId": 7})), Some(TemplateRef::Id(TemplateId(7))));
    assert_eq!(named(json!({"title": "x"})), None);
    let unsound =
        parse_send(json!({"notification": {"templateIdentifier": "shipped"}}), rules()).unwrap_err();
    assert_eq!(unsound.template, identifier);
}

#[test]
fn more_than_a_hundred_recipients_go_bulk() {
    let to = |count: usize, lane: Value| {
        let recipients: Vec<_> = (0..count).map(|n| n.to_string()).collect();
        parsed(body(json!({"sendTo": {"recipients": recipients}, "lane": lane}))).send.lane
    };
    assert_eq!(to(100, Value::Null), Lane::Transactional);
    assert_eq!(to(101, Value::Null), Lane::Bulk);
    assert_eq!(to(101, json!("transactional")), Lane::Bulk);
    assert_eq!(to(1, json!("bulk")), Lane::Bulk);
}

#[test]
fn each_problem_names_its_field() {
    let long = |length: usize| "x".repeat(length);
    let many: Vec<_> = (0..=MAX_RECIPIENTS).map(|n| n.to_string()).collect();
    let recipients = |list: Value| json!({"sendTo": {"recipients": list}});
    let notification = |members: Value| json!({"notification": members});
    let cases = [
        (notification(json!("x")), "notification", "invalid_type"),
        (notification(Value::Null), "notification", "required"),
        (notification(json!({})), "notification.title", "required"),
        (notification(json!({"title": ""})), "notification.title", "required"),
        (notification(json!({"title": 7})), "notification.title", "invalid_type"),
        (notification(json!({"title": long(MAX_TITLE + 1)})), "notification.title", "too_long"),
        (
            notification(json!({"title": "x", "message": long(MAX_MESSAGE + 1)})),
            "notification.message",
            "too_long",
        ),
        (notification(json!({"title": "x", "blocks": {}})), "notification.blocks", "invalid_type"),
        (notification(json!({"title": "x", "blocks": ["y"]})), "notification.blocks[0]", "invalid_type"),
        (notification(json!({"templateId": "seven"})), "notification.templateId", "invalid_type"),
        (json!({"sendTo": {}}), "sendTo.recipients", "required"),
        (recipients(json!([])), "sendTo.recipients", "required"),
        (recipients(json!("ada")), "sendTo.recipients", "invalid_type"),
        (recipients(json!(many)), "sendTo.recipients", "too_many"),
        (recipients(json!(["ada", ""])), "sendTo.recipients[1]", "empty"),
        (recipients(json!([long(256)])), "sendTo.recipients[0]", "too_long"),
        (recipients(json!(["a\nb"])), "sendTo.recipients[0]", "invalid_character"),
        (recipients(json!([7])), "sendTo.recipients[0]", "invalid_type"),
        (recipients(json!([{"email": "x"}])), "sendTo.recipients[0].identifier", "required"),
        (recipients(json!([{"identifier": "a", "email": 1}])), "sendTo.recipients[0].email", "invalid_type"),
        (json!({"sendTo": {"topics": []}}), "sendTo.recipients", "required"),
        (json!({"sendTo": {"topics": "t"}}), "sendTo.topics", "invalid_type"),
        (json!({"sendTo": {"topics": [7]}}), "sendTo.topics[0]", "invalid_type"),
        (json!({"sendTo": {"topics": ["t", "a b"]}}), "sendTo.topics[1]", "invalid_topic"),
        (
            json!({"sendTo": {"topics": (0..=MAX_TOPICS).map(|n| n.to_string()).collect::<Vec<_>>()}}),
            "sendTo.topics",
            "too_many",
        ),
        (json!({"sendTo": {"recipients": ["a"], "exclude": ["b"]}}), "sendTo.exclude", "not_allowed"),
        (
            json!({"sendTo": {"topics": ["t"], "recipients": ["a"], "exclude": ["a"]}}),
            "sendTo.exclude",
            "conflicting",
        ),
        (json!({"sendTo": {"topics": ["t"], "exclude": [""]}}), "sendTo.exclude[0]", "empty"),
        (json!({"data": "x"}), "data", "invalid_type"),
        (json!({"data": {"x": long(MAX_DATA)}}), "data", "too_long"),
        (json!({"data": {"x": 9_007_199_254_740_993_i64}}), "data.x", "unsafe_number"),
        (json!({"data": {"x": ["a\0b"]}}), "data.x[0]", "invalid_character"),
        (json!({"override": {"channels": ["pigeon"]}}), "override.channels[0]", "unknown_channel"),
        (json!({"override": {"channel": "email"}}), "override.channel", "invalid_type"),
        (json!({"sendAt": "tomorrow"}), "sendAt", "invalid_time"),
        (json!({"lane": "fast"}), "lane", "unknown_value"),
        (json!({"onUnknownRecipient": true}), "onUnknownRecipient", "unknown_value"),
        (json!({"idempotencyKey": "a b"}), "idempotencyKey", "invalid_character"),
    ];
    for (changes, field, code) in cases {
        assert_eq!(problems(body(changes.clone()), rules()), [(field.to_owned(), code)], "{changes}");
    }
    assert_eq!(problems(json!("x"), rules()), [(String::new(), "invalid_type")]);
}

#[test]
fn problems_with_the_times_are_reported_separately() {
    let cases = [
        (json!({"sendAt": "2027-02-20T12:00:00Z"}), "sendAt", "too_far"),
        (json!({"expiresAt": "2026-11-21T12:00:00Z"}), "expiresAt", "past"),
        (json!({"sendAt": "2026-11-23T00:00:00Z", "expiresAt": "2026-11-22T00:00:00Z"}), "expiresAt", "past"),
    ];
    for (mut changes, field, code) in cases {
        let untimely = parsed(body(changes.clone())).untimely;
        assert_eq!(
            untimely.iter().map(|problem| (problem.field.as_str(), problem.code)).collect::<Vec<_>>(),
            [(field, code)]
        );
        changes["lane"] = json!("fast");
        let expected = [("lane".to_owned(), "unknown_value"), (field.to_owned(), code)];
        assert_eq!(problems(body(changes.clone()), rules()), expected, "{changes}");
    }
}

#[test]
fn problems_stay_small_for_any_input() {
    let key = "k".repeat(100_000);
    let numbers = vec![json!(1e300); 20_000];
    let unsound = parse_send(body(json!({"data": {key: [numbers]}})), rules()).unwrap_err();
    assert_eq!(unsound.problems.len(), 1_000);
    for problem in unsound.problems {
        assert!(problem.field.len() <= 256 && problem.message.len() <= 1024, "{problem:?}");
    }
    let strict = SendRules { strict: true, ..rules() };
    let unsound = parse_send(body(json!({"é".repeat(100_000): 1})), strict).unwrap_err();
    assert!(unsound.problems[0].field.ends_with("é…"));
    assert_eq!(unsound.problems[0].field.len(), 255);
}

#[test]
fn all_problems_are_reported_at_once() {
    let found = problems(
        json!({"notification": {"title": 1}, "recipients": [7], "lane": 1, "override": {"channels": ["x"]}}),
        rules(),
    );
    let fields: Vec<_> = found.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(fields, ["notification.title", "recipients[0]", "override.channels[0]", "lane"]);
    // Missing members are reported together with invalid ones.
    let found = problems(
        json!({"notification": {"message": 5}, "sendTo": {"topics": ["a b"], "recipients": [7]}}),
        rules(),
    );
    let fields: Vec<_> = found.iter().map(|(field, _)| field.as_str()).collect();
    let expected = ["notification.message", "notification.title", "sendTo.topics[0]", "sendTo.recipients[0]"];
    assert_eq!(fields, expected);
}

#[test]
fn strict_handling_finds_unknown_members() {
    let strict = SendRules { strict: true, ..rules() };
    let changes = json!({"sendto": 1, "sendTo": {"recipients": ["a"], "x": 1}, "notification": {"title": "x", "tittle": 1}});
    let mut found = problems(body(changes), strict);
    found.sort();
    let unknown = |field: &str| (field.to_owned(), "unknown_member");
    assert_eq!(found, [unknown("notification.tittle"), unknown("sendTo.x"), unknown("sendto")]);
}

#[test]
fn depth_and_fan_out_are_bounded() {
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    // 32 levels are allowed. The body and `data` are the first two of them.
    parsed(body(json!({"data": {"x": nested(30)}})));
    let too_deep = problems(body(json!({"data": {"x": nested(31)}})), rules());
    assert_eq!(too_deep[0].1, "too_deep");

    let recipients: Vec<_> = (0..2_000).map(|n| n.to_string()).collect();
    let large = json!({"sendTo": {"recipients": recipients}, "data": {"x": "x".repeat(40_000)}});
    assert_eq!(problems(body(large), rules()), [("sendTo.recipients".to_owned(), "too_large")]);
    let recipients: Vec<_> = (0..2_000).map(|n| n.to_string()).collect();
    let html = json!({"channel": {"email": {"html": "x".repeat(40_000)}}});
    let large = json!({"sendTo": {"recipients": recipients}, "override": html});
    assert_eq!(problems(body(large), rules()), [("sendTo.recipients".to_owned(), "too_large")]);
}
