use domain::Outcome;
use domain::web_push::Urgency;
use serde_json::{Value, json};
use web_push::settings::VapidSettings;

use crate::fixture::World;

fn problems(settings: &Value) -> Vec<(String, &'static str)> {
    let problems = VapidSettings::parse(settings).expect_err("problems expected");
    problems.into_iter().map(|problem| (problem.field, problem.code)).collect()
}

#[test]
fn complete_settings_are_read() {
    let settings = json!({"subject": "mailto:push@example.com", "ttl": 0, "urgency": "low"});
    let expected = VapidSettings {
        subject: "mailto:push@example.com".to_owned(),
        ttl: Some(0),
        urgency: Some(Urgency::Low),
    };
    assert_eq!(VapidSettings::parse(&settings), Ok(expected));
    for subject in ["https://example.com", "https://example.com/push?a=b", "mailto:a@b"] {
        assert!(VapidSettings::parse(&json!({"subject": subject, "ttl": null})).is_ok(), "{subject}");
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let found =
        problems(&json!({"subject": "push@example.com", "ttl": 2_419_201, "urgency": "now", "key": "k"}));
    let expected = [
        ("settings.subject", "invalid"),
        ("settings.ttl", "out_of_range"),
        ("settings.urgency", "unknown_value"),
        ("settings.key", "unknown_member"),
    ];
    assert_eq!(found, expected.map(|(field, code)| (field.to_owned(), code)));
    assert_eq!(problems(&json!({})), [("settings.subject".to_owned(), "required")]);
    assert_eq!(problems(&json!([])), [("settings".to_owned(), "invalid_type")]);
    for subject in
        ["", "mailto:", "mailto:@b", "https://", "https:///a", "http://a", "mailto:a@b\r\nX: y", "tel:1"]
    {
        assert_eq!(
            problems(&json!({"subject": subject})),
            [("settings.subject".to_owned(), "invalid")],
            "{subject}"
        );
    }
}

#[test]
fn the_only_kind_has_no_secret_and_a_valid_example() {
    let [kind] = web_push::KINDS else { panic!("one kind") };
    assert_eq!((kind.name(), kind.secrets()), ("vapid", &[][..]));
    let uncommented: Vec<_> =
        kind.example().lines().map(|line| line.split("   ").find(|part| part.contains('"'))).collect();
    let example: String = uncommented.into_iter().flatten().collect();
    let settings: Value = serde_json::from_str(&format!("{{{example}}}")).unwrap();
    assert_eq!(kind.check(&settings), Ok(()));
}

#[tokio::test]
async fn an_unusable_provider_is_skipped() {
    let mut world = World::start().await;
    let browser = world.browser().await;
    for (kind, settings) in [("fcm", json!({"subject": "mailto:a@b"})), ("vapid", json!({}))] {
        (world.provider.kind, world.provider.settings) = (kind.to_owned(), settings);
        let answer = world.send(&browser).await;
        assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::PauseProvider, "settings"), "{kind}");
    }
    assert_eq!(world.push_service.server().connections(), 0);
}
