//! Runs: redrives that the dispatcher makes page by page.

use std::time::Duration;

use domain::redrive::{Pause, RunState};
use domain::{Action, Actor, AppId, Channel, DeliveryId, Timestamp};
use store::Error;
use store::deliveries::redrive::ParkedFilter;
use store::deliveries::redrive::run::{LeasedRun, NewRun, RedriveRun, RunPage};
use uuid::Uuid;

use crate::{Fixture, NOW, fixture};

const ONE: Uuid = Uuid::from_u128(1);
const TWO: Uuid = Uuid::from_u128(2);
const LEASE: Duration = Duration::from_secs(60);
const ADA: Actor = Actor::Operator(7);

impl Fixture {
    async fn start(&self, app: AppId, filter: &ParkedFilter, per_second: u32) -> Option<LeasedRun> {
        let before = self.store.deliveries().time().await.unwrap() + Duration::from_millis(1);
        self.start_before(app, filter, per_second, before).await
    }

    async fn start_before(
        &self,
        app: AppId,
        filter: &ParkedFilter,
        per_second: u32,
        before: Timestamp,
    ) -> Option<LeasedRun> {
        let new = NewRun { app, filter, before, selected: 10, expected: 9, per_second };
        let id = self.store.deliveries().start_run(&new, &ADA).await.unwrap()?;
        Some(LeasedRun { app, id })
    }

    /// Makes the next page as a process, without waiting for the rate.
    async fn page(&self, process: Uuid) -> Option<RunPage> {
        sqlx::query("UPDATE redrive_run SET next_at = now()").execute(&self.pool).await.unwrap();
        let run = self.store.deliveries().lease_run(process, LEASE).await.unwrap()?;
        Some(self.store.deliveries().make_run_page(run, process, NOW).await.unwrap())
    }

    async fn run_of(&self, run: LeasedRun) -> RedriveRun {
        self.store.deliveries().find_run(run.app, run.id).await.unwrap().unwrap()
    }

    /// Time at which the next page of the only run is due.
    async fn next_page_at(&self) -> Timestamp {
        let millis = "SELECT floor(extract(epoch FROM next_at) * 1000)::bigint FROM redrive_run";
        Timestamp::from_millis(self.count(millis).await)
    }

    async fn move_run(&self, run: LeasedRun, from: RunState, to: RunState) -> bool {
        let deliveries = self.store.deliveries();
        deliveries.change_run(run, &[from], to, Action::RedrivePause, &ADA).await.unwrap()
    }
}

fn made(redriven: u64, is_last: bool) -> Option<RunPage> {
    Some(RunPage::Made { redriven, is_last })
}

#[tokio::test]
async fn a_run_makes_pages_up_to_the_moment_of_its_preview_and_redrives_each_message_once() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.parked(app, 7).await;
    fixture.all("UPDATE delivery SET expires_at = now() WHERE user_number = 2").await;
    let run = fixture.start(app, &ParkedFilter::default(), 3).await.unwrap();
    fixture.all("UPDATE parked SET parked_at = now() + interval '1 hour' WHERE user_number = 7").await;
    assert_eq!(fixture.page(ONE).await, made(2, false), "the rate limits a page to three messages");
    assert_eq!(fixture.page(ONE).await, made(3, true));
    assert_eq!(fixture.page(ONE).await, None, "the run is done");
    let found = fixture.run_of(run).await;
    assert_eq!((found.state, found.redriven, found.kept()), (RunState::Done, 5, 1));
    assert_eq!(found.skipped.into_iter().collect::<Vec<_>>(), [("expired".to_owned(), 1)]);
    assert!(found.ended_at.is_some());
    assert_eq!(fixture.count("SELECT count(*) FROM timer").await, 5);
    assert_eq!(fixture.count("SELECT count(DISTINCT user_number) FROM timer").await, 5);
    assert_eq!(fixture.count("SELECT count(*) FROM parked").await, 2, "the expired one, and a later one");
    let audit = "SELECT count(*) FROM audit WHERE actor = 'operator:7' AND action = 'parked.redrive'";
    assert_eq!(fixture.count(audit).await, 5);
    let started = "SELECT count(*) FROM audit WHERE actor = 'operator:7' AND action = 'redrive.start'";
    assert_eq!(fixture.count(started).await, 1);
}

