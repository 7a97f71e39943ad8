//! Setup before the first send: settings, apps, providers and the apps' backends.

use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use stand_ins::faults::Shares;
use stand_ins::webhook::WebhookReceiver;
use suite::{App, System};
use testkit::{Service, binary, eventually};

use super::Settings;
use super::files::Files;
use crate::conditions::LEASE;
use crate::workload::poison;

/// Setting of the largest app: number of sends per second that each gateway accepts in the transactional lane.
const RATE_OF_LARGEST: &str = "transactional-rate=5";
const SOON: Duration = Duration::from_secs(30);

/// Settings that shorten all waiting times. With the defaults, other processes would resume the work of a killed process only
/// after minutes. Delays between attempts are a hundredth of the defaults. The last three attempts follow even sooner, so that
/// all attempts fit in the time limit of [`idle::WITHIN`].
///
/// The concurrency is low, so that even on a busy machine a worker finishes its deliveries within the short lease.
const IMPATIENT: [(&str, &str); 3] = [
    ("TIDINGS_DELIVERY__MAX_CONCURRENCY", "16"),
    ("TIDINGS_DELIVERY__RETRY_SCHEDULE", "0s,50ms,300ms,1200ms,6s,14s,14s,14s"),
    ("TIDINGS_WEBHOOKS__RETRY_SCHEDULE", "50ms,300ms,1200ms,6s,18s,36s,72s,144s,216s,288s"),
];
/// Time limits of work in progress, in milliseconds. They are stretched on a slow machine: if a worker cannot finish within its
/// lease, another worker rightly calls the provider again, without a fault that explains it.
const STRETCHED: [(&str, i64); 3] = [
    ("TIDINGS_DELIVERY__LEASE", LEASE),
    ("TIDINGS_DELIVERY__ACK_WAIT", 5_000),
    ("TIDINGS_WEBHOOKS__TIMEOUT", 2_000),
];

/// File of webhooks that the backends accepted.
pub(super) const WEBHOOKS: &str = "webhooks.jsonl";
/// Fraction of webhook calls to which the apps' backends respond with each fault. `busy` is rare, because it delays all webhooks
/// of the app by a second.
const BACKENDS: Shares = Shares {
    temporary: 0.02,
    busy: 0.0002,
    cut_before: 0.003,
    cut_after: 0.003,
    refused: 0.003,
    stall: 0.0005,
    ..Shares::NONE
};

/// Addresses of the stand-ins.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Providers {
    pub(super) push_origin: String,
    providers: Vec<Value>,
}

/// Starts the stand-ins of all providers in a separate process, which no fault hits.
pub(super) async fn providers(settings: Settings, files: &Files) -> (Service, Providers) {
    let ready = files.path("providers.json");
    let accepted = files.path("accepted.jsonl");
    let seed = settings.seed.to_string();
    let arguments = [seed.as_str(), accepted.to_str().unwrap(), ready.to_str().unwrap()];
    let program = binary("faulty-providers");
    let service = Service::start_logged(&program, &arguments, &[], &files.log("providers")).unwrap();
    let text = eventually(SOON, "the providers listen", async || std::fs::read_to_string(&ready).ok());
    (service, serde_json::from_str(&text.await).unwrap())
}

/// Starts the apps' backends, which receive webhooks, in this process.
pub(super) async fn backends(seed: u64, files: &Files) -> WebhookReceiver {
    let backends = WebhookReceiver::listed(&files.path(WEBHOOKS)).await.unwrap();
    backends.fail_by_chance(seed, BACKENDS);
    backends
}

/// Settings of every process and command.
pub(super) fn settings(
    run: Settings,
    files: &Files,
    providers: &Providers,
    public_url: &str,
) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        // The connections of all processes must stay below PostgreSQL's limit.
        ("TIDINGS_DATABASE__MAX_CONNECTIONS", "8".to_owned()),
        ("TIDINGS_GATEWAY__PUBLIC_URL", public_url.to_owned()),
        ("TIDINGS_WEB_PUSH__HOSTS", providers.push_origin.clone()),
        (sabotage::CRASHES, files.path("crashes").to_str().unwrap().to_owned()),
        (sabotage::POISON, poison::TITLE.to_owned()),
    ];
    settings.extend(IMPATIENT.map(|(name, value)| (name, value.to_owned())));
    let stretched = |millis: i64| format!("{:.0}ms", millis as f64 * run.patience);
    settings.extend(STRETCHED.map(|(name, millis)| (name, stretched(millis))));
    settings
}

/// Creates the apps, each with a provider for every channel and a webhook endpoint for all events.
pub(super) fn apps(
    number: usize,
    system: &System,
    providers: &Providers,
    backends: &WebhookReceiver,
) -> Vec<App> {
    let (apps, secrets): (Vec<App>, Vec<String>) = thread::scope(|scope| {
        let created = |number| scope.spawn(move || app(system, providers, backends, number));
        let apps: Vec<_> = (1..=number).map(created).collect();
        apps.into_iter().map(|app| app.join().unwrap()).unzip()
    });
    backends.trust(&secrets.iter().map(String::as_str).collect::<Vec<_>>());
    apps
}

/// Creates an app and its webhook endpoint, whose path is the app's id. Returns the app and the endpoint's secret.
fn app(system: &System, providers: &Providers, backends: &WebhookReceiver, number: usize) -> (App, String) {
    let identifier = format!("app-{number}");
    let documents: Vec<Value> =
        providers.providers.iter().filter_map(|provider| of_app(number, provider)).collect();
    let app = system.create_app(&identifier, &documents);
    if number == 1 {
        system.environment.tidings(&["app", "set", &identifier, RATE_OF_LARGEST]);
    }
    let secret = system.set_webhook(&identifier, &backends.url(&format!("/{}", app.id)));
    (app, secret)
}

/// Adapts the document of a provider to an app, or returns None if the app does not use this provider. Every fourth app uses both
/// SMS providers and declares the first one idempotent, so that an unknown outcome is retried there. The other apps use one SMS
/// provider and do not declare it idempotent.
fn of_app(number: usize, provider: &Value) -> Option<Value> {
    let mut provider = provider.clone();
    match (provider["identifier"].as_str(), number % 4) {
        (Some("sms-http"), 1 | 3) | (Some("twilio"), 2) => None,
        (Some("sms-http"), 0) => {
            provider["settings"]["idempotent"] = true.into();
            provider["priority"] = 1.into();
            Some(provider)
        }
        (Some("twilio"), 0) => {
            provider["priority"] = 2.into();
            Some(provider)
        }
        _ => Some(provider),
    }
}

#[cfg(test)]
mod tests {
    use super::IMPATIENT;
    use crate::idle;

    #[test]
    fn all_attempts_of_a_delivery_fit_in_the_time_limit_for_idleness() {
        let (_, schedule) =
            IMPATIENT.iter().find(|(name, _)| *name == "TIDINGS_DELIVERY__RETRY_SCHEDULE").unwrap();
        let delays = schedule.split(',').map(|delay| humantime::parse_duration(delay).unwrap());
        // The jitter lengthens each delay by up to a fifth.
        assert!(delays.sum::<std::time::Duration>() * 6 / 5 < idle::WITHIN);
    }
}
