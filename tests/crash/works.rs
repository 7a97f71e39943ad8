//! The system by itself: with nothing done to it, and with everything once.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::{Client, Method};
use sabotage::CrashPoint;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::faults::schedule::Schedule;
use crate::faults::strike::{Planned, Server, Strike};
use crate::scene::{Accepted, Scene};
use crate::system::part::{Name, Role};
use crate::system::{Settings, System};
use crate::{faults, quiet};

const USERS: usize = 4;
/// From one send to the next.
const PACE: Duration = Duration::from_millis(500);

/// A backend that sends to everybody, on every channel.
struct Backend {
    client: Client,
    scene: Scene,
}

impl Backend {
    /// Makes the users, each with an address for every channel.
    async fn of(system: &System) -> Backend {
        let backend = Backend { client: system.client.clone(), scene: system.scene.clone() };
        for user in Backend::users() {
            let profile = json!({
                "email": format!("{user}@example.com"), "phone": format!("+1415000000{user}"),
                "apns": {"tokens": [format!("{user:0>64}")]}, "fcm": {"tokens": [format!("fcm-{user}")]},
            });
            assert!(backend.is_done(Method::PUT, &format!("users/{user}"), &user, &profile).await);
            let url = format!("{}/subscriptions", system.scene.push_origin);
            let browser: Value = system.client.post(url).send().await.unwrap().json().await.unwrap();
            let path = format!("devices/{user}/webPushSubscription");
            assert!(backend.is_done(Method::POST, &path, &user, &browser).await);
        }
        backend
    }

    fn users() -> Vec<String> {
        (0..USERS).map(|number| number.to_string()).collect()
    }

    /// Whether a send is confirmed.
    async fn send(&self) -> bool {
        let send = json!({"notification": {"title": "Ready"}, "sendTo": {"recipients": Backend::users()}});
        self.is_done(Method::POST, "notifications", "0", &send).await
    }

    async fn is_done(&self, method: Method, path: &str, user: &str, body: &Value) -> bool {
        let (app, origin) = (&self.scene.apps[0], &self.scene.gateways[1]);
        let call = self.client.request(method, format!("{origin}/v3/{path}"));
        let call = call.header("X-SERVICE-API-KEY", &app.key).header("X-SERVICE-API-SECRET", &app.secret);
        let answer = call.header("X-SERVICE-USER-ID", user).json(body).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_is_in_the_list_of_the_providers_once_it_is_quiet() {
    let mut system = System::start(Settings { seed: 1, apps: 1 }).await;
    assert!(Backend::of(&system).await.send().await);
    let took = quiet::wait_until(&mut system).await;
    println!("quiet after {took:?}");

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
    assert!(sent.is_subset(&taken), "sent, and not taken: {:?}", sent.difference(&taken).collect::<Vec<_>>());
    assert!(sent.len() > USERS, "{} sent", sent.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_struck_comes_back_and_what_was_begun_is_brought_to_an_end() {
    let mut system = System::start(Settings { seed: 2, apps: 1 }).await;
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
    let striking = async {
        let _over = over.clone().drop_guard();
        faults::strike(&mut system, &schedule, &never).await
    };
    let (confirmed, struck) = tokio::join!(sending, striking);
    let took = quiet::wait_until(&mut system).await;
    println!("{confirmed} sends to {USERS}, quiet after {took:?}; {struck:#?}");

    assert!(CrashPoint::ALL.iter().all(|point| struck.crashes.get(point) == Some(&1)), "{struck:?}");
    assert_eq!(struck.number_of_kills(), CrashPoint::ALL.len() + 3, "{struck:?}");
    let ended: i64 = sqlx::query_scalar("SELECT count(DISTINCT send_id) FROM delivery WHERE attempt > 0")
        .fetch_one(&system.database)
        .await
        .unwrap();
    assert!(confirmed > 0 && ended >= confirmed as i64, "{ended} of {confirmed}");
}

/// Each kind of blow, and each crash point, once.
fn everything_once() -> Schedule {
    let first = |role| Name { role, number: 1 };
    let second = |role| Name { role, number: 2 };
    let crash = |(at, point)| Strike::Crash { at, point, passage: 3 };
    let mut strikes: Vec<Strike> = [
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
    strikes.extend([
        Strike::Kill(second(Role::Webhooks)),
        Strike::StopPostgres(short),
        Strike::KillNats(short),
        Strike::Pause(second(Role::Inbox), long),
        Strike::Cut(second(Role::WebPush), Server::Database),
        Strike::Cut(second(Role::MobilePush), Server::Broker),
        Strike::Withhold { from: second(Role::Sms), for_: short, is_lost: true },
        Strike::Withhold { from: second(Role::Dispatcher), for_: short, is_lost: false },
    ]);
    let at = |number| Duration::from_secs(1) * u32::try_from(number).unwrap();
    Schedule(
        strikes.into_iter().enumerate().map(|(number, strike)| Planned { at: at(number), strike }).collect(),
    )
}