#[tokio::test]
async fn the_rate_sets_the_time_of_the_next_page() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.parked(app, 4).await;
    let run = fixture.start(app, &ParkedFilter::default(), 2).await.unwrap();
    let deliveries = fixture.store.deliveries();
    assert_eq!(deliveries.lease_run(ONE, LEASE).await.unwrap(), Some(run));
    // A page that is more than a second late counts as one that is a second late.
    let due_at = fixture.next_page_at().await + Duration::from_secs(1);
    let before = deliveries.time().await.unwrap();
    assert_eq!(deliveries.make_run_page(run, ONE, NOW).await.unwrap(), made(2, false).unwrap());
    let after = deliveries.time().await.unwrap();
    let next_at = fixture.next_page_at().await;
    assert!(due_at.max(before) <= next_at && next_at <= due_at.max(after), "{next_at}: {due_at}, {before}");
    fixture.all("UPDATE redrive_run SET next_at = next_at + interval '1 hour'").await;
    assert_eq!(deliveries.lease_run(ONE, LEASE).await.unwrap(), None, "the next page is not due");
    let (next_at, before) = (fixture.next_page_at().await, deliveries.time().await.unwrap());
    let wait = deliveries.next_page_in(ONE).await.unwrap().unwrap();
    let after = deliveries.time().await.unwrap();
    // Both `after` and the wait are rounded down to milliseconds here.
    let latest = after + wait + Duration::from_millis(2);
    assert!(before + wait <= next_at && next_at <= latest, "{wait:?} from {before} until {next_at}");
}

#[tokio::test]
async fn each_part_of_a_filter_selects() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.parked(app, 6).await;
    for statement in [
        "UPDATE parked SET cause = '535' WHERE user_number = 1",
        "UPDATE delivery SET provider = 'second' WHERE user_number = 2",
        "UPDATE parked SET stream = 'JOB_sms_bulk' WHERE user_number = 3",
        "UPDATE parked SET parked_at = now() - interval '2 hours' WHERE user_number = 4",
        "INSERT INTO category (app_id, identifier, name) SELECT id, 'orders', 'Orders' FROM app",
        "INSERT INTO request (app_id, send_id, accepted_at, lane, recipients, category_id)
         SELECT app_id, '00000000-0000-0000-0000-000000000005', now(), 'bulk', 1, id FROM category",
        "UPDATE parked SET send_id = '00000000-0000-0000-0000-000000000005' WHERE user_number = 5",
    ] {
        fixture.all(statement).await;
    }
    let now = fixture.store.deliveries().time().await.unwrap();
    let hour = Duration::from_secs(3_600);
    let any = ParkedFilter::default;
    for (filter, users) in [
        (ParkedFilter { cause: Some("535".to_owned()), ..any() }, vec![1]),
        (ParkedFilter { provider: Some("second".to_owned()), ..any() }, vec![2]),
        (ParkedFilter { channel: Some(Channel::Sms), ..any() }, vec![3]),
        (ParkedFilter { before: Some(now - hour), ..any() }, vec![4]),
        (ParkedFilter { category: Some("orders".to_owned()), ..any() }, vec![5]),
        (ParkedFilter { delivery: Some(DeliveryId(Uuid::from_u128(6))), ..any() }, vec![6]),
        (ParkedFilter { since: Some(now - hour), app: Some(app), ..any() }, vec![1, 2, 3, 5, 6]),
        (ParkedFilter { category: Some("offers".to_owned()), ..any() }, vec![]),
    ] {
        let found = fixture.store.deliveries().list_parked(&filter, None, 10).await.unwrap();
        let mut found: Vec<_> = found.iter().map(|parked| parked.user.unwrap().0).collect();
        found.sort_unstable();
        assert_eq!(found, users, "{filter:?}");
    }
}

