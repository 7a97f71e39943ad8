//! A mailbox is suppressed in all of its spellings.

use std::sync::Arc;

use domain::{Channel, Reason, SendRequest, Status};
use serde_json::json;
use store::Error;
use store::deliveries::ledger::Claim;
use store::deliveries::suppression::RestoreResult;
use store::sends::chunk::Chunk;

use crate::{NOW, fixture, send_id};

#[tokio::test]
async fn a_delivery_to_another_spelling_of_a_dead_mailbox_is_not_claimed() -> Result<(), Error> {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ada = fixture.with_profile(app, "ada", &json!({})).await;
    fixture.suppress(app, ada, Channel::Email, "dead@Receiver.Example").await;
    for (target, is_dead) in [
        ("dead@receiver.example", true),
        ("DEAD@receiver.example", true),
        ("dead@receiver.example.org", false),
        ("dead+1@receiver.example", false),
    ] {
        let delivery = fixture.delivery(app, ada, Channel::Email, target).await;
        match fixture.claim_one(app, delivery).await {
            Claim::NotDue(state) if is_dead => {
                assert_eq!(
                    (state.status, state.reason),
                    (Status::Skipped, Some(Reason::Suppressed)),
                    "{target}"
                );
            }
            Claim::Granted { .. } if !is_dead => {}
            other => panic!("{target}: {other:?}"),
        }
    }
    Ok(())
}

#[tokio::test]
async fn planning_finds_a_suppression_in_any_spelling_that_a_release_wrote() -> Result<(), Error> {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let insert = "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
                  VALUES ($1, 'main', 'email', 'smtp', 1, true, '{}')";
    sqlx::query(insert).bind(app.0).execute(&fixture.pool).await.unwrap();
    for (stored, now) in [
        ("dead@Receiver.Example", "dead@receiver.example"),
        ("one@b\u{fc}cher.example", "one@xn--bcher-kva.example"),
        ("two@xn--bcher-kva.example", "two@B\u{dc}CHER.example"),
        ("jose\u{301}@x.example", "jos\u{e9}@X.example"),
    ] {
        let suppress = "INSERT INTO suppression (app_id, channel, target, delivery_id, code)
                        VALUES ($1, 'email', $2, gen_random_uuid(), '550')";
        sqlx::query(suppress).bind(app.0).bind(stored).execute(&fixture.pool).await.unwrap();
        let ada = fixture.with_profile(app, "ada", &json!({"email": now})).await;
        let send: SendRequest = serde_json::from_value(json!({
            "content": {"title": "Hi", "message": null, "icon": null, "url": null}, "recipients": [{"identifier": "ada"}],
            "lane": "transactional",
        }))
        .unwrap();
        let chunk = Chunk::listed(app, send_id(7), 0, NOW, Arc::new(send));
        let (_, facts) = fixture.store.sends().simulate_facts(chunk).await?;
        let (_, profile) = facts.user(app, "ada").unwrap();
        let target = domain::plan::targets(Channel::Email, "ada", profile, &[]).unwrap().remove(0);
        let suppressed =
            facts.suppressed(app).is_some_and(|all| all.contains(&(Channel::Email, target.text)));
        assert!(suppressed, "{stored} {now} {ada}");
    }
    Ok(())
}

#[tokio::test]
async fn lifting_lifts_all_spellings_of_a_mailbox() -> Result<(), Error> {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ada = fixture.with_profile(app, "ada", &json!({})).await;
    for target in ["ada@Old.Example", "other@old.example"] {
        fixture.suppress(app, ada, Channel::Email, target).await;
    }
    assert_eq!(fixture.lift(app, Channel::Email, " ADA@old.example").await, Some(RestoreResult::Nothing));
    assert_eq!(fixture.suppressed().await, ["other@old.example"]);
    assert_eq!(fixture.lift(app, Channel::Email, "ada@old.example").await, None);
    Ok(())
}
