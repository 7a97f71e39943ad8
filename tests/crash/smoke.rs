//! Short tests of the system under test: without a fault, and with each fault once.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Method;
use sabotage::CrashPoint;
use serde_json::{Value, json};
use suite::{Api, Name, Person, Role};
use testkit::eventually;
use tokio_util::sync::CancellationToken;

use crate::faults::injection::{Injection, ScheduledFault, Server};
use crate::faults::schedule::Schedule;
use crate::scene::Accepted;
use crate::system::{Settings, System};
use crate::workload::poison;
use crate::{faults, idle};

const USERS: usize = 4;
/// The poison ends five dispatchers, each of which is noticed after an `ack_wait`.
const PARKED_WITHIN: Duration = Duration::from_secs(120);
/// Interval between sends.
const PACE: Duration = Duration::from_millis(500);

/// A backend that sends to every user, on every channel.
struct Backend(Api);

impl Backend {
    /// Creates the users, each with an address for every channel.
    async fn of(system: &System) -> Backend {
        let api = Api::new(&system.scene.gateways[1], &system.scene.apps[0]);
        let users: Vec<Person> = Backend::users().collect();
        api.create_users(&users.iter().map(|user| user.user()).collect::<Vec<_>>()).await;
        for user in users {
            let url = format!("{}/subscriptions", system.scene.push_origin);
            let browser: Value = system.client.post(url).send().await.unwrap().json().await.unwrap();
            api.subscribe(&user.identifier(), &browser).await;
        }
        Backend(api)
    }

    fn users() -> impl Iterator<Item = Person> {
        (0..USERS).map(Person)
    }

    /// Sends once, and returns true if the send is accepted.
    async fn send(&self) -> bool {
        self.send_titled("Ready").await
    }