#[tokio::test]
async fn a_run_that_may_select_the_same_messages_as_an_unfinished_one_is_not_started() {
    let fixture = fixture().await;
    let (app, other) = (fixture.app("shop").await, fixture.app("bank").await);
    let email = ParkedFilter { channel: Some(Channel::Email), ..ParkedFilter::default() };
    let of_cause = ParkedFilter { cause: Some("535".to_owned()), ..ParkedFilter::default() };
    let sms = ParkedFilter { channel: Some(Channel::Sms), ..ParkedFilter::default() };
    let first = fixture.start(app, &email, 50).await.unwrap();
    for same in [&email, &of_cause, &ParkedFilter::default()] {
        assert!(fixture.start(app, same, 50).await.is_none(), "{same:?}");
    }
    assert!(fixture.start(app, &sms, 50).await.is_some());
    assert!(fixture.start(other, &email, 50).await.is_some());
    let later = fixture.store.deliveries().time().await.unwrap() + Duration::from_secs(3_600);
    let since = ParkedFilter { since: Some(later), ..email.clone() };
    assert!(
        fixture.start_before(app, &since, 50, later + LEASE).await.is_some(),
        "the ranges do not overlap"
    );
    assert!(fixture.move_run(first, RunState::Running, RunState::Paused).await);
    assert!(fixture.start(app, &email, 50).await.is_none(), "a paused run may continue");
    assert!(fixture.move_run(first, RunState::Paused, RunState::Stopped).await);
    assert!(fixture.start(app, &email, 50).await.is_some());
}

#[tokio::test]
async fn two_equal_runs_that_start_at_the_same_time_are_one() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let any = ParkedFilter::default();
    let start = || fixture.start(app, &any, 50);
    let (one, two, three) = tokio::join!(start(), start(), start());
    assert_eq!([one, two, three].iter().flatten().count(), 1);
}

#[tokio::test]
async fn only_the_holder_of_the_lease_makes_pages_until_the_lease_ends() -> Result<(), Error> {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.parked(app, 4).await;
    let run = fixture.start(app, &ParkedFilter::default(), 2).await.unwrap();
    let deliveries = fixture.store.deliveries();
    assert_eq!(deliveries.lease_run(ONE, LEASE).await?, Some(run));
    assert_eq!(deliveries.lease_run(TWO, LEASE).await?, None);
    assert_eq!(deliveries.make_run_page(run, TWO, NOW).await?, RunPage::NotHeld);
    fixture.all("UPDATE redrive_run SET leased_until = now() - interval '1 second'").await;
    assert_eq!(deliveries.make_run_page(run, ONE, NOW).await?, RunPage::NotHeld, "the lease has ended");
    assert_eq!(deliveries.lease_run(TWO, LEASE).await?, Some(run));
    assert_eq!(deliveries.make_run_page(run, ONE, NOW).await?, RunPage::NotHeld);
    assert_eq!(deliveries.make_run_page(run, TWO, NOW).await?, made(2, false).unwrap());
    assert_eq!(fixture.count("SELECT count(*) FROM timer").await, 2);
    Ok(())
}

#[tokio::test]
async fn a_paused_run_stands_still_and_continues_where_it_was() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.parked(app, 4).await;
    let run = fixture.start(app, &ParkedFilter::default(), 2).await.unwrap();
    assert_eq!(fixture.page(ONE).await, made(2, false));
    assert!(fixture.move_run(run, RunState::Running, RunState::Paused).await);
    assert!(!fixture.move_run(run, RunState::Running, RunState::Paused).await, "it is paused already");
    assert_eq!(fixture.page(ONE).await, None);
    assert!(fixture.move_run(run, RunState::Paused, RunState::Running).await);
    assert_eq!(fixture.page(TWO).await, made(2, true));
    assert_eq!(fixture.count("SELECT count(*) FROM timer").await, 4);
}

