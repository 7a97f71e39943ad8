//! Restored plans, and sends that are planned again after a restore.

use domain::event::ChunkPlanned;
use domain::{Channel, UserNumber};
use store::recovery::restore::FoundPlan;

use super::{accepted, people, plan};
use crate::{fixture, send_id};

#[tokio::test]
async fn a_chunk_is_frozen_again_with_its_users() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let mut restore = fixture.restore().await;
    restore.add_sends(&[accepted(app, people(2))]).await.unwrap();
    restore.add_jobs(&[fixture.job(app, 0, Channel::Email, 1)]).await.unwrap();
    let found = [plan(app, 0, 2, 1), plan(app, 0, 2, 1)];
    let restored = restore.add_plans(&found).await.unwrap();
    assert_eq!((restored.chunks, restored.users), (1, 2));
    let again = restore.add_plans(&found).await.unwrap();
    assert_eq!((again.chunks, again.users), (0, 0));

    let user = fixture.store.directory().find_user(app, "user-1").await.unwrap().unwrap();
    assert_eq!(user.number, UserNumber(101));
    let stored = "SELECT count(*) FROM planned_recipient WHERE in_app AND skips = '{webPush:no_address}'
                  AND user_number = 100 + recipient_index AND identifier = 'user-' || recipient_index";
    assert_eq!(fixture.count(stored).await, 2);
    let chunk = accepted(app, people(2));
    assert!(!fixture.store.sends().freeze(&[chunk]).await.unwrap().chunks[0].is_new, "the chunk is frozen");
}

#[tokio::test]
async fn an_incomplete_chunk_is_left_to_be_planned() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let mut restore = fixture.restore().await;
    assert_eq!(restore.add_plans(&[plan(app, 0, 2, 0)]).await.unwrap().chunks, 0, "the send is unknown");
    restore.add_sends(&[accepted(app, people(2))]).await.unwrap();
    let of_before = FoundPlan {
        planned: ChunkPlanned { decided: None, ..plan(app, 0, 2, 0).planned },
        ..plan(app, 0, 2, 0)
    };
    assert_eq!(restore.add_plans(&[of_before]).await.unwrap().chunks, 0, "the decisions are missing");
    assert_eq!(restore.add_plans(&[plan(app, 0, 1, 0)]).await.unwrap().chunks, 0, "one decision is missing");
    assert_eq!(restore.add_plans(&[plan(app, 0, 2, 1)]).await.unwrap().chunks, 0, "the job is missing");

    let open = restore.unfinished(None, 10).await.unwrap();
    assert_eq!(open.len(), 1);
    assert!(open[0].is_open && open[0].send.chunk == 0);
}

#[tokio::test]
async fn a_send_continues_with_its_first_unplanned_chunk() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let mut restore = fixture.restore().await;
    restore.add_sends(&[accepted(app, people(1_200))]).await.unwrap();
    restore.add_plans(&[plan(app, 0, 500, 0)]).await.unwrap();
    let open = restore.unfinished(None, 10).await.unwrap();
    assert_eq!((open[0].send.chunk, open[0].is_open), (1, true));
    restore.add_plans(&[plan(app, 1, 500, 0), plan(app, 2, 200, 0)]).await.unwrap();
    let open = restore.unfinished(None, 10).await.unwrap();
    assert_eq!(
        (open[0].send.chunk, open[0].is_open),
        (2, true),
        "the last chunk may not have been processed"
    );
    restore.plan_open(&open, &[]).await.unwrap();
    assert_eq!(restore.unfinished(None, 10).await.unwrap().len(), 1, "the chunk needs the body");
    let after = Some((app, send_id(1)));
    assert_eq!(restore.unfinished(after, 10).await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_chunk_that_is_planned_again_finds_the_users_of_its_jobs() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let mut restore = fixture.restore().await;
    restore.add_sends(&[accepted(app, people(3))]).await.unwrap();
    restore.add_jobs(&[fixture.job(app, 2, Channel::Email, 1)]).await.unwrap();
    let open = restore.unfinished(None, 10).await.unwrap();
    assert_eq!(restore.plan_open(&open, &[]).await.unwrap(), 1);
    let user = fixture.store.directory().find_user(app, "user-2").await.unwrap().unwrap();
    assert_eq!(user.number, UserNumber(102));
    assert_eq!(fixture.count("SELECT count(*) FROM request WHERE body IS NOT NULL").await, 0);
}
