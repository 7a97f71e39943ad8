//! Redrives after a preview.

use std::time::Duration;

use domain::redrive::{RunState, Skip};
use domain::{AppId, Channel, Role};
use operations::parked::ParkedKind;
use operations::redrives::{self, NewRedrive, RedrivePreview};
use operations::{Caller, Conflict, Grant, Object, OperationError};
use sqlx::{Connection as _, PgConnection};
use store::deliveries::redrive::ParkedFilter;

use crate::{World, world};

const PARK: &str = "WITH new AS (
     INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status, reason, expires_at)
     SELECT (SELECT id FROM app), lpad(to_hex(n), 32, '0')::uuid, '00000000-0000-0000-0000-000000000001', n, n / 2 + 1,
       CASE WHEN n % 2 = 0 THEN 'email' ELSE 'sms' END, 'x', 'parked', 'retries_exhausted',
       CASE WHEN n = 5 THEN now() END
     FROM generate_series(0, 5) AS n RETURNING app_id, id, send_id, user_number, channel
   )
   INSERT INTO parked (id, app_id, send_id, delivery_id, user_number, stream, message, cause)
   SELECT gen_random_uuid(), app_id, send_id, id, user_number, 'JOB_' || channel || '_bulk', '', '535' FROM new";

async fn preview(world: &World) -> RedrivePreview {
    let operator = world.operator(Role::Operator);
    let any = ParkedFilter::default();
    redrives::preview(&world.operations, &operator, world.shop, &any, |_| ()).await.unwrap()
}

fn new<'a>(world: &World, filter: &'a ParkedFilter, preview: &RedrivePreview) -> NewRedrive<'a> {
    NewRedrive {
        app: world.shop,
        filter,
        previewed_at: preview.at,
        per_second: 50,
        expected: preview.expected(),
        typed: None,
        is_confirmed: false,
    }
}

async fn start(world: &World, new: &NewRedrive<'_>) -> Result<i64, OperationError> {
    redrives::start(&world.operations, &world.operator(Role::Operator), new).await
}

#[test]
fn docs_limits_states_the_limits_of_redrives() {
    let page = include_str!("../../../../docs/limits.md");
    for row in [
        format!("| messages that a redrive of the console selects | {} |", redrives::MOST_SELECTED),
        format!(
            "| messages per second of a redrive | {} | | chosen at the start; {} by default |",
            redrives::RATES.2,
            redrives::RATES.1
        ),
        format!("| messages of a redrive without the typed number and a password | {} |", redrives::LARGE),
        format!(
            "| time for which the preview of a redrive is valid | {} s |",
            redrives::PREVIEW_VALID.as_secs()
        ),
    ] {
        assert!(page.contains(&row), "{row}");
    }
}

#[tokio::test]
async fn an_app_makes_two_previews_at_once_and_leaves_places_to_others() {
    let world = world().await;
    let any = ParkedFilter::default();
    let operator = Caller::operator(7, vec![Grant { role: Role::Operator, app: None }]);
    let of = async |app| redrives::preview(&world.operations, &operator, app, &any, |_| ()).await.is_ok();
    let (shop, other) = (world.shop, AppId(world.shop.0 + 1));
    // Each preview that has a place waits for the lock, so none ends before the third has asked.
    let mut session = PgConnection::connect(world.database.url()).await.unwrap();
    let mut lock = session.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE parked IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    let (one, two, three, of_other, unlocked) =
        tokio::join!(biased; of(shop), of(shop), of(shop), of(other), lock.rollback());
    unlocked.unwrap();
    assert_eq!((one, two, three, of_other), (true, true, false, true));
    assert!(of(shop).await, "the places are free again");
}

#[tokio::test]
async fn a_preview_counts_people_messages_and_what_stays_and_the_run_does_the_same() {
    let world = world().await;
    world.run(PARK).await;
    let mut seen = 0;
    let any = ParkedFilter::default();
    let operator = world.operator(Role::Operator);
    let preview =
        redrives::preview(&world.operations, &operator, world.shop, &any, |_| seen += 1).await.unwrap();
    assert_eq!(preview.messages[&ParkedKind::Job(Channel::Email)], 3);
    assert_eq!(preview.messages[&ParkedKind::Job(Channel::Sms)], 2);
    assert_eq!((preview.people, preview.stay[&Skip::Expired], seen), (3, 1, 6));
    assert_eq!((preview.expected(), preview.selected(), preview.first.len()), (5, 6, 5));
    world.run("UPDATE parked SET parked_at = now() + interval '1 minute' WHERE user_number = 1").await;
    let sms = ParkedFilter { channel: Some(Channel::Sms), ..any.clone() };
    let later = redrives::preview(&world.operations, &operator, world.shop, &sms, |_| ()).await.unwrap();
    assert_eq!((later.expected(), later.selected()), (1, 2), "only what is parked before the preview");

    let id = start(&world, &new(&world, &any, &preview)).await.unwrap();
    let run = redrives::find(&world.operations, &operator, world.shop, id).await.unwrap();
    assert_eq!((run.state, run.per_second, run.filter.before), (RunState::Running, 50, Some(preview.at)));
    assert_eq!((run.expected, run.selected), (3, 4), "counted again at the start");
}