#[tokio::test]
async fn a_run_pauses_itself_when_a_fifth_of_its_latest_deliveries_fail_again() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.parked(app, 130).await;
    let run = fixture.start(app, &ParkedFilter::default(), 100).await.unwrap();
    assert_eq!(fixture.page(ONE).await, made(100, false));
    fixture.all("UPDATE delivery SET status = 'parked' WHERE user_number <= 15").await;
    fixture.all("UPDATE delivery SET status = 'failed' WHERE user_number BETWEEN 16 AND 19").await;
    fixture.all("UPDATE redrive_run SET per_second = 1").await;
    assert_eq!(fixture.page(ONE).await, made(1, false), "19 of the latest 100 are not too many");
    fixture.all("UPDATE delivery SET status = 'parked' WHERE user_number BETWEEN 20 AND 21").await;
    assert_eq!(fixture.page(ONE).await, Some(RunPage::Paused(Pause::Failing)));
    let found = fixture.run_of(run).await;
    assert_eq!((found.state, found.pause), (RunState::Paused, Some((Pause::Failing, "20".to_owned()))));
    let audit = "SELECT count(*) FROM audit WHERE actor = 'system' AND action = 'redrive.pause'";
    assert_eq!(fixture.count(audit).await, 1);
    assert!(fixture.move_run(run, RunState::Paused, RunState::Running).await);
    assert_eq!(fixture.page(ONE).await, made(1, false), "it is judged by what it redrives from now on");
    assert_eq!(fixture.run_of(run).await.pause, None);
}

#[tokio::test]
async fn a_run_pauses_itself_when_a_redriven_delivery_waits_for_a_breaker() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.parked(app, 4).await;
    let run = fixture.start(app, &ParkedFilter::default(), 2).await.unwrap();
    assert_eq!(fixture.page(ONE).await, made(2, false));
    fixture
        .all(
            "UPDATE timer SET delivery_id = '00000000-0000-0000-0000-000000000002', wait_reason = 'breaker_open', provider = 'main'
             WHERE user_number = 2",
        )
        .await;
    assert_eq!(fixture.page(ONE).await, Some(RunPage::Paused(Pause::BreakerOpen)));
    let pause = fixture.run_of(run).await.pause;
    assert_eq!(pause, Some((Pause::BreakerOpen, "main".to_owned())));
}

#[tokio::test]
async fn a_filter_that_matches_nothing_moves_on_and_ends() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.parked(app, 600).await;
    let none = ParkedFilter { cause: Some("nothing".to_owned()), ..ParkedFilter::default() };
    fixture.start(app, &none, 50).await.unwrap();
    assert_eq!(fixture.page(ONE).await, made(0, false), "a page reads 500 messages");
    assert_eq!(fixture.page(ONE).await, made(0, true));
    assert_eq!(fixture.count("SELECT count(*) FROM parked").await, 600);
}

#[tokio::test]
async fn runs_are_removed_some_time_after_their_end() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let start = async |cause: &str| {
        let filter = ParkedFilter { cause: Some(cause.to_owned()), ..ParkedFilter::default() };
        fixture.start(app, &filter, 50).await.unwrap().id
    };
    let (open, young, old) = (start("1").await, start("2").await, start("3").await);
    for (id, days) in [(young, 40), (old, 91)] {
        let end =
            "UPDATE redrive_run SET state = 'done', ended_at = now() - $2 * interval '1 day' WHERE id = $1";
        sqlx::query(end).bind(id).bind(f64::from(days)).execute(&fixture.pool).await.unwrap();
    }
    let age = Duration::from_secs(90 * 86_400);
    let left = async || {
        let runs = fixture.store.deliveries().list_runs(app, 10).await.unwrap();
        runs.iter().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(fixture.store.deliveries().remove_old_runs(age, 10).await.unwrap(), 1);
    assert_eq!(left().await, [young, open]);
    fixture.all("UPDATE app SET keep_sends = 30").await;
    assert_eq!(fixture.store.deliveries().remove_old_runs(age, 10).await.unwrap(), 1);
    assert_eq!(left().await, [open], "the app keeps its sends for 30 days");
}
