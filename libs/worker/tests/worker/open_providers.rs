//! Kinds of providers, and the cached settings of providers in use.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::content::{Content, SmsContent};
use domain::event::DeliveryJob;
use domain::{Answer, AppId, Channel, DeliveryId, Lane, Outcome, Problem, Route, Timestamp, UserNumber};
use serde_json::{Value, json};
use uuid::Uuid;
use worker::{
    Attempt, Call, ChannelKind, ChannelResources, Lease, OpenProviders, Probe, Provider, ProviderKind,
};

/// A channel that counts the calls to its providers.
#[derive(Default)]
struct Counts {
    calls: AtomicUsize,
}

impl ChannelResources for Counts {
    type Input<'a> = &'a str;
}

thread_local! {
    /// Number of times that settings were parsed. Each test has its own thread.
    static PARSED: Cell<usize> = const { Cell::new(0) };
}

const KINDS: &[&dyn ChannelKind<Counts>] = &[&Echo];

struct Echo;

impl ProviderKind for Echo {
    type Resources = Counts;
    type Settings = String;

    const NAME: &'static str = "echo";
    const SECRETS: &'static [&'static str] = &[];
    const EXAMPLE: &'static str = "{}";

    fn parse(settings: &Value) -> Result<String, Vec<Problem>> {
        PARSED.set(PARSED.get() + 1);
        let says = settings["says"].as_str().map(str::to_owned);
        says.ok_or_else(|| vec![Problem::new("settings.says", "required", "settings.says is required")])
    }

    async fn send(attempt: Attempt<'_, Counts>, says: &String) -> Answer {
        attempt.resources.calls.fetch_add(1, Ordering::Relaxed);
        Answer::new(Outcome::Sent { provider_id: None }, "200", format!("{says} {}", attempt.input))
    }

    async fn probe(says: &String, _: &Probe<'_>) -> Result<String, Answer> {
        Ok(says.clone())
    }
}

fn provider(kind: &str, settings: Value, version: i64) -> Provider {
    Provider { app: AppId(1), identifier: "main".to_owned(), kind: kind.to_owned(), settings, version }
}

async fn send(
    providers: &OpenProviders<Counts>,
    counts: &Counts,
    provider: &Provider,
    route: Route,
) -> Answer {
    let content = Content::Sms(SmsContent { text: String::new(), from: None });
    let (id, to) = (DeliveryId(Uuid::from_u128(7)), "+4915112345678".to_owned());
    let job = DeliveryJob { route, ..DeliveryJob::first(id, Channel::Sms, UserNumber(1), to, content) };
    let (app, lane, now) = (provider.app, Lane::Transactional, Timestamp::from_millis(0));
    let call = Call {
        app,
        send_id: None,
        lane,
        provider,
        job: &job,
        now,
        lease: &Lease::lasting(Duration::from_secs(90)),
    };
    providers.send(Attempt { resources: counts, call: &call, input: "you" }).await
}

#[tokio::test]
async fn settings_are_parsed_once_per_version_and_a_new_version_takes_effect() {
    let (providers, counts) = (OpenProviders::new(KINDS), Counts::default());
    for (version, says) in [(1, "Hello"), (2, "Bye")] {
        let provider = provider("echo", json!({"says": says}), version);
        let parsed = PARSED.get();
        for _ in 0..3 {
            let answer = send(&providers, &counts, &provider, Route::default()).await;
            assert_eq!(answer.message, format!("{says} you"));
        }
        assert_eq!(PARSED.get(), parsed + 1);
    }
    assert_eq!(counts.calls.load(Ordering::Relaxed), 6);
}

#[tokio::test]
async fn unusable_settings_and_unknown_kinds_pause_the_provider() {
    let (providers, counts) = (OpenProviders::new(KINDS), Counts::default());
    for (kind, settings) in [("echo", json!({})), ("fax", json!({"says": "Hello"}))] {
        let answer = send(&providers, &counts, &provider(kind, settings, 1), Route::default()).await;
        assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::PauseProvider, "settings"), "{kind}");
    }
    assert_eq!(counts.calls.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_keyed_job_is_never_sent_through_a_provider_that_does_not_deduplicate() {
    let (providers, counts) = (OpenProviders::new(KINDS), Counts::default());
    let keyed = Route { only: Some("main".to_owned()), keyed: true, ..Route::default() };
    let answer = send(&providers, &counts, &provider("echo", json!({"says": "Hello"}), 1), keyed).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::Unknown, "provider_changed"));
    assert_eq!(counts.calls.load(Ordering::Relaxed), 0);
}
