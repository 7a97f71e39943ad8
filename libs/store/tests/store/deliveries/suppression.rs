//! Suppression of dead targets: tokens and subscriptions are removed and restored, and nothing is sent to dead targets.

mod races;
mod spellings;

use std::time::Duration;

use domain::content::Object;
use domain::outcome::TargetDeath;
use domain::profile::{Author, Change, Patch};
use domain::web_push::Subscription;
use domain::{
    Actor, Answer, AppId, Channel, DeliveryId, Outcome, Reason, Status, StreamName, Timestamp, UserNumber,
};
use serde_json::{Value, json};
use store::deliveries::ledger::{Claim, ClaimRequest};
use store::deliveries::settlement::{RecordedStep, Settlement};
use store::deliveries::suppression::{LiftedSuppression, RestoreResult, SuppressionFilter};
use uuid::Uuid;

use crate::{Fixture, NOW, fixture, send_id};

const LEASE: Duration = Duration::from_secs(60);
const FUTURE: Timestamp = Timestamp::from_millis(32_503_680_000_000);

fn object(value: &Value) -> Object {
    value.as_object().unwrap().clone()
}

impl Fixture {
    async fn with_profile(&self, app: AppId, identifier: &str, profile: &Value) -> UserNumber {
        self.store.directory().merge_user(app, identifier, object(profile)).await.unwrap().number
    }

    /// Adds a queued delivery to a target of the user.
    async fn delivery(&self, app: AppId, user: UserNumber, channel: Channel, target: &str) -> DeliveryId {
        let id: Uuid = sqlx::query_scalar(
            "INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target)
             VALUES ($1, gen_random_uuid(), $2, 0, $3, $4, $5) RETURNING id",
        )
        .bind(app.0)
        .bind(send_id(1).0)
        .bind(user.0)
        .bind(channel.as_str())
        .bind(target)
        .fetch_one(&self.pool)
        .await
        .unwrap();
        DeliveryId(id)
    }

    async fn claim_one(&self, app: AppId, delivery: DeliveryId) -> Claim {
        let request = ClaimRequest { app, delivery, attempt: 1, provider: Some("main".to_owned()) };
        self.store.deliveries().claim(&[request], LEASE).await.unwrap().remove(0)
    }

    /// Claims the first attempt, and settles it with the answer that the target is dead.
    async fn gone(&self, app: AppId, user: UserNumber, delivery: DeliveryId, gone: TargetDeath) {
        let settlement = self.dead(app, user, delivery, gone).await;
        assert_eq!(self.store.deliveries().settle(&[settlement]).await.unwrap(), [true]);
    }

    async fn dead(
        &self,
        app: AppId,
        user: UserNumber,
        delivery: DeliveryId,
        gone: TargetDeath,
    ) -> Settlement {
        let Claim::Granted { token, .. } = self.claim_one(app, delivery).await else { panic!("not granted") };
        Settlement {
            app,
            send_id: Some(send_id(1)),
            delivery,
            user,
            token,
            attempt: 1,
            provider: Some("main".to_owned()),
            started_at: NOW,
            ended_at: NOW,
            answer: Answer::new(Outcome::TargetGone(gone), "410 Unregistered", "gone"),
            next: RecordedStep::End(Status::Failed, Some(Reason::TargetGone)),
            job: (StreamName::Outcome, Vec::new().into()),
            receipts: false,
        }
    }

    /// Adds a delivery whose target the provider reports as dead.
    async fn suppress(&self, app: AppId, user: UserNumber, channel: Channel, target: &str) -> DeliveryId {
        let delivery = self.delivery(app, user, channel, target).await;
        self.gone(app, user, delivery, TargetDeath::default()).await;
        delivery
    }

    async fn profile_of(&self, app: AppId, identifier: &str) -> Value {
        Value::Object(self.store.directory().find_user(app, identifier).await.unwrap().unwrap().profile)
    }

    async fn suppressed(&self) -> Vec<String> {
        sqlx::query_scalar("SELECT target FROM suppression ORDER BY target")
            .fetch_all(&self.pool)
            .await
            .unwrap()
    }

    async fn lift(&self, app: AppId, channel: Channel, target: &str) -> Option<RestoreResult> {
        let lifted = self
            .store
            .deliveries()
            .lift_suppression(app, channel, target, &Actor::Cli("test".to_owned()))
            .await
            .unwrap();
        lifted.map(|LiftedSuppression { restored, .. }| restored)
    }
}