    async fn send_titled(&self, title: &str) -> bool {
        let users: Vec<String> = Backend::users().map(Person::identifier).collect();
        let send = json!({"notification": {"title": title}, "sendTo": {"recipients": users}});
        let call = self.0.call(Method::POST, "/v3/notifications").json(&send);
        Api::try_once(call).await.is_some_and(|(status, _)| status == 202)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sent_delivery_was_accepted_by_its_provider() {
    let mut system = System::start(Settings { seed: 1, apps: 1, patience: 1.0 }).await;
    assert!(Backend::of(&system).await.send().await);
    let took = idle::wait_until(&mut system).await;
    println!("idle after {took:?}");

    let accepted = std::fs::read_to_string(&system.scene.accepted).unwrap();
    let accepted: Vec<Accepted> = accepted.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let by_channel: BTreeSet<String> = accepted.iter().map(|one| one.channel.to_string()).collect();
    assert_eq!(by_channel.len(), 4, "{by_channel:?}");
    let sent: BTreeSet<String> = sqlx::query_scalar("SELECT id::text FROM delivery WHERE status = 'sent'")
        .fetch_all(&system.database)
        .await
        .unwrap()
        .into_iter()
        .collect();
    let taken: BTreeSet<String> = accepted.into_iter().map(|one| one.delivery).collect();
    assert!(
        sent.is_subset(&taken),
        "sent, but not accepted: {:?}",
        sent.difference(&taken).collect::<Vec<_>>()
    );
    assert!(sent.len() > USERS, "{} sent", sent.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_each_fault_every_process_is_ready_and_every_send_ends() {
    let mut system = System::start(Settings { seed: 2, apps: 1, patience: 1.0 }).await;
    let backend = Backend::of(&system).await;
    let schedule = everything_once();
    let over = CancellationToken::new();
    let sending = async {
        let mut pace = tokio::time::interval(PACE);
        let mut confirmed = 0;
        while !over.is_cancelled() {
            pace.tick().await;
            confirmed += usize::from(backend.send().await);
        }
        confirmed
    };
    let never = CancellationToken::new();
    let injecting = async {
        let _over = over.clone().drop_guard();
        faults::inject(&mut system, &schedule, &never).await
    };
    let (confirmed, tally) = tokio::join!(sending, injecting);
    let took = idle::wait_until(&mut system).await;
    println!("{confirmed} sends to {USERS}, idle after {took:?}; {tally:#?}");

    assert!(CrashPoint::ALL.iter().all(|point| tally.crashes.get(point) == Some(&1)), "{tally:?}");
    assert_eq!(tally.number_of_kills(), CrashPoint::ALL.len() + 3, "{tally:?}");
    let ended: i64 = sqlx::query_scalar("SELECT count(DISTINCT send_id) FROM delivery WHERE attempt > 0")
        .fetch_one(&system.database)
        .await
        .unwrap();
    assert!(confirmed > 0 && ended >= confirmed as i64, "{ended} of {confirmed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_ends_each_dispatcher_is_parked_and_every_other_send_ends() {
    let mut system = System::start(Settings { seed: 3, apps: 1, patience: 1.0 }).await;
    let backend = Backend::of(&system).await;
    assert!(backend.send().await && backend.send_titled(poison::TITLE).await && backend.send().await);
    let (over, database) = (CancellationToken::new(), system.database.clone());
    let parking = async {
        let _over = over.clone().drop_guard();
        eventually(PARKED_WITHIN, "the poison is parked", async || {
            let parked = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM parked").fetch_one(&database);
            (parked.await.unwrap() == 1).then_some(())
        })
        .await;
    };
    // The injector restarts the dispatchers. Its only fault comes too late to be injected.
    let name = Name { role: Role::Sms, number: 1 };
    let late = Schedule(vec![ScheduledFault { at: 2 * PARKED_WITHIN, injection: Injection::Kill(name) }]);
    let ((), tally) = tokio::join!(parking, faults::inject(&mut system, &late, &over));
    assert!(backend.send().await);
    let took = idle::wait_until(&mut system).await;
    println!("{} dispatchers died, idle after {took:?}", tally.poisoned);

    assert!((3..=5).contains(&tally.poisoned), "{tally:?}");
    let planned = "SELECT count(DISTINCT send_id) FROM planned_recipient";
    let planned: i64 = sqlx::query_scalar(planned).fetch_one(&system.database).await.unwrap();
    assert_eq!(planned, 3, "the sends before, beside and after the poison");
    let listed = system.scene.environment.tidings(&["parked", "list", "--json"]);
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let causes: Vec<&str> = listed.iter().map(|parked| parked["cause"].as_str().unwrap()).collect();
    assert_eq!(causes, ["3 processes ended while they handled this message"]);
}

/// Schedule with each kind of fault and each crash point once.
fn everything_once() -> Schedule {
    let first = |role| Name { role, number: 1 };
    let second = |role| Name { role, number: 2 };
    let crash = |(at, point)| Injection::Crash { at, point, passage: 3 };
    let mut injections: Vec<Injection> = [
        (second(Role::Gateway), CrashPoint::AfterPublish),
        (first(Role::Dispatcher), CrashPoint::AfterFreeze),
        (first(Role::Email), CrashPoint::AfterClaim),
        (first(Role::WebPush), CrashPoint::AfterYes),
        (first(Role::MobilePush), CrashPoint::BeforeSettle),
        (first(Role::Sms), CrashPoint::AfterSettle),
        (second(Role::Email), CrashPoint::BeforeAck),
        (first(Role::Inbox), CrashPoint::InCommit),
    ]
    .map(crash)
    .into();
    let [short, long] = [1, 4].map(Duration::from_secs);
    injections.extend([
        Injection::Kill(second(Role::Webhooks)),
        Injection::StopPostgres(short),
        Injection::KillNats(short),
        Injection::Pause(second(Role::Inbox), long),
        Injection::Cut(second(Role::WebPush), Server::Database),
        Injection::Cut(second(Role::MobilePush), Server::Broker),
        Injection::Withhold { from: second(Role::Sms), for_: short, is_lost: true },
        Injection::Withhold { from: second(Role::Dispatcher), for_: short, is_lost: false },
    ]);
    let at = |number| Duration::from_secs(1) * u32::try_from(number).unwrap();
    Schedule(
        injections
            .into_iter()
            .enumerate()
            .map(|(number, injection)| ScheduledFault { at: at(number), injection })
            .collect(),
    )
}
