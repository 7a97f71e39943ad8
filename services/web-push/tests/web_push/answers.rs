use std::time::Duration;

use domain::outcome::Blame;
use domain::{Channel, Outcome};
use stand_ins::http::{Reaction, Rule, json, status};
use web_push::answers::{Reply, TABLE, answer as means, row};
use worker::ChannelSender;

use crate::fixture::{World, assert_sent, push_service};

const SENT: Outcome = Outcome::Sent { provider_id: None };
const RETRY: Outcome = Outcome::RETRY;

/// At least one case for each row of [`TABLE`]: the row, the HTTP status and the outcome.
#[rustfmt::skip]
const CASES: &[(&str, u16, Outcome)] = &[
    ("200", 200, SENT),
    ("201", 201, SENT),
    ("202", 202, SENT),
    ("400", 400, Outcome::Failed),
    ("401", 401, Outcome::PauseProvider),
    ("403", 403, Outcome::PauseProvider),
    ("404", 404, Outcome::GONE),
    ("410", 410, Outcome::GONE),
    ("413", 413, Outcome::Failed),
    ("429", 429, RETRY),
    ("2xx", 204, SENT),
    ("3xx", 301, Outcome::Failed),
    ("3xx", 307, Outcome::Failed),
    ("4xx", 405, Outcome::Failed),
    ("4xx", 406, Outcome::Failed),
    ("5xx", 500, RETRY),
    ("5xx", 502, RETRY),
    ("5xx", 503, RETRY),
];

#[tokio::test]
async fn every_row_of_the_table_has_its_outcome() {
    let world = World::start().await;
    let browser = world.browser().await;
    for (pattern, code, outcome) in CASES {
        world.push_service.script(Rule::answer(status(*code)).to(browser.endpoint()));
        let answer = world.send(&browser).await;
        // A refusal for a single user does not show that the app's key is bad, so it only fails the delivery.
        let settled = if *outcome == Outcome::PauseProvider { &Outcome::Failed } else { outcome };
        assert_eq!((&answer.outcome, answer.code.as_str()), (settled, code.to_string().as_str()));
        let reply = Reply { status: *code, ..Reply::default() };
        assert_eq!(means(&Ok(reply), browser.endpoint()).outcome, *outcome);
        assert_eq!(row(*code).unwrap().0, *pattern, "first matching row for {code}");
        assert_eq!(world.push_service.rules_left(), 0);
    }
    for (pattern, verdict) in TABLE {
        assert!(CASES.iter().any(|case| case.0 == *pattern), "no case for {pattern} ({verdict:?})");
    }
    assert!(world.received().is_empty());
    assert_sent(&world.send(&browser).await);
    assert_eq!(world.received().len(), 1);
}

#[tokio::test]
async fn the_wait_that_a_push_service_requests_is_honoured() {
    let world = World::start().await;
    let browser = world.browser().await;
    for code in [429, 503] {
        let mut response = status(code);
        response.headers_mut().insert("retry-after", "120".parse().unwrap());
        world.push_service.script(Rule::answer(response));
        let answer = world.send(&browser).await;
        let after = Some(Duration::from_secs(120));
        assert_eq!(answer.outcome, Outcome::Retry { after, limit: None }, "{code}");
    }
}

#[tokio::test]
async fn a_redirection_is_not_followed() {
    let (world, elsewhere) = (World::start().await, push_service().await);
    let browser = world.browser().await;
    for code in [301, 302, 307, 308] {
        let mut response = status(code);
        let location = format!("{}/push/a", elsewhere.url());
        response.headers_mut().insert("location", location.parse().unwrap());
        world.push_service.script(Rule::answer(response));
        assert_eq!(world.send(&browser).await.outcome, Outcome::Failed);
    }
    assert_eq!(elsewhere.server().connections(), 0);
}