#[tokio::test]
async fn a_dead_token_is_removed_from_every_profile_of_the_app_that_holds_it() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let other = fixture.app("bank").await;
    let both = json!({"name": "Ada", "fcm": {"tokens": ["a:1", "b", "c"]}, "apns": {"tokens": ["a:1"]}});
    let ada = fixture.with_profile(app, "ada", &both).await;
    fixture.with_profile(app, "bob", &json!({"fcm": {"tokens": ["a:1"]}})).await;
    fixture.with_profile(other, "ada", &both).await;

    // One transaction suppresses two tokens of the same user.
    let mut dead = Vec::new();
    for target in ["fcm:a:1", "fcm:c"] {
        let id = fixture.delivery(app, ada, Channel::MobilePush, target).await;
        dead.push(fixture.dead(app, ada, id, TargetDeath::default()).await);
    }
    assert_eq!(fixture.store.deliveries().settle(&dead).await.unwrap(), [true, true]);
    assert_eq!(
        fixture.profile_of(app, "ada").await,
        json!({"name": "Ada", "fcm": {"tokens": ["b"]}, "apns": {"tokens": ["a:1"]}})
    );
    assert_eq!(fixture.profile_of(app, "bob").await, json!({"fcm": {"tokens": []}}));
    assert_eq!(fixture.profile_of(other, "ada").await, both);
    assert_eq!(fixture.suppressed().await, ["fcm:a:1", "fcm:c"]);
    let left = "SELECT count(*) FROM push_token WHERE target IN ('fcm:a:1', 'fcm:c') AND app_id = 1";
    assert_eq!(fixture.count(left).await, 0);
}

#[tokio::test]
async fn an_address_is_suppressed_and_stays_on_the_profile() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let profile = json!({"email": "ada@example.com"});
    let ada = fixture.with_profile(app, "ada", &profile).await;
    let delivery = fixture.suppress(app, ada, Channel::Email, "ada@example.com").await;
    assert_eq!(fixture.profile_of(app, "ada").await, profile);

    let listed =
        fixture.store.deliveries().list_suppressions(SuppressionFilter::default(), 10).await.unwrap();
    let found = &listed[0];
    assert_eq!((found.app, found.app_name.as_str(), found.channel), (app, "shop", Channel::Email));
    assert_eq!((found.target.as_str(), found.delivery), ("ada@example.com", delivery));
    assert_eq!(found.code, "410 Unregistered");
    assert_eq!(fixture.lift(app, Channel::Email, "ada@example.com").await, Some(RestoreResult::Nothing));
    assert_eq!(fixture.lift(app, Channel::Email, "ada@example.com").await, None, "already lifted");
    assert!(fixture.suppressed().await.is_empty());
    let audited = "SELECT count(*) FROM audit WHERE action = 'suppression.lift' AND actor = 'cli:test'
                   AND subject NOT LIKE '%ada@%'";
    assert_eq!(fixture.count(audited).await, 1);
}

#[tokio::test]
async fn suppressions_are_listed_by_app_and_channel_latest_first() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let other = fixture.app("bank").await;
    let ada = fixture.with_profile(app, "ada", &json!({})).await;
    let bob = fixture.with_profile(other, "bob", &json!({})).await;
    fixture.suppress(app, ada, Channel::Email, "first@example.com").await;
    fixture.suppress(app, ada, Channel::Sms, "+491").await;
    fixture.suppress(other, bob, Channel::Email, "last@example.com").await;
    let list = async |filter, limit| {
        let found = fixture.store.deliveries().list_suppressions(filter, limit).await.unwrap();
        found.into_iter().map(|found| found.target).collect::<Vec<_>>()
    };
    let all = SuppressionFilter::default();
    assert_eq!(list(all, 10).await, ["last@example.com", "+491", "first@example.com"]);
    assert_eq!(list(all, 1).await, ["last@example.com"]);
    let of_app = SuppressionFilter { app: Some(app), ..all };
    assert_eq!(list(of_app, 10).await, ["+491", "first@example.com"]);
    let emails = SuppressionFilter { channel: Some(Channel::Email), ..of_app };
    assert_eq!(list(emails, 10).await, ["first@example.com"]);
}

