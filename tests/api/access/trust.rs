//! A token cannot be used for a user that it does not name, and users cannot write profile data that only the app's backend may
//! write.

use domain::app_setting::AppSetting;
use domain::{Actor, SigningAlgorithm, TemplateProfile, TokenSubject};
use serde_json::json;
use store::control::template::NewTemplate;

use crate::service::{App, Backing, Service};
use crate::signer::{Signer, claims, with};

async fn set(service: &Service, app: &App, switches: &[AppSetting]) {
    assert!(service.context.store.control().set_settings(app.id, switches, &Actor::System).await.unwrap());
}

#[tokio::test]
async fn a_user_named_like_the_prefix_is_a_separate_user() {
    let service = Service::start_with(Backing::Nothing).await;
    let cases = [
        (TokenSubject::Prefixed, "user:alice", Some("alice")),
        (TokenSubject::Prefixed, "alice", None),
        (TokenSubject::Prefixed, "user:user:alice", Some("user:alice")),
        (TokenSubject::Prefixed, "user:", None),
        (TokenSubject::Bare, "user:alice", Some("user:alice")),
        (TokenSubject::Bare, "alice", Some("alice")),
        (TokenSubject::Either, "user:alice", Some("alice")),
        (TokenSubject::Either, "alice", Some("alice")),
    ];
    for (number, (form, sub, user)) in cases.into_iter().enumerate() {
        let app = service.app(&format!("shop {number}")).await;
        set(&service, &app, &[AppSetting::TokenSubject(form)]).await;
        let signer = Signer::create(&service, &app, SigningAlgorithm::Es256).await;
        for name in ["alice", "user:alice"] {
            let profile = json!({"identifier": name, "profile": {"is": name}});
            service.by(&app, "POST /v3/users").json(&profile).send().await.is(200);
        }
        let bearer = format!("Bearer {}", signer.token(&with(claims(&app, "x"), "sub", json!(sub))));
        let answer = service.call("GET /v3/profile").header("Authorization", &bearer).send().await;
        match user {
            Some(user) => assert_eq!(answer.is(200), json!({"is": user}), "{form} {sub}"),
            None => answer.fails(401, "invalid_token"),
        }
    }
}

#[tokio::test]
async fn the_profile_key_app_is_written_only_with_the_secret() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let signer = Signer::create(&service, &shop, SigningAlgorithm::Es256).await;
    let bearer = format!("Bearer {}", signer.token(&claims(&shop, "ada")));
    let gold = json!({"app": {"tier": "gold"}});
    service.by(&shop, "PUT /v3/users/ada").json(&gold).send().await.is(200);
    let many = json!([{"identifier": "ada", "profile": gold}]);
    service.by(&shop, "POST /v3/users/bulk").json(&many).send().await.is(200);
    for body in [
        json!({"app": {"tier": "platinum"}}),
        json!({"app": null}),
        json!([{"op": "replace", "path": "/app/tier", "value": "platinum"}]),
        json!([{"op": "remove", "path": "/app"}]),
        json!([{"op": "replace", "path": "", "value": {}}]),
    ] {
        let method = if body.is_array() { "PATCH" } else { "PUT" };
        let path = format!("{method} /v3/profile");
        let call = service.of(&shop, "ada", &path).json(&body).send().await;
        assert!(call.body["message"].as_str().unwrap().contains("app"), "{}", call.body);
        call.fails(403, "app_only");
        let call = service.call(&path).header("Authorization", &bearer).json(&body).send().await;
        call.fails(403, "app_only");
    }
    service.of(&shop, "new", "PUT /v3/profile").json(&gold).send().await.fails(403, "app_only");
    assert_eq!(service.of(&shop, "ada", "GET /v3/profile").send().await.is(200), gold);
    let silver = json!({"app": {"tier": "silver"}});
    let acting = service.by(&shop, "PUT /v3/profile").header("X-SERVICE-USER-ID", "ada").json(&silver);
    assert_eq!(acting.send().await.is(200), silver);
}

#[tokio::test]
async fn templates_can_be_restricted_to_data_of_the_backend() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    set(&service, &shop, &[AppSetting::TemplateProfile(TemplateProfile::App)]).await;
    let channels = json!({"inApp": {
        "title": "{{ recipient.identifier }} {{ recipient.app.tier }}",
        "message": "[{{ recipient.name }}{{ recipient.email }}]",
    }});
    let template =
        NewTemplate { identifier: "t", name: "t", category: None, channels: &channels, mjml: None };
    service.context.store.control().put_template(shop.id, template, &Actor::System).await.unwrap();
    let profile = json!({"name": "your account is locked", "email": "a@b.example", "app": {"tier": "gold"}});
    service.by(&shop, "PUT /v3/users/ada").json(&profile).send().await.is(200);
    let send = json!({"notification": {"templateIdentifier": "t"}, "sendTo": {"recipients": ["ada"]}});
    let shown = service.by(&shop, "POST /v3/notifications?dryRun=true").json(&send).send().await.is(200);
    let shown = shown["data"].as_array().unwrap().iter().find(|pair| pair["channel"] == "inApp").unwrap();
    assert_eq!(
        (&shown["content"]["title"], &shown["content"]["message"]),
        (&json!("ada gold"), &json!("[]"))
    );
}
