//! Restored plans, and sends that are planned again.

use domain::content::Object;
use domain::event::SendPlanned;
use domain::{AppId, Channel, Reason, UserNumber};
use serde_json::json;
use store::recovery::restore::FoundPlan;
use store::sends::chunk::Chunk;

use super::{accepted, people, plan};
use crate::{NOW, fixture, recipient, send_id};

#[tokio::test]
async fn a_chunk_is_frozen_again_with_its_users() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let mut brought = recipient("user-1");
    brought.profile = json!({"email": "ada@example.com"}).as_object().cloned();
    let mut restore = fixture.restore().await;
    restore.add_sends(&[accepted(app, vec![recipient("user-0"), brought])]).await.unwrap();
    restore.add_jobs(&[fixture.job(app, 0, Channel::Email, 1)]).await.unwrap();
    let found = [plan(app, 0, 2, 1), plan(app, 0, 2, 1)];
    let restored = restore.add_plans(&found).await.unwrap();
    assert_eq!((restored.chunks, restored.users, restored.categories), (1, 2, 0));
    let again = restore.add_plans(&found).await.unwrap();
    assert_eq!((again.chunks, again.users), (0, 0));

    let user = fixture.store.directory().find_user(app, "user-1").await.unwrap().unwrap();
    assert_eq!((user.number, &user.profile["email"]), (UserNumber(101), &json!("ada@example.com")));
    let stored = "SELECT count(*) FROM planned_recipient WHERE in_app AND skips = '{webPush:no_address}'
                  AND user_number = 100 + recipient_index AND identifier = 'user-' || recipient_index";
    assert_eq!(fixture.count(stored).await, 2);
    let chunk = accepted(app, people(2));
    assert!(!fixture.store.sends().freeze(&[chunk]).await.unwrap().is_new(0), "the chunk is frozen");
}

#[tokio::test]
async fn an_incomplete_chunk_is_left_to_be_planned() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let mut restore = fixture.restore().await;
    assert_eq!(restore.add_plans(&[plan(app, 0, 2, 0)]).await.unwrap().chunks, 0, "no send");
    restore.add_sends(&[accepted(app, people(2))]).await.unwrap();
    let of_before = FoundPlan {
        planned: SendPlanned { decided: None, ..plan(app, 0, 2, 0).planned },
        ..plan(app, 0, 2, 0)
    };
    assert_eq!(restore.add_plans(&[of_before]).await.unwrap().chunks, 0, "no decisions");
    assert_eq!(restore.add_plans(&[plan(app, 0, 1, 0)]).await.unwrap().chunks, 0, "one recipient missing");
    assert_eq!(restore.add_plans(&[plan(app, 0, 2, 1)]).await.unwrap().chunks, 0, "no job");

    let open = restore.unfinished(None, 10).await.unwrap();
    assert_eq!(open.len(), 1);
    assert!(open[0].is_open && open[0].send.chunk == 0);
}

#[tokio::test]
async fn categories_are_restored_under_their_numbers() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let chunk = accepted(app, people(1));
    let mut send = (*chunk.send).clone();
    send.category = Some("orders".to_owned());
    let mut found = plan(app, 0, 1, 0);
    if let Some(decided) = &mut found.planned.decided {
        decided.category = Some(domain::CategoryId(40));
    }
    let mut restore = fixture.restore().await;
    restore.add_sends(&[Chunk { send: send.into(), ..chunk }]).await.unwrap();
    assert_eq!(restore.add_plans(&[found]).await.unwrap().categories, 1);
    assert_eq!(fixture.count("SELECT id FROM category WHERE identifier = 'orders'").await, 40);
    assert_eq!(fixture.count("SELECT category_id FROM request").await, 40);
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
        "the last chunk may not have been carried out"
    );
    restore.go_on(&open, &[]).await.unwrap();
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
    assert_eq!(restore.go_on(&open, &[]).await.unwrap(), 1);
    let user = fixture.store.directory().find_user(app, "user-2").await.unwrap().unwrap();
    assert_eq!(user.number, UserNumber(102));
    assert_eq!(fixture.count("SELECT count(*) FROM request WHERE body IS NOT NULL").await, 0);
}

#[tokio::test]
async fn a_chunk_whose_job_was_never_published_is_carried_out_again() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let chunk = accepted(app, vec![recipient("ada@example.com")]);
    fixture.store.directory().merge_user(app, "ada@example.com", Object::new()).await.unwrap();
    freeze_with_email(&fixture.store, &chunk).await;
    let mut restore = fixture.restore().await;
    restore.add_sends(std::slice::from_ref(&chunk)).await.unwrap();
    let open = restore.unfinished(None, 10).await.unwrap();
    assert!(open.len() == 1 && open[0].is_open && open[0].send.chunk == 0);

    let mut found = fixture.job(app, 0, Channel::Email, 1);
    found.job.delivery_id = delivery(app, &fixture).await;
    restore.add_jobs(&[found]).await.unwrap();
    assert!(!restore.unfinished(None, 10).await.unwrap()[0].is_open, "the job exists");
}

async fn delivery(app: AppId, fixture: &crate::Fixture) -> domain::DeliveryId {
    let id = sqlx::query_scalar("SELECT id FROM delivery WHERE app_id = $1").bind(app.0);
    domain::DeliveryId(id.fetch_one(&fixture.pool).await.unwrap())
}

async fn freeze_with_email(store: &store::Store, chunk: &Chunk) {
    let mut freeze = store.sends().freeze(std::slice::from_ref(chunk)).await.unwrap();
    let facts = freeze.facts().await.unwrap();
    let (user, _) = facts.user(chunk.app, "ada@example.com").unwrap();
    let target = "ada@example.com".to_owned();
    let id = domain::DeliveryId::derive(chunk.send_id, user, Channel::Email, &target);
    let decision = domain::plan::Decision {
        identifier: "ada@example.com".to_owned(),
        user: Some(user),
        in_app: false,
        deliveries: vec![domain::plan::PlannedDelivery { id, channel: Channel::Email, target }],
        skips: vec![(Channel::InApp, Reason::NotSelected)],
    };
    freeze.commit(&facts, &[vec![(0, decision)]]).await.unwrap();
    assert_eq!(NOW, chunk.accepted_at);
}
