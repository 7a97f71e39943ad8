//! A console that is killed at any step of a redrive: the redrive exists once or not at all, and no message is redriven twice.

use std::time::Duration;

use domain::content::{Content, EmailContent};
use domain::event::DeliveryJob;
use domain::{AppId, Channel, DeliveryId, Envelope, Event, Lane, Role, SendId, StreamName, UserNumber};
use reqwest::StatusCode;
use reqwest::header::LOCATION;
use service_kit::clock;
use testkit::{Installation, Service, eventually};
use uuid::Uuid;

use crate::fixture::TestConsole;
use crate::redrives::fields;

const SOON: Duration = Duration::from_secs(60);
const MESSAGES: i64 = 60;
const PARKED: &str = "WITH made AS (
     INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status, reason, attempt)
     VALUES ($1, $2, $3, $4, $4, 'email', 'x@example.com', 'parked', 'retries_exhausted', 8)
   )
   INSERT INTO parked (id, app_id, send_id, delivery_id, user_number, stream, message, cause, parked_at)
   VALUES (gen_random_uuid(), $1, $3, $2, $4, $5, $6, '535', now() - interval '1 minute')";
const PREVIEW: &str = "/apps/shop/parked/redrive?cause=535&channel=email&rate=1";
const START: &str = "/apps/shop/parked/redrive";
const RUNS: &str = "SELECT count(*) FROM redrive_run";
/// Statements of the console that wait for a lock of the test.
const WAITING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
const REDRIVEN: &str = "SELECT count(*) FROM audit WHERE action = 'parked.redrive'";
const REDRIVEN_ONCE: &str = "SELECT count(*) FROM (SELECT subject FROM audit WHERE action = 'parked.redrive' GROUP BY subject HAVING count(*) = 1) AS once";

async fn park(installation: &Installation, app: AppId, number: i64) {
    let stream = StreamName::Job(Channel::Email, Lane::Transactional);
    let (id, send_id) =
        (DeliveryId(Uuid::from_u128(number.unsigned_abs().into())), SendId(Uuid::from_u128(1)));
    let content = Content::Email(EmailContent { subject: "Hello".to_owned(), ..EmailContent::default() });
    let first =
        DeliveryJob::first(id, Channel::Email, UserNumber(number), "x@example.com".to_owned(), content);
    let event = Event::DeliveryJob(Box::new(DeliveryJob { attempt: 9, ..first }));
    let (send, at) = (Some(send_id), clock::now());
    let job = Envelope { id: id.0, app, at, send_id: send, caused_by: None, trace: None, event };
    let parked = sqlx::query(PARKED).bind(app.0).bind(id.0).bind(send_id.0).bind(number);
    let parked = parked.bind(stream.to_string()).bind(job.encode().unwrap());
    parked.execute(&installation.pool).await.unwrap();
}

/// A console in its own process.
struct Process {
    console: TestConsole,
    process: Service,
    operator: String,
}

impl Process {
    async fn start() -> Process {
        let installation = Installation::start(|_| {}).await;
        let app = installation.app("shop").await;
        for number in 1..=MESSAGES {
            park(&installation, app, number).await;
        }
        let port = local_servers::port::free().unwrap();
        let mut environment = installation.servers.environment();
        environment.push(("TIDINGS_CONSOLE__LISTEN".to_owned(), format!("127.0.0.1:{port}")));
        let environment: Vec<_> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
        let process = Service::start("tidings-console", &[], &environment).unwrap();
        let console = TestConsole::at(port, installation);
        let operator = console.operator(Role::Operator, None).await;
        let started = Process { console, process, operator };
        started.until_it_answers().await;
        started
    }

    async fn until_it_answers(&self) {
        eventually(SOON, "the console answers", async || {
            self.console.call(reqwest::Method::GET, "/sign-in").send().await.ok()
        })
        .await;
    }

    async fn restart(&mut self) {
        self.process.restart().unwrap();
        self.until_it_answers().await;
    }

    async fn count(&self, query: &'static str) -> i64 {
        self.console.installation.count(query).await
    }

    async fn preview(&self) -> Vec<(String, String)> {
        fields(&self.console.page(PREVIEW, &self.operator).await)
    }

    async fn change(&self, path: &str, fields: &[(String, String)]) -> StatusCode {
        let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        self.console.change(path, &self.operator, &fields).await.status()
    }

