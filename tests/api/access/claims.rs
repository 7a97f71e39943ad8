//! Claims of user tokens with values of another type, unit or place. Each refusal names the claim.

use domain::app_setting::AppSetting;
use domain::{Actor, SigningAlgorithm};
use serde_json::{Value, json};

use crate::client::Answer;
use crate::service::{App, Backing, Service};
use crate::signer::{Signer, claims, seconds, with, without};

async fn list(service: &Service, token: &str) -> Answer {
    service.call("GET /v3/notifications").header("Authorization", &format!("Bearer {token}")).send().await
}

async fn start() -> (Service, App, Signer) {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let signer = Signer::create(&service, &shop, SigningAlgorithm::Es256).await;
    (service, shop, signer)
}

#[tokio::test]
async fn a_claim_of_another_type_is_named_with_the_type_that_was_sent() {
    let (service, shop, signer) = start().await;
    let usual = claims(&shop, "ada");
    list(&service, &signer.token(&usual)).await.is(200);
    let nested = (0..40).fold(json!("ada"), |inner, _| json!([inner]));
    let values = [
        ("sub", json!(123), "a number"),
        ("sub", json!(true), "a boolean"),
        ("sub", json!(["user:ada"]), "an array"),
        ("sub", nested.clone(), "an array"),
        ("sub", json!({"user": "ada"}), "an object"),
        ("apiKey", json!([[shop.key]]), "an array"),
        ("apiKey", json!(7), "a number"),
        ("exp", json!("tomorrow"), "a string"),
        ("exp", json!(seconds(60).to_string()), "a string"),
        ("exp", json!([seconds(60)]), "an array"),
        ("nbf", json!("now"), "a string"),
        ("nbf", nested, "an array"),
        ("iat", json!({"at": 1}), "an object"),
    ];
    for (claim, value, found) in values {
        let answer = list(&service, &signer.token(&with(usual.clone(), claim, value.clone()))).await;
        answer.fails(401, "malformed_token");
        let message = answer.body["message"].as_str().unwrap();
        assert!(message.contains(&format!("{claim} in its claims must be ")), "{claim}: {value}: {message}");
        assert!(message.ends_with(&format!("not {found}")), "{claim}: {value}: {message}");
    }
}

#[tokio::test]
async fn a_missing_or_empty_claim_is_named() {
    let (service, shop, signer) = start().await;
    service
        .context
        .store
        .control()
        .set_settings(shop.id, &[AppSetting::RequireExp(true)], &Actor::System)
        .await
        .unwrap();
    for (claim, code) in [("sub", "invalid_token"), ("apiKey", "invalid_token"), ("exp", "invalid_token")] {
        for token in [without(claims(&shop, "ada"), claim), with(claims(&shop, "ada"), claim, Value::Null)] {
            let answer = list(&service, &signer.token(&token)).await;
            answer.fails(401, code);
            let message = answer.body["message"].as_str().unwrap();
            assert!(message.contains(&format!("the claim {claim}")), "{claim}: {message}");
        }
    }
    for sub in ["", "user:", "user:\u{0}"] {
        let answer = list(&service, &signer.token(&with(claims(&shop, "ada"), "sub", json!(sub)))).await;
        answer.fails(401, "invalid_token");
        assert!(answer.body["message"].as_str().unwrap().contains("claim sub"), "{sub:?}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_time_in_another_unit_is_refused_and_its_claim_named() {
    let (service, shop, signer) = start().await;
    let times = [
        ("exp", json!(seconds(3600) * 1000)),
        ("exp", json!(seconds(3600) * 1_000_000)),
        ("exp", json!(1e300)),
        ("exp", json!(seconds(91 * 86_400))),
        ("nbf", json!(seconds(0) * 1000)),
        ("iat", json!(seconds(0) * 1000)),
        ("iat", json!(1e300)),
    ];
    for (claim, value) in times {
        let token = signer.token(&with(claims(&shop, "ada"), claim, value.clone()));
        for call in ["GET /v3/notifications", "GET /v3/stream", "POST /v3/sdk/connect"] {
            let answer = service.call(call).header("Authorization", &format!("Bearer {token}")).send().await;
            assert_eq!(answer.status, 401, "{call}: {claim}: {value}");
            let message = answer.body["message"].as_str().unwrap();
            assert!(message.contains(&format!("claim {claim}")) && message.contains("seconds"), "{message}");
        }
    }
    list(&service, &signer.token(&with(claims(&shop, "ada"), "exp", json!(seconds(90 * 86_400)))))
        .await
        .is(200);
}
