//! Cost of people who watch the console: the rate of deliveries with ten viewers of Overview, compared with the rate without them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use credentials::secrets::sha256;
use domain::{Actor, Role as OperatorRole};
use reqwest::Client;
use reqwest::header::{ACCEPT_ENCODING, COOKIE};
use serde::Serialize;
use store::control::operator::session::NewSession;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at};

use crate::accept::{await_listening, free_address};
use crate::installation::Installation;
use crate::latency::{self, Run};
use crate::role::Role;
use crate::series::Series;

const VIEWERS: u32 = 10;
/// Pause between two reloads of a viewer.
const EACH: Duration = Duration::from_secs(5);
const TOKEN: &str = "a session of the viewers";
const DAY: Duration = Duration::from_secs(86_400);
/// Sends of each measurement.
const SENDS: usize = 4_000;
/// Measurements of a round: true with viewers. Each pair is compared.
const FORMS: [bool; 4] = [false, true, true, false];

/// Deliveries per second, from the first send to the last inbox item and email.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ViewersReport {
    /// At half of the sustained rate.
    pub(crate) half: [Series; 2],
    /// While each of the callers makes its next send after the answer.
    pub(crate) most: [Series; 2],
    /// Milliseconds until a viewer has the page.
    pub(crate) page_millis: Series,
}

pub(crate) async fn measure(rounds: u32, old: u32) -> ViewersReport {
    let (installation, provider) = latency::prepare(old).await;
    open_session(&installation).await;
    let mut report = ViewersReport::default();
    for round in 1..=rounds {
        eprintln!("viewers: round {round} of {rounds}");
        installation.settle().await;
        let sends = 1 + SENDS * (1 + 2 * FORMS.len());
        let run = Run::start(&installation, &provider, sends, latency::USERS).await;
        let address = free_address();
        let listen = address.to_string();
        let _console = installation.serve(Role::Console, &[("TIDINGS_CONSOLE__LISTEN", &listen)]);
        await_listening(address).await;
        report.round(&run, &provider, address).await;
    }
    report
}

async fn open_session(installation: &Installation) {
    let control = installation.store.control();
    let role = (Some(installation.app), OperatorRole::Viewer);
    let operator =
        control.create_operator("viewer@example.com", role, &Actor::System).await.unwrap().unwrap();
    let session = NewSession {
        digest: &sha256(TOKEN.as_bytes()),
        lifetime: DAY,
        method: "password",
        authenticated_at: None,
        network: "127.0.0.x",
        browser: "Firefox on Linux",
    };
    control.open_operator_session(operator, &session).await.unwrap();
}

impl ViewersReport {
    async fn round(&mut self, run: &Run<'_>, provider: &stand_ins::smtp::SmtpStandIn, console: SocketAddr) {
        let mut first = 0;
        let mut next = |count: usize| {
            first += count;
            first - count..first
        };
        run.send(next(1), f64::INFINITY).await;
        let begin = Instant::now();
        run.send(next(SENDS), f64::INFINITY).await;
        let sustained = SENDS as f64 / begin.elapsed().as_secs_f64();
        for with_viewers in FORMS {
            let viewers = with_viewers.then(|| Viewers::open(console));
            let form = usize::from(with_viewers);
            for (rates, per_second) in
                [(&mut self.half[form], sustained / 2.0), (&mut self.most[form], f64::INFINITY)]
            {
                provider.outbox().clear().unwrap();
                let begin = Instant::now();
                run.send(next(SENDS), per_second).await;
                rates.push(SENDS as f64 / begin.elapsed().as_secs_f64());
            }
            if let Some(viewers) = viewers {
                self.page_millis.push(viewers.mean_millis());
            }
        }
    }
}

/// People who reload Overview.
struct Viewers {
    _watching: JoinSet<()>,
    pages: Arc<AtomicU64>,
    micros: Arc<AtomicU64>,
}

impl Viewers {
    fn open(console: SocketAddr) -> Viewers {
        let (pages, micros) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (client, mut watching) = (Client::new(), JoinSet::new());
        for viewer in 0..VIEWERS {
            let (client, pages, micros) = (client.clone(), pages.clone(), micros.clone());
            watching.spawn(async move {
                let mut reloads = interval_at(Instant::now() + EACH / VIEWERS * viewer, EACH);
                loop {
                    reloads.tick().await;
                    let begin = Instant::now();
                    let page = client.get(format!("http://{console}/apps/load"));
                    let page = page.header(COOKIE, format!("tidings-console={TOKEN}"));
                    let page = page.header(ACCEPT_ENCODING, "gzip").header("sec-fetch-site", "same-origin");
                    let page = page.send().await.unwrap().error_for_status().unwrap();
                    assert!(page.url().path().ends_with("/apps/load"), "the session is not valid");
                    page.bytes().await.unwrap();
                    pages.fetch_add(1, Ordering::Relaxed);
                    micros.fetch_add(u64::try_from(begin.elapsed().as_micros()).unwrap(), Ordering::Relaxed);
                }
            });
        }
        Viewers { _watching: watching, pages, micros }
    }

    fn mean_millis(&self) -> f64 {
        let pages = self.pages.load(Ordering::Relaxed);
        assert!(pages > 0, "no viewer has a page");
        self.micros.load(Ordering::Relaxed) as f64 / pages as f64 / 1_000.0
    }
}