#[tokio::test]
async fn lifting_restores_a_token_to_the_profiles_that_had_it() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let other = fixture.app("bank").await;
    let profile = json!({"apns": {"tokens": ["a"]}});
    let ada = fixture.with_profile(app, "ada", &profile).await;
    fixture.with_profile(app, "bob", &profile).await;
    let before = "SELECT count(*) FROM push_token WHERE registered_at < now() - interval '1 hour'";
    sqlx::query("UPDATE push_token SET registered_at = now() - interval '1 day'")
        .execute(&fixture.pool)
        .await
        .unwrap();
    let delivery = fixture.suppress(app, ada, Channel::MobilePush, "apns:a").await;
    assert_eq!(fixture.count(before).await, 0);

    assert_eq!(fixture.lift(other, Channel::MobilePush, "apns:a").await, None, "wrong app");
    assert_eq!(fixture.lift(app, Channel::Email, "apns:a").await, None, "wrong channel");
    let by_delivery = delivery.0.to_string();
    assert_eq!(fixture.lift(app, Channel::MobilePush, &by_delivery).await, Some(RestoreResult::Token(2)));
    assert_eq!(fixture.profile_of(app, "ada").await, profile);
    assert_eq!(fixture.profile_of(app, "bob").await, profile);
    assert_eq!(fixture.count(before).await, 2, "the times of registration are restored");
}

#[tokio::test]
async fn a_token_is_not_restored_to_a_missing_user_or_one_who_has_it_again() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let profile = json!({"fcm": {"tokens": ["a"]}});
    let ada = fixture.with_profile(app, "ada", &profile).await;
    fixture.with_profile(app, "bob", &profile).await;
    fixture.suppress(app, ada, Channel::MobilePush, "fcm:a").await;
    sqlx::query("DELETE FROM app_user WHERE identifier = 'ada'").execute(&fixture.pool).await.unwrap();
    sqlx::query("UPDATE app_user SET profile = $1").bind(&profile).execute(&fixture.pool).await.unwrap();
    assert_eq!(fixture.lift(app, Channel::MobilePush, "fcm:a").await, Some(RestoreResult::NotNeeded));
    assert_eq!(fixture.profile_of(app, "bob").await, profile);
}

#[tokio::test]
async fn registering_a_token_again_lifts_its_suppression() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let other = fixture.app("bank").await;
    let profile = json!({"fcm": {"tokens": ["a"]}});
    for (number, writes) in [0_u128, 1, 2, 3, 4].into_iter().enumerate() {
        let ada = fixture.with_profile(app, "ada", &profile).await;
        let there = fixture.with_profile(other, "ada", &profile).await;
        fixture.suppress(app, ada, Channel::MobilePush, "fcm:a").await;
        fixture.suppress(other, there, Channel::MobilePush, "fcm:a").await;
        let pairs = object(&json!({"fcm": {"token": "a"}}));
        match writes {
            0 => drop(fixture.store.directory().merge_user(app, "bob", pairs).await.unwrap()),
            1 => fixture.store.directory().connect_device(app, "ada", &pairs, "phone", None).await.unwrap(),
            2 => drop(
                fixture.store.directory().merge_many(app, vec![("ada".to_owned(), pairs)]).await.unwrap(),
            ),
            3 => drop(fixture.store.directory().create_user(app, "new", pairs).await.unwrap().unwrap()),
            _ => {
                let add = json!([{"op": "add", "path": "/fcm/tokens/-", "value": "a"}]);
                let Value::Array(add) = add else { panic!("no array") };
                let patch = Change::Patch(Patch::read(add, 10, true, &mut Vec::new()));
                fixture.store.directory().change_profile(app, "ada", patch, Author::App).await.unwrap();
            }
        }
        let apps: Vec<i64> = sqlx::query_scalar("DELETE FROM suppression RETURNING app_id")
            .fetch_all(&fixture.pool)
            .await
            .unwrap();
        assert_eq!(apps, [other.0], "write {number}");
    }
}

#[tokio::test]
async fn a_token_registered_after_its_reported_death_is_not_suppressed() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let profile = json!({"apns": {"tokens": ["a"]}});
    let ada = fixture.with_profile(app, "ada", &profile).await;
    let delivery = fixture.delivery(app, ada, Channel::MobilePush, "apns:a").await;
    fixture
        .gone(app, ada, delivery, TargetDeath { since: Some(NOW - Duration::from_secs(1)), here_only: false })
        .await;
    assert!(fixture.suppressed().await.is_empty());
    assert_eq!(fixture.profile_of(app, "ada").await, profile);

    let delivery = fixture.delivery(app, ada, Channel::MobilePush, "apns:a").await;
    fixture.gone(app, ada, delivery, TargetDeath { since: Some(FUTURE), here_only: false }).await;
    assert_eq!(fixture.suppressed().await, ["apns:a"]);
    // A token without a registration time is suppressed, whatever the time of death is.
    sqlx::query("INSERT INTO app_user (app_id, identifier, profile) VALUES ($1, 'old', $2)")
        .bind(app.0)
        .bind(json!({"apns": {"tokens": ["old"]}}))
        .execute(&fixture.pool)
        .await
        .unwrap();
    let old = fixture.store.directory().find_user(app, "old").await.unwrap().unwrap().number;
    let delivery = fixture.delivery(app, old, Channel::MobilePush, "apns:old").await;
    fixture.gone(app, old, delivery, TargetDeath { since: Some(NOW), here_only: false }).await;
    assert_eq!(fixture.suppressed().await, ["apns:a", "apns:old"]);
    assert_eq!(fixture.profile_of(app, "old").await, json!({"apns": {"tokens": []}}));
}

