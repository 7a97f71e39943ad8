//! Timers.

use std::collections::HashSet;
use std::time::Duration;

use domain::{AppId, Channel, Lane, StreamName, Timestamp};
use store::deliveries::timer::NewTimer;
use testkit::eventually;
use uuid::Uuid;

use crate::{Fixture, LIMIT, NOW, fixture};

const STREAM: StreamName = StreamName::Job(Channel::Email, Lane::Bulk);

fn timer(app: AppId, number: u128, due_at: Timestamp) -> NewTimer {
    let id = Uuid::from_u128(number);
    NewTimer { id, due_at, stream: STREAM, message: vec![0, 255], app, send_id: None, user: None, wait: None }
}

impl Fixture {
    /// Returns the current time of the database's clock.
    async fn now(&self) -> Timestamp {
        let now: chrono::DateTime<chrono::Utc> =
            sqlx::query_scalar("SELECT now()").fetch_one(&self.pool).await.unwrap();
        now.into()
    }
}

#[tokio::test]
async fn a_timer_is_due_at_its_time() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let later = fixture.now().await + Duration::from_secs(3_600);
    fixture.store.deliveries().set_timers(&[timer(app, 1, later)]).await.unwrap();
    assert!(fixture.store.deliveries().due_timers(10).await.unwrap().timers.is_empty());

    let soon = fixture.now().await + Duration::from_millis(300);
    fixture.store.deliveries().set_timers(&[timer(app, 2, soon)]).await.unwrap();
    let due = eventually(LIMIT, "the timer is due", async || {
        let due = fixture.store.deliveries().due_timers(10).await.unwrap();
        (!due.timers.is_empty()).then_some(due)
    })
    .await;
    assert!(fixture.now().await >= soon);
    let [one] = &due.timers[..] else { panic!("{due:?}") };
    assert_eq!((one.id, one.stream, &one.message[..]), (Uuid::from_u128(2), STREAM, &[0, 255][..]));
}

#[tokio::test]
async fn two_processes_never_get_the_same_timer_and_unfinished_timers_stay() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let timers: Vec<_> = (0..30).map(|number| timer(app, number, NOW)).collect();
    fixture.store.deliveries().set_timers(&timers).await.unwrap();
    let (one, other) = (
        fixture.store.deliveries().due_timers(20).await.unwrap(),
        fixture.store.deliveries().due_timers(20).await.unwrap(),
    );
    let ids: HashSet<_> = one.timers.iter().chain(&other.timers).map(|timer| timer.id).collect();
    assert_eq!((one.timers.len(), other.timers.len(), ids.len()), (20, 10, 30));
    let published: Vec<_> = one.timers[..5].iter().map(|timer| timer.id).collect();
    one.done(&published).await.unwrap();
    drop(other);
    let rest = eventually(LIMIT, "the other timers are due again", async || {
        let due = fixture.store.deliveries().due_timers(100).await.unwrap();
        (due.timers.len() == 25).then_some(due)
    })
    .await;
    assert!(rest.timers.iter().all(|timer| !published.contains(&timer.id)));
}

#[tokio::test]
async fn unpublished_timers_do_not_block_others() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let stuck = timer(app, 1, NOW);
    let fresh = timer(app, 2, NOW + Duration::from_secs(1));
    fixture.store.deliveries().set_timers(&[stuck, fresh]).await.unwrap();
    let first = fixture.store.deliveries().due_timers(1).await.unwrap();
    assert_eq!(first.timers[0].id, Uuid::from_u128(1));
    first.done(&[]).await.unwrap();
    let second = fixture.store.deliveries().due_timers(1).await.unwrap();
    assert_eq!(second.timers[0].id, Uuid::from_u128(2));
    second.done(&[Uuid::from_u128(2)]).await.unwrap();
    let again = eventually(LIMIT, "the first timer is due again", async || {
        fixture.store.deliveries().due_timers(1).await.unwrap().timers.first().cloned()
    })
    .await;
    assert_eq!(again.id, Uuid::from_u128(1));
}

#[tokio::test]
async fn a_timer_of_an_unknown_stream_is_postponed_and_the_others_are_returned() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.store.deliveries().set_timers(&[timer(app, 1, NOW), timer(app, 2, NOW)]).await.unwrap();
    sqlx::query("UPDATE timer SET stream = 'PIGEON' WHERE id = $1")
        .bind(Uuid::from_u128(1))
        .execute(&fixture.pool)
        .await
        .unwrap();
    let due = fixture.store.deliveries().due_timers(10).await.unwrap();
    assert_eq!(due.timers.iter().map(|timer| timer.id).collect::<Vec<_>>(), [Uuid::from_u128(2)]);
    due.done(&[Uuid::from_u128(2)]).await.unwrap();
    let waiting: i64 =
        sqlx::query_scalar("SELECT count(*) FROM timer WHERE stream = 'PIGEON' AND due_at > now()")
            .fetch_one(&fixture.pool)
            .await
            .unwrap();
    assert_eq!(waiting, 1);
}

#[tokio::test]
async fn large_due_timers_are_read_a_few_at_a_time() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let large: Vec<_> = (0..5)
        .map(|number| NewTimer { message: vec![7; 3 * 1024 * 1024], ..timer(app, number, NOW) })
        .collect();
    fixture.store.deliveries().set_timers(&large).await.unwrap();
    for expected in [3, 2, 0] {
        let due = fixture.store.deliveries().due_timers(10).await.unwrap();
        assert_eq!(due.timers.len(), expected);
        let ids: Vec<_> = due.timers.iter().map(|timer| timer.id).collect();
        due.done(&ids).await.unwrap();
    }
}
