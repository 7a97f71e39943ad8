//! Calls before and after a secret, key or switch of the app changes, and the access that each kind of credential gives.

use std::time::Duration;

use domain::app_setting::AppSetting;
use domain::{Actor, SigningAlgorithm};
use store::control::app::NewSecret;

use crate::service::{App, Backing, SOON, Service};
use crate::signer::{Signer, claims, hex, signature};

const LIST: &str = "GET /v3/notifications";
const HOUR: Duration = Duration::from_secs(3600);

async fn set(service: &Service, app: &App, switches: &[AppSetting]) {
    assert!(service.context.store.control().set_settings(app.id, switches, &Actor::System).await.unwrap());
}

/// Creates an app that requires signatures. Rotates its secret, because signatures need a secret that was created after the
/// switch `hmac` was set.
async fn signing(service: &Service) -> App {
    let app = service.app("shop").await;
    set(service, &app, &[AppSetting::Hmac(true)]).await;
    service.rotate(&app, "first", Duration::ZERO).await
}

/// Lists ada's inbox with this additional header, and returns the status and error code.
async fn list(service: &Service, app: &App, name: &str, value: &str) -> (u16, Option<String>) {
    let answer = service.of(app, "ada", LIST).header(name, value).send().await;
    (answer.status, answer.body["code"].as_str().map(str::to_owned))
}

fn refused(code: &str) -> (u16, Option<String>) {
    (401, Some(code.to_owned()))
}

#[tokio::test]
async fn two_secrets_are_valid_during_a_rotation_and_a_third_ends_the_first() {
    let service = Service::start_with(Backing::Nothing).await;
    let first = signing(&service).await;
    let second = service.rotate(&first, "second", HOUR).await;
    let signed = async |app: &App| {
        list(&service, app, "X-SERVICE-USER-SIGNATURE", &hex(&signature(&app.secret, "ada"))).await
    };
    for app in [&first, &second] {
        service.by(app, "GET /v3/categories").send().await.is(200);
        assert_eq!(signed(app).await, (200, None));
    }
    let third = service.rotate(&second, "third", HOUR).await;
    testkit::eventually(SOON, "the gateway accepts the third secret", async || {
        (signed(&third).await == (200, None)).then_some(())
    })
    .await;
    for app in [&second, &third] {
        service.by(app, "GET /v3/categories").send().await.is(200);
        assert_eq!(signed(app).await, (200, None));
    }
    service.by(&first, "GET /v3/categories").send().await.fails(401, "invalid_credentials");
    assert_eq!(signed(&first).await, refused("invalid_signature"));
}

#[tokio::test]
async fn signatures_with_an_expired_secret_are_refused_and_with_the_next_one_accepted() {
    let service = Service::start_with(Backing::Nothing).await;
    let first = signing(&service).await;
    let second = service.rotate(&first, "second", Duration::from_secs(1)).await;
    let signed = async |secret: &str| {
        list(&service, &first, "X-SERVICE-USER-SIGNATURE", &hex(&signature(secret, "ada"))).await
    };
    testkit::eventually(SOON, "the first secret expires", async || {
        (signed(&first.secret).await == refused("invalid_signature")).then_some(())
    })
    .await;
    assert_eq!(signed(&second.secret).await, (200, None));
}

#[tokio::test]
async fn new_keys_are_accepted_and_revoked_keys_refused_within_seconds() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let old = Signer::create(&service, &shop, SigningAlgorithm::Es256).await;
    let tokens = |signer: &Signer| format!("Bearer {}", signer.token(&claims(&shop, "ada")));
    assert_eq!(list(&service, &shop, "Authorization", &tokens(&old)).await, (200, None));

    let new = Signer::create(&service, &shop, SigningAlgorithm::Es256).await;
    testkit::eventually(SOON, "the gateway accepts the new key", async || {
        (list(&service, &shop, "Authorization", &tokens(&new)).await == (200, None)).then_some(())
    })
    .await;
    assert_eq!(
        list(&service, &shop, "Authorization", &tokens(&old)).await,
        (200, None),
        "both keys are valid"
    );

    service.context.store.control().revoke_signing_key(shop.id, &old.kid, &Actor::System).await.unwrap();
    testkit::eventually(SOON, "the gateway refuses the old key", async || {
        let answer = list(&service, &shop, "Authorization", &tokens(&old)).await;
        (answer == refused("invalid_token")).then_some(())
    })
    .await;
    assert_eq!(list(&service, &shop, "Authorization", &tokens(&new)).await, (200, None));
}