#[tokio::test]
async fn removing_a_token_from_a_profile_removes_its_registration() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let targets = async || -> Vec<String> {
        sqlx::query_scalar("SELECT target FROM push_token ORDER BY target")
            .fetch_all(&fixture.pool)
            .await
            .unwrap()
    };
    fixture.with_profile(app, "ada", &json!({"fcm": {"tokens": ["a", "b"]}, "name": "Ada"})).await;
    assert_eq!(targets().await, ["fcm:a", "fcm:b"]);
    fixture.with_profile(app, "ada", &json!({"name": "Countess"})).await;
    let Value::Array(remove) = json!([{"op": "remove", "path": "/fcm/tokens/0"}]) else { panic!("no array") };
    let patch = Change::Patch(Patch::read(remove, 10, true, &mut Vec::new()));
    fixture.store.directory().change_profile(app, "ada", patch, Author::App).await.unwrap();
    assert_eq!(targets().await, ["fcm:b"]);
    sqlx::query("DELETE FROM app_user").execute(&fixture.pool).await.unwrap();
    assert!(targets().await.is_empty());
}

#[tokio::test]
async fn no_target_of_a_user_erased_meanwhile_is_suppressed() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ada = fixture.with_profile(app, "ada", &json!({"fcm": {"tokens": ["a"]}})).await;
    let delivery = fixture.delivery(app, ada, Channel::MobilePush, "fcm:a").await;
    let dead = fixture.dead(app, ada, delivery, TargetDeath::default()).await;
    sqlx::query("INSERT INTO erased (app_id, user_number, erased_at) VALUES ($1, $2, now())")
        .bind(app.0)
        .bind(ada.0)
        .execute(&fixture.pool)
        .await
        .unwrap();
    fixture.store.deliveries().settle(&[dead]).await.unwrap();
    assert!(fixture.suppressed().await.is_empty());
}

#[tokio::test]
async fn a_dead_subscription_is_removed_and_restored_to_its_device() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ada = fixture.with_profile(app, "ada", &json!({})).await;
    let endpoint = "https://push.example/a";
    let subscription = Subscription {
        endpoint: endpoint.to_owned(),
        p256dh: vec![4, 1],
        auth: vec![2],
        expires_at: Some(FUTURE),
    };
    fixture.store.directory().subscribe(app, "ada", "browser", &subscription).await.unwrap();

    let there = "SELECT count(*) FROM web_push_subscription WHERE p256dh = '\\x0401' AND auth = '\\x02'
                   AND expires_at > now() AND device_id = 'browser'";
    fixture.suppress(app, ada, Channel::WebPush, endpoint).await;
    assert_eq!(fixture.count(there).await, 0);
    assert_eq!(fixture.lift(app, Channel::WebPush, endpoint).await, Some(RestoreResult::Subscription));
    assert_eq!(fixture.count(there).await, 1);

    fixture.suppress(app, ada, Channel::WebPush, endpoint).await;
    fixture.store.directory().subscribe(app, "ada", "browser", &subscription).await.unwrap();
    assert!(fixture.suppressed().await.is_empty(), "subscribing again lifts the suppression");

    fixture.suppress(app, ada, Channel::WebPush, endpoint).await;
    sqlx::query("DELETE FROM device").execute(&fixture.pool).await.unwrap();
    assert_eq!(fixture.lift(app, Channel::WebPush, endpoint).await, Some(RestoreResult::NotNeeded));
}

#[tokio::test]
async fn a_number_is_lifted_in_every_spelling() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ada = fixture.with_profile(app, "ada", &json!({"phoneNumber": "+49 151 12345678"})).await;
    for spelling in ["+49 151 12345678", "+49 (0)151/1234-5678", "+4915112345678"] {
        let id = fixture.delivery(app, ada, Channel::Sms, "+4915112345678").await;
        let dead = fixture.dead(app, ada, id, TargetDeath::default()).await;
        fixture.store.deliveries().settle(&[dead]).await.unwrap();
        assert_eq!(fixture.suppressed().await, ["+4915112345678"]);
        assert_eq!(
            fixture.lift(app, Channel::Sms, spelling).await,
            Some(RestoreResult::Nothing),
            "{spelling}"
        );
        assert_eq!(fixture.suppressed().await, [""; 0]);
    }
}