#[tokio::test]
async fn a_broken_connection_is_unknown_once_the_message_was_sent() {
    for (reaction, code, taken) in [
        (Reaction::CutBefore, "connection_lost", 0),
        (Reaction::CutAfter, "connection_lost", 1),
        (Reaction::Stall, "timeout", 0),
    ] {
        let is_stalled = matches!(reaction, Reaction::Stall);
        let world = World::with(|config| {
            if is_stalled {
                config.delivery.lease = Duration::from_secs(1);
            }
        })
        .await;
        credentials::vapid::create(&world.context.store, &world.context.master_key, world.app).await.unwrap();
        let browser = world.browser().await;
        world.push_service.script(Rule::new(reaction));
        let answer = world.send(&browser).await;
        assert_eq!((&answer.outcome, answer.code.as_str()), (&Outcome::Unknown, code), "{answer:?}");
        assert_eq!(world.received().len(), taken);
    }
}

#[tokio::test]
async fn without_a_connection_the_message_was_not_sent() {
    let closed = push_service().await;
    let origin = closed.url();
    let world = World::with(|config| config.web_push.hosts.push(origin.parse().unwrap())).await;
    credentials::vapid::create(&world.context.store, &world.context.master_key, world.app).await.unwrap();
    let browser = closed.subscribe(None).unwrap();
    world
        .store(&world.push_service.subscribe(None).unwrap(), "ada", |subscription| {
            subscription.endpoint = browser.endpoint().to_owned();
        })
        .await;
    closed.stop().await;
    let answer = world.send(&browser).await;
    assert_eq!((&answer.outcome, answer.code.as_str()), (&RETRY, "connect"), "{answer:?}");
    assert!(!answer.message.contains("/push/"), "{answer:?}");
}

#[tokio::test]
async fn an_unresolvable_host_fails_permanently_within_an_hour() {
    let origin = "http://nx7.invalid:8080";
    let world = World::with(|config| config.web_push.hosts.push(origin.parse().unwrap())).await;
    credentials::vapid::create(&world.context.store, &world.context.master_key, world.app).await.unwrap();
    let endpoint = format!("{origin}/w/7");
    let model = world.push_service.subscribe(None).unwrap();
    world
        .store(&model, crate::fixture::USER, |subscription| subscription.endpoint.clone_from(&endpoint))
        .await;
    let job = world.job(&endpoint, crate::fixture::hello()).await;
    let answer = world.send_job(&job).await;
    assert_eq!((answer.code.as_str(), answer.blame), ("unresolved", Blame::None), "{answer:?}");
    let Outcome::Retry { limit: Some(limit), .. } = answer.outcome else { panic!("{answer:?}") };
    assert!(limit.over <= Duration::from_secs(3_600) && limit.retries > 0, "{limit:?}");
    let (_, host) = origin.split_once("://").unwrap();
    assert!(!answer.message.contains(host), "{answer:?}");
}

#[tokio::test]
async fn the_recorded_text_is_limited_and_does_not_identify_the_browser() {
    let world = World::start().await;
    let browser = world.browser().await;
    let endpoint = browser.endpoint();
    let path = endpoint.strip_prefix(&world.push_service.url()).unwrap();
    let words = format!("no {endpoint}\r\nnor {path} {}", "x".repeat(10_000));
    world.push_service.script(Rule::answer(json(400, &words.as_str().into())));
    let answer = world.send(&browser).await;
    assert!(answer.message.contains("no [endpoint]"), "{}", answer.message);
    assert!(!answer.message.contains(&path[6..]), "{}", answer.message);
    assert!(answer.message.len() <= 500 && answer.message.ends_with('…'), "{answer:?}");
}

#[test]
fn an_unknown_status_is_retried() {
    let reply = Reply { status: 101, ..Reply::default() };
    assert_eq!(means(&Ok(reply), "https://push.example/a").outcome, RETRY);
}

#[test]
fn the_channel_serves_only_its_kind() {
    assert_eq!(web_push::WebPushSender::CHANNEL, Channel::WebPush);
    assert!(web_push::WebPushSender::serves("vapid", "https://a"));
    assert!(!web_push::WebPushSender::serves("fcm", "https://a"));
}