    /// Sends a form, and kills the console once a condition holds. `held` is a statement with locks that keep the console waiting.
    async fn kill_during(
        &mut self,
        (path, fields): (&str, &[(String, String)]),
        held: &'static str,
        (query, least): (&'static str, i64),
    ) {
        let mut transaction = self.console.installation.pool.begin().await.unwrap();
        sqlx::raw_sql(held).execute(&mut *transaction).await.unwrap();
        let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let sent = tokio::spawn(self.console.unsent_change(path, &self.operator, &fields).send());
        eventually(SOON, query, async || (self.count(query).await >= least).then_some(())).await;
        self.process.kill();
        drop(sent.await.unwrap());
        transaction.rollback().await.unwrap();
        self.restart().await;
    }
}

fn to(state: &str) -> [(String, String); 1] {
    [("to".to_owned(), state.to_owned())]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_console_that_is_killed_starts_a_redrive_once_or_not_at_all() {
    let mut killed = Process::start().await;
    let fields = killed.preview().await;
    killed.process.kill();
    killed.restart().await;
    assert_eq!(killed.count(RUNS).await, 0, "a preview changes nothing");
    for locked in [
        "LOCK TABLE operator_session IN ACCESS EXCLUSIVE MODE",
        "LOCK TABLE parked IN ACCESS EXCLUSIVE MODE",
        "LOCK TABLE redrive_run IN ACCESS EXCLUSIVE MODE",
        "LOCK TABLE audit IN ACCESS EXCLUSIVE MODE",
    ] {
        killed.kill_during((START, &fields), locked, (WAITING, 1)).await;
        assert_eq!(killed.count(RUNS).await, 0, "{locked}");
        assert_eq!(killed.count("SELECT count(*) FROM audit WHERE action = 'redrive.start'").await, 0);
    }
    // The preview that the operator still sees stays valid, and the run is committed before the answer.
    killed.kill_during((START, &fields), "SELECT 1", (RUNS, 1)).await;
    assert_eq!(killed.change(START, &fields).await, StatusCode::CONFLICT);
    assert_eq!(killed.count(RUNS).await, 1);
    assert_eq!(killed.count("SELECT count(*) FROM audit WHERE action = 'redrive.start'").await, 1);
    assert_eq!(killed.count("SELECT count(*) FROM parked").await, MESSAGES);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_goes_on_once_while_consoles_that_pause_and_stop_it_are_killed() {
    let mut killed = Process::start().await;
    killed.console.installation.context.serve("dispatcher", dispatcher::run);
    let fields = killed.preview().await;
    let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    let started = killed.console.change(START, &killed.operator, &fields).await;
    let run = started.headers()[LOCATION].to_str().unwrap().split('?').next().unwrap().to_owned();
    eventually(SOON, "a page of the run", async || (killed.count(REDRIVEN).await > 0).then_some(())).await;

    let paused = "SELECT count(*) FROM redrive_run WHERE state = 'paused'";
    let held = "SELECT 1 FROM redrive_run FOR UPDATE";
    killed.kill_during((&run, &to("paused")), held, (WAITING, 1)).await;
    assert_eq!(killed.count(paused).await, 0, "the change was not committed");
    killed.kill_during((&run, &to("paused")), "SELECT 1", (paused, 1)).await;
    let again = killed.change(&run, &to("paused")).await;
    assert_eq!(again, StatusCode::CONFLICT, "it is paused already");
    assert_eq!(killed.change(&run, &to("running")).await, StatusCode::SEE_OTHER);
    killed.kill_during((&run, &to("stopped")), held, (WAITING, 1)).await;
    let stopped = "SELECT count(*) FROM redrive_run WHERE state = 'stopped'";
    killed.kill_during((&run, &to("stopped")), "SELECT 1", (stopped, 1)).await;
    assert_eq!(killed.change(&run, &to("stopped")).await, StatusCode::CONFLICT, "it is stopped already");

    // The messages that are left need a new preview.
    let redriven = killed.count(REDRIVEN).await;
    let rest = killed.preview().await;
    let expected = rest.iter().find(|(name, _)| name == "expected").unwrap().1.parse::<i64>().unwrap();
    assert_eq!(redriven + expected, MESSAGES);
    assert_eq!(killed.change(START, &rest).await, StatusCode::SEE_OTHER);
    killed.console.installation.run("UPDATE redrive_run SET per_second = 1000").await;
    all_are_redriven_once(&killed).await;
}

async fn all_are_redriven_once(killed: &Process) {
    let left = "SELECT (SELECT count(*) FROM parked) + (SELECT count(*) FROM timer)";
    eventually(SOON, "all messages", async || (killed.count(left).await == 0).then_some(())).await;
    assert_eq!((killed.count(REDRIVEN).await, killed.count(REDRIVEN_ONCE).await), (MESSAGES, MESSAGES));
    let log = &killed.console.installation.context.log;
    let published = log.state(StreamName::Job(Channel::Email, Lane::Transactional)).await.unwrap().messages;
    assert_eq!(i64::try_from(published).unwrap(), MESSAGES, "each job is published once");
}