#[tokio::test]
async fn a_preview_of_the_future_or_older_than_a_quarter_of_an_hour_starts_nothing() {
    let world = world().await;
    world.run(PARK).await;
    let (any, preview) = (ParkedFilter::default(), preview(&world).await);
    let quarter = Duration::from_secs(15 * 60);
    for at in [preview.at + Duration::from_secs(60), preview.at - quarter - Duration::from_secs(1)] {
        let stale = NewRedrive { previewed_at: at, ..new(&world, &any, &preview) };
        let refused = start(&world, &stale).await;
        assert!(matches!(refused, Err(OperationError::Conflict(Conflict::PreviewExpired))), "{refused:?}");
    }
    let fresh =
        NewRedrive { previewed_at: preview.at - Duration::from_secs(60), ..new(&world, &any, &preview) };
    let refused = start(&world, &fresh).await;
    assert!(matches!(refused, Err(OperationError::Invalid(_))), "nothing was parked then: {refused:?}");
}

#[tokio::test]
async fn a_rate_out_of_range_and_an_overlapping_run_are_refused() {
    let world = world().await;
    world.run(PARK).await;
    let (any, preview) = (ParkedFilter::default(), preview(&world).await);
    for per_second in [0, 1_001] {
        let wrong = NewRedrive { per_second, ..new(&world, &any, &preview) };
        assert!(matches!(start(&world, &wrong).await, Err(OperationError::Invalid(_))), "{per_second}");
    }
    start(&world, &new(&world, &any, &preview)).await.unwrap();
    let again = start(&world, &new(&world, &any, &preview)).await;
    assert!(matches!(again, Err(OperationError::Conflict(Conflict::RedriveOverlaps))), "{again:?}");
}

#[tokio::test]
async fn more_than_a_thousand_messages_need_the_typed_number_and_a_confirmation() {
    let world = world().await;
    world
        .run(
            "INSERT INTO parked (id, app_id, user_number, stream, message, cause)
             SELECT gen_random_uuid(), (SELECT id FROM app), n, 'SEND_bulk', '', 'malformed' FROM generate_series(1, 1001) AS n",
        )
        .await;
    let (any, preview) = (ParkedFilter::default(), preview(&world).await);
    assert_eq!(preview.expected(), 1_001);
    let whole = new(&world, &any, &preview);
    for refused in [
        NewRedrive { ..whole.clone() },
        NewRedrive { typed: Some(1_000), is_confirmed: true, ..whole.clone() },
        NewRedrive { typed: Some(1_001), ..whole.clone() },
        NewRedrive { expected: 1, typed: Some(1), ..whole.clone() },
    ] {
        let answer = start(&world, &refused).await;
        assert!(matches!(answer, Err(OperationError::Invalid(_))), "{refused:?}: {answer:?}");
    }
    start(&world, &NewRedrive { typed: Some(1_001), is_confirmed: true, ..whole }).await.unwrap();
}

#[tokio::test]
async fn a_run_is_paused_resumed_and_stopped_once() {
    let world = world().await;
    world.run(PARK).await;
    let (any, preview) = (ParkedFilter::default(), preview(&world).await);
    let id = start(&world, &new(&world, &any, &preview)).await.unwrap();
    let operator = world.operator(Role::Operator);
    let change = |to| redrives::change(&world.operations, &operator, world.shop, id, to);
    let unchanged = |refused| matches!(refused, Err(OperationError::Conflict(Conflict::RedriveUnchanged)));
    assert!(unchanged(change(RunState::Running).await));
    change(RunState::Paused).await.unwrap();
    assert!(unchanged(change(RunState::Paused).await));
    change(RunState::Running).await.unwrap();
    change(RunState::Stopped).await.unwrap();
    for to in [RunState::Running, RunState::Paused, RunState::Stopped] {
        let ended = change(to).await;
        assert!(matches!(ended, Err(OperationError::Conflict(Conflict::RedriveEnded))), "{to}: {ended:?}");
    }
    let missing = redrives::change(&world.operations, &operator, world.shop, id + 1, RunState::Paused).await;
    assert!(matches!(missing, Err(OperationError::NotFound(Object::Redrive))), "{missing:?}");
    let audit = world.audit().await;
    for action in ["redrive.start", "redrive.pause", "redrive.resume", "redrive.stop"] {
        let rows = audit.iter().filter(|row| row.action == action);
        let rows: Vec<_> = rows.map(|row| (row.actor.as_str(), row.subject.clone())).collect();
        assert_eq!(rows, [("operator:7", format!("redrive {id}"))], "{action}");
    }
}
