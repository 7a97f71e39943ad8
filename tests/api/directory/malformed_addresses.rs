//! Malformed addresses in profiles and sends.

use serde_json::{Value, json};

use crate::sends::overrides::provider;
use crate::service::{Backing, Service};

const MALFORMED: &str = "te..st@example.com";

#[tokio::test]
async fn a_write_of_a_malformed_address_is_stored_and_warns_and_a_strict_one_is_refused() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let profile = json!({"email": MALFORMED, "phoneNumber": "0151 12345678", "name": "Ada"});
    let create = json!({"identifier": "ada", "profile": profile});
    let patch = json!([{"op": "add", "path": "/email", "value": MALFORMED}]);
    for (call, body, field) in [
        ("POST /v3/users", &create, "profile.email"),
        ("PUT /v3/users/ada", &profile, "email"),
        ("PUT /v3/profile", &profile, "email"),
        ("PATCH /v3/profile", &patch, "email"),
    ] {
        let by = || service.by(&shop, call).header("X-SERVICE-USER-ID", "ada").json(body);
        let strict = by().header("Prefer", "handling=strict").send().await;
        assert_eq!(strict.status, 400, "{call}: {}", strict.body);
        assert_eq!(
            (&strict.body["errors"][0]["field"], &strict.body["errors"][0]["code"]),
            (&json!(field), &json!("invalid_address"))
        );
        let answer = by().send().await;
        assert_eq!(answer.status, 200, "{call}: {}", answer.body);
        let warning = answer.header("warning").unwrap_or_default().to_owned();
        assert!(warning.starts_with(&format!("299 - \"{field} ")), "{call}: {warning}");
        assert!(!warning.contains(MALFORMED), "{warning}");
    }
    let sound = json!({"email": " ada@example.com ", "phoneNumber": "+49 151 12345678"});
    let answer = service.by(&shop, "PUT /v3/users/ada").json(&sound).send().await;
    assert_eq!(answer.header("warning"), None);
    assert_eq!(answer.is(200)["profile"]["email"], " ada@example.com ");
}

#[tokio::test]
async fn each_user_of_a_bulk_write_has_its_own_warnings() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let users = json!([
        {"identifier": "ada", "profile": {"email": MALFORMED}}, {"identifier": "bob", "profile": {"email": "bob@example.com"}},
    ]);
    let call = || service.by(&shop, "POST /v3/users/bulk").json(&users);
    let answer = call().send().await.is(200);
    assert_eq!(answer["data"][0]["status"], "created");
    let warning = &answer["data"][0]["warnings"][0];
    assert_eq!(
        (&warning["field"], &warning["code"]),
        (&json!("[0].profile.email"), &json!("invalid_address"))
    );
    assert_eq!(
        answer["data"][1],
        json!({"identifier": "bob", "status": "created", "errors": [], "warnings": []})
    );
    let strict = call().header("Prefer", "handling=strict").send().await.is(200);
    assert_eq!(strict["data"][0]["status"], "error");
    assert_eq!(strict["data"][0]["errors"][0]["code"], "invalid_address");
}

#[tokio::test]
async fn a_dry_run_and_the_deliveries_tell_a_malformed_address_from_an_absent_one() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.run(provider!("email", "smtp")).await;
    service.run(provider!("sms", "twilio")).await;
    for (user, profile) in [("ada", json!({"email": MALFORMED, "phoneNumber": "0151"})), ("bob", json!({}))] {
        service.by(&shop, &format!("PUT /v3/users/{user}")).json(&profile).send().await.is(200);
    }
    let send = json!({
        "notification": {"title": "Hi"}, "sendTo": {"recipients": ["ada", "bob"]}, "override": {"channels": ["email", "sms"]},
    });
    let expected = [
        json!(["ada", "email", "invalid_address"]),
        json!(["ada", "sms", "invalid_address"]),
        json!(["bob", "email", "no_address"]),
        json!(["bob", "sms", "no_address"]),
    ];
    let reasons = |rows: &Value| -> Vec<Value> {
        let rows = rows["data"].as_array().unwrap().iter();
        let of_channel = rows.filter(|row| ["email", "sms"].map(Some).contains(&row["channel"].as_str()));
        of_channel.map(|row| json!([row["recipient"], row["channel"], row["reason"]])).collect()
    };
    let tried = service.by(&shop, "POST /v3/notifications?dryRun=true").json(&send).send().await.is(200);
    assert_eq!(reasons(&tried), expected);
    let accepted = service.by(&shop, "POST /v3/notifications").json(&send).send().await.is(202);
    let path = format!("GET /v3/requests/{}/deliveries?limit=100", accepted["requestId"].as_str().unwrap());
    testkit::eventually(crate::service::SOON, "the send is planned", async || {
        let answer = service.by(&shop, &path).send().await;
        (answer.status == 200 && reasons(&answer.body) == expected).then_some(())
    })
    .await;
    // The previous release reads the rows.
    let skips = "SELECT string_agg(array_to_string(skips, ' ') || '|' || coalesce(array_to_string(details, ' '), ''), ';'
                 ORDER BY recipient_index) FROM planned_recipient";
    let rows = service.rows(skips).await.join("");
    assert!(
        rows.contains("email:no_address") && rows.contains("|email:invalid_address sms:invalid_address"),
        "{rows}"
    );
    assert!(!rows.split('|').next().unwrap().contains("invalid_address"), "{rows}");
}

#[tokio::test]
async fn members_that_a_provider_of_this_kind_refuses_are_refused_before_the_202() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.run(provider!("email", "postmark")).await;
    service.run(provider!("sms", "twilio")).await;
    let cases = [
        (json!({"postmark": {"To": "eve@example.com"}}), "override.postmark.To", "not_allowed"),
        (json!({"postmark": {"Metadata": 1}}), "override.postmark.Metadata", "invalid_type"),
        (
            json!({"postmark": {"_config": {"from": "Shop"}}}),
            "override.postmark._config.from",
            "invalid_address",
        ),
        (json!({"twilio": {"Body": "x"}}), "override.twilio.Body", "not_allowed"),
        (json!({"twilio": {"MaxPrice": []}}), "override.twilio.MaxPrice", "invalid_type"),
        (json!({"twilio": {"_config": {"from": "a@b.c"}}}), "override.twilio._config.from", "invalid_sender"),
    ];
    for (overrides, field, code) in cases {
        let send = json!({"notification": {"title": "Hi"}, "sendTo": {"recipients": ["ada"]}, "override": overrides});
        for call in ["POST /v3/notifications", "POST /v3/notifications?dryRun=true"] {
            service.by(&shop, call).json(&send).send().await.has_problems(&[(field, code)]);
        }
    }
}
