//! Restore of the states of deliveries from outcomes.

use domain::{AppId, Channel, Reason, Status, Timestamp};

use super::{at, outcome};
use crate::{Fixture, NOW, RandomNumbers, fixture};

impl Fixture {
    async fn standing(&self) -> (String, i32) {
        sqlx::query_as("SELECT status, attempt FROM delivery").fetch_one(&self.pool).await.unwrap()
    }
}

async fn with_app() -> (Fixture, AppId) {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    (fixture, app)
}

#[tokio::test]
async fn outcomes_in_any_order_restore_the_answer_of_the_highest_attempt() {
    let (fixture, app) = with_app().await;
    let job = |attempt| fixture.job(app, 0, Channel::Email, attempt);
    let reported = vec![
        outcome(&job(1), Status::Retrying),
        outcome(&job(2), Status::Retrying),
        outcome(&job(3), Status::Cancelled),
        outcome(&job(3), Status::Sent),
        outcome(&job(3), Status::Sent),
    ];
    let mut restore = fixture.restore().await;
    let mut seeded = RandomNumbers(7);
    for round in 0..20 {
        sqlx::query("TRUNCATE delivery").execute(&fixture.pool).await.unwrap();
        restore.add_jobs(&[job(1), job(2), job(3)]).await.unwrap();
        assert_eq!(fixture.standing().await, ("sending".to_owned(), 3));
        let reported = seeded.shuffled(reported.clone());
        let (first, rest) = reported.split_at(round % reported.len());
        restore.add_outcomes(first).await.unwrap();
        restore.add_outcomes(rest).await.unwrap();
        assert_eq!(fixture.standing().await, ("sent".to_owned(), 3), "{reported:?}");
        assert_eq!(restore.add_outcomes(&reported).await.unwrap(), 0, "a repetition changes nothing");
    }
}

#[tokio::test]
async fn a_render_failure_is_restored() {
    let (fixture, app) = with_app().await;
    let job = fixture.job(app, 0, Channel::Email, 1);
    let mut reported = outcome(&job, Status::Failed);
    reported.settled.reason = Some(Reason::TemplateError);
    reported.settled.provider = None;
    let mut restore = fixture.restore().await;
    assert_eq!(restore.add_outcomes(std::slice::from_ref(&reported)).await.unwrap(), 0, "unknown delivery");
    // Creates the state of a backup that was made after the delivery was planned and before its job was published.
    restore.add_jobs(&[job]).await.unwrap();
    restore.add_outcomes(&[reported]).await.unwrap();
    assert_eq!(fixture.standing().await, ("failed".to_owned(), 1));
}

#[tokio::test]
async fn a_later_receipt_overrides_the_answer() {
    let (fixture, app) = with_app().await;
    let job = |attempt| fixture.job(app, 0, Channel::Sms, attempt);
    let mut restore = fixture.restore().await;
    restore.add_jobs(&[job(1)]).await.unwrap();
    restore
        .add_outcomes(&[outcome(&job(1), Status::Unknown), outcome(&job(1), Status::Delivered)])
        .await
        .unwrap();
    assert_eq!(fixture.standing().await, ("delivered".to_owned(), 1));
    restore.add_outcomes(&[outcome(&job(1), Status::Sent)]).await.unwrap();
    assert_eq!(fixture.standing().await, ("delivered".to_owned(), 1));
}

#[tokio::test]
async fn an_outcome_of_an_earlier_attempt_does_not_change_the_delivery() {
    let (fixture, app) = with_app().await;
    let job = |attempt| fixture.job(app, 0, Channel::Email, attempt);
    let mut restore = fixture.restore().await;
    restore.add_jobs(&[job(4)]).await.unwrap();
    restore
        .add_outcomes(&[outcome(&job(2), Status::Retrying), outcome(&job(3), Status::Parked)])
        .await
        .unwrap();
    assert_eq!(fixture.standing().await, ("sending".to_owned(), 4));
    restore.add_jobs(&[job(1)]).await.unwrap();
    assert_eq!(fixture.standing().await, ("sending".to_owned(), 4));
    restore.add_outcomes(&[outcome(&job(4), Status::Parked)]).await.unwrap();
    assert_eq!(fixture.standing().await, ("parked".to_owned(), 5));
}

#[tokio::test]
async fn a_later_job_reopens_a_delivery_that_ended_in_the_backup() {
    let (fixture, app) = with_app().await;
    let job = |attempt| fixture.job(app, 0, Channel::Email, attempt);
    let mut restore = fixture.restore().await;
    restore.add_jobs(&[job(1)]).await.unwrap();
    restore.add_outcomes(&[outcome(&job(1), Status::Sent)]).await.unwrap();
    restore.add_jobs(&[job(1)]).await.unwrap();
    assert_eq!(fixture.standing().await, ("sent".to_owned(), 1));
    // A receipt has started attempt 2, but its event was not published before the data loss.
    restore.add_jobs(&[job(2)]).await.unwrap();
    assert_eq!(fixture.standing().await, ("sending".to_owned(), 2));
}

#[tokio::test]
async fn an_outcome_of_an_unknown_delivery_is_ignored() {
    let (fixture, app) = with_app().await;
    let found = fixture.job(app, 0, Channel::Email, 1);
    let mut restore = fixture.restore().await;
    assert_eq!(restore.add_outcomes(&[outcome(&found, Status::Sent)]).await.unwrap(), 0);
}

#[tokio::test]
async fn dead_targets_are_suppressed_again_unless_registered_since() {
    let (fixture, app) = with_app().await;
    let (dead, alive) =
        (fixture.job(app, 0, Channel::MobilePush, 1), fixture.job(app, 1, Channel::MobilePush, 1));
    let mut restore = fixture.restore().await;
    restore.add_jobs(&[dead.clone(), alive.clone()]).await.unwrap();
    fixture.store.directory().merge_user(app, "user-1", domain::content::Object::new()).await.unwrap();
    sqlx::query(
        "INSERT INTO push_token (app_id, target, user_number, registered_at)
         SELECT app_id, 'target-1', number, $1 FROM app_user",
    )
    .bind(chrono::DateTime::<chrono::Utc>::from(at(60)))
    .execute(&fixture.pool)
    .await
    .unwrap();
    let reported: [(AppId, _, Timestamp); 2] =
        [(app, dead.job.delivery_id, NOW), (app, alive.job.delivery_id, NOW)];
    assert_eq!(restore.add_suppressions(&reported).await.unwrap(), 1);
    assert_eq!(restore.add_suppressions(&reported).await.unwrap(), 0);
    assert_eq!(fixture.count("SELECT count(*) FROM suppression WHERE target = 'target-0'").await, 1);
}