#[tokio::test]
async fn secure_mode_takes_effect_within_seconds() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.of(&shop, "ada", LIST).send().await.is(200);
    set(&service, &shop, &[AppSetting::SecureMode(true)]).await;
    testkit::eventually(SOON, "secure mode takes effect", async || {
        (service.of(&shop, "ada", LIST).send().await.status == 401).then_some(())
    })
    .await;
    let categories = service.of(&shop, "ada", "GET /v3/categories").send().await;
    categories.fails(401, "token_required");
    let disabled = AppSetting::Disabled(true);
    set(&service, &shop, &[disabled]).await;
    testkit::eventually(SOON, "the app is disabled", async || {
        (service.by(&shop, "GET /v3/categories").send().await.status == 403).then_some(())
    })
    .await;
    // A caller without a proof does not learn that the app is disabled.
    service.of(&shop, "ada", LIST).send().await.fails(401, "token_required");
}

#[tokio::test]
async fn a_token_and_the_query_name_the_same_user() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let signer = Signer::create(&service, &shop, SigningAlgorithm::Hs256).await;
    let bearer = format!("Bearer {}", signer.token(&claims(&shop, "ada")));
    let call = |path: &str| service.call(path).header("Authorization", &bearer);
    let of_ada = "GET /v3/notifications?userIdentifier=ada";
    let of_bob = "GET /v3/notifications?userIdentifier=bob";
    call(of_bob).send().await.is(200);
    call(of_ada).header("X-SERVICE-API-SECRET", &shop.secret).send().await.is(200);
    let disagreeing = call(of_bob).header("X-ACME-API-SECRET", &shop.secret).send().await;
    disagreeing.fails(401, "conflicting_credentials");
}

#[tokio::test]
async fn secrets_are_recoverable_only_while_signatures_need_them() {
    let service = Service::start_with(Backing::Nothing).await;
    let kept = "SELECT octet_length(sealed)::text FROM app_secret ORDER BY id";
    let shop = service.app("shop").await;
    assert_eq!(service.rows(kept).await, ["0"]);
    set(&service, &shop, &[AppSetting::Hmac(true)]).await;
    let signed = async |app: &App| {
        list(&service, app, "X-SERVICE-USER-SIGNATURE", &hex(&signature(&app.secret, "ada"))).await
    };
    assert_eq!(
        signed(&shop).await,
        refused("invalid_signature"),
        "the secret was created while signatures were off"
    );
    let rotated = service.rotate(&shop, "rotated", HOUR).await;
    assert_eq!(service.rows(kept).await.iter().filter(|size| *size == "0").count(), 1);
    testkit::eventually(SOON, "the gateway accepts a signature with the new secret", async || {
        (signed(&rotated).await == (200, None)).then_some(())
    })
    .await;
    set(&service, &shop, &[AppSetting::Hmac(false)]).await;
    assert_eq!(service.rows(kept).await, ["0", "0"]);
    service.by(&rotated, "GET /v3/categories").send().await.is(200);
}

#[tokio::test]
async fn a_secret_that_cannot_be_opened_admits_no_caller_and_blocks_no_other_app() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = signing(&service).await;
    let damaged = NewSecret { digest: b"digest", sealed: b"sealed with a lost key" };
    service.context.store.control().rotate_secret(shop.id, damaged, HOUR, &Actor::System).await.unwrap();
    let lost = Signer::create(&service, &shop, SigningAlgorithm::Hs256).await;
    let signer = Signer::create(&service, &shop, SigningAlgorithm::Hs256).await;
    service.run("UPDATE signing_key SET sealed = 'damaged' WHERE created_at = (SELECT min(created_at) FROM signing_key)").await;
    let token = |signer: &Signer| format!("Bearer {}", signer.token(&claims(&shop, "ada")));
    assert_eq!(list(&service, &shop, "Authorization", &token(&lost)).await, refused("invalid_token"));
    assert_eq!(list(&service, &shop, "Authorization", &token(&signer)).await, (200, None));
    let signed = hex(&signature(&shop.secret, "ada"));
    assert_eq!(list(&service, &shop, "X-SERVICE-USER-SIGNATURE", &signed).await, (200, None));
    assert_eq!(list(&service, &shop, "X-SERVICE-USER-SIGNATURE", "null").await, refused("invalid_signature"));
}
