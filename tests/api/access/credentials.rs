//! Admitted and refused credentials.

use std::time::Duration;

use crate::service::{App, Backing, Service, plain_send};

const SEND: &str = "POST /v3/notifications";
const LIST: &str = "GET /v3/notifications";

/// Headers of a call, and the expected status and error code; None if the call is admitted.
type Case<'a> = (&'a [(&'a str, &'a str)], Option<(u16, &'a str)>);

async fn check(service: &Service, what: &str, cases: &[Case<'_>]) {
    for (headers, expected) in cases {
        let mut call = service.call(what).json(&plain_send(&["ada"]));
        for (name, value) in *headers {
            call = call.header(name, value);
        }
        let answer = call.send().await;
        match expected {
            Some((status, code)) => answer.fails(*status, code),
            None => assert!(answer.status < 300, "{headers:?}: {}", answer.body),
        }
    }
}

#[tokio::test]
async fn app_calls_require_the_key_and_its_secret() {
    let service = Service::start_with(Backing::Nothing).await;
    let App { key, secret, .. } = service.app("shop").await;
    let bank = service.app("bank").await;
    let api_key = ("X-SERVICE-API-KEY", key.as_str());
    let api_secret = ("X-SERVICE-API-SECRET", secret.as_str());
    let invalid = Some((401, "invalid_credentials"));
    let conflicting = Some((401, "conflicting_credentials"));
    let long = "k".repeat(5_000);
    check(
        &service,
        SEND,
        &[
            (&[api_key, api_secret], None),
            (&[api_key, ("X-SERVICE-SECRET-KEY", &secret)], None),
            (&[("x-acme-api-key", &key), ("X-Acme-Api-Secret", &secret)], None),
            (&[("X-ACME-API-KEY", &key), api_secret], None),
            (&[api_key, api_key, api_secret, ("X-ACME-SECRET-KEY", &secret)], None),
            (&[], Some((401, "no_credentials"))),
            (&[api_secret], Some((401, "no_credentials"))),
            (&[api_key, ("X-SERVICE-API-SECRET", "")], Some((401, "secret_required"))),
            (&[api_key], Some((401, "secret_required"))),
            (&[api_key, ("X-SERVICE-USER-ID", "ada")], Some((401, "secret_required"))),
            (&[api_key, ("X-SERVICE-API-SECRET", "wrong")], invalid),
            (&[api_key, ("X-SERVICE-API-SECRET", &bank.secret)], invalid),
            (&[("X-SERVICE-API-KEY", "unknown"), api_secret], invalid),
            (&[("X-SERVICE-API-KEY", &long), api_secret], invalid),
            (&[api_key, api_secret, ("X-SERVICE-SECRET-KEY", "other")], conflicting),
            (&[api_key, api_secret, ("X-ACME-API-KEY", &bank.key)], conflicting),
            (&[api_key, api_secret, ("X-SERVICE-API-KEY", &bank.key)], conflicting),
            (&[api_key, api_secret, ("Authorization", "Bearer abc")], Some((401, "malformed_token"))),
            (&[api_key, api_secret, ("Authorization", "bearer abc")], Some((401, "malformed_token"))),
            (&[api_key, api_secret, ("Authorization", "Basic abc")], None),
        ],
    )
    .await;
}

#[tokio::test]
async fn user_calls_require_the_key_and_a_user() {
    let service = Service::start_with(Backing::Nothing).await;
    let App { key, secret, .. } = service.app("shop").await;
    let api_key = ("X-SERVICE-API-KEY", key.as_str());
    let user = ("X-SERVICE-USER-ID", "ada");
    check(
        &service,
        LIST,
        &[
            (&[api_key, user], None),
            (&[api_key, ("X-ACME-USER-ID", "zoë@例え.jp")], None),
            (&[api_key, user, ("X-SERVICE-API-SECRET", &secret)], None),
            (&[user], Some((401, "no_credentials"))),
            (&[api_key], Some((401, "user_required"))),
            (&[api_key, ("X-SERVICE-API-SECRET", &secret)], Some((401, "user_required"))),
            (&[api_key, user, ("X-SERVICE-API-SECRET", "wrong")], Some((401, "invalid_credentials"))),
            (&[api_key, user, ("X-ACME-USER-ID", "bob")], Some((401, "conflicting_credentials"))),
            (&[api_key, user, ("Authorization", "Bearer abc")], Some((401, "malformed_token"))),
        ],
    )
    .await;
    let long =
        service.call(LIST).header("X-SERVICE-API-KEY", &key).header("X-SERVICE-USER-ID", &"u".repeat(256));
    long.send().await.has_problems(&[("the user id", "too_long")]);
}

#[tokio::test]
async fn only_a_caller_with_the_secret_may_name_the_user_in_the_query() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let list = "GET /v3/notifications?userIdentifier=ada";
    service.by(&shop, list).send().await.is(200);
    service.by(&shop, list).header("X-SERVICE-USER-ID", "ada").send().await.is(200);
    let disagreeing = service.by(&shop, list).header("X-SERVICE-USER-ID", "bob").send().await;
    disagreeing.has_problems(&[("userIdentifier", "conflict")]);
    let public = service.call(list).header("X-SERVICE-API-KEY", &shop.key).send().await;
    public.fails(401, "user_required");
}

#[tokio::test]
async fn secrets_expire_and_apps_can_be_disabled() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let closed = service.app("closed").await;
    service.run("UPDATE app SET disabled = true WHERE name = 'closed'").await;
    service.by(&closed, "GET /v3/categories").send().await.fails(403, "app_disabled");
    service.of(&closed, "ada", LIST).send().await.fails(403, "app_disabled");
    let wrong = App { secret: "wrong".to_owned(), ..closed };
    service.by(&wrong, "GET /v3/categories").send().await.fails(401, "invalid_credentials");

    let fresh = service.rotate(&shop, "new", Duration::from_millis(200)).await;
    testkit::eventually(crate::service::SOON, "the old secret expires", async || {
        (service.by(&shop, "GET /v3/categories").send().await.status == 401).then_some(())
    })
    .await;
    service.by(&fresh, "GET /v3/categories").send().await.is(200);
}
