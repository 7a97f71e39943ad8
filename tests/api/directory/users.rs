//! `/v3/users`.

use serde_json::{Value, json};

use crate::service::{App, Backing, Service};

#[tokio::test]
async fn a_user_is_created_once() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let body = json!({"identifier": "ada", "profile": {"email": "ada@example.com", "plan": {"tier": 1}}});
    assert_eq!(service.by(&shop, "POST /v3/users").json(&body).send().await.is(200), body);
    service.by(&shop, "POST /v3/users/").json(&body).send().await.fails(409, "user_exists");
    assert_eq!(service.by(&bank, "POST /v3/users").json(&body).send().await.is(200), body);
    let bare = json!({"identifier": "bob", "profile": null});
    let answer = service.by(&shop, "POST /v3/users").json(&bare).send().await.is(200);
    assert_eq!(answer, json!({"identifier": "bob", "profile": {}}));
}

#[tokio::test]
async fn every_problem_of_a_user_is_named() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let long = "u".repeat(256);
    let large = "x".repeat(64 * 1024);
    let cases: [(Value, &[(&str, &str)]); 8] = [
        (json!({}), &[("identifier", "required")]),
        (json!("ada"), &[("", "invalid_type")]),
        (json!({"identifier": long}), &[("identifier", "too_long")]),
        (json!({"identifier": "a\nb"}), &[("identifier", "invalid_character")]),
        (
            json!({"identifier": 7, "profile": "x"}),
            &[("identifier", "invalid_type"), ("profile", "invalid_type")],
        ),
        (
            json!({"identifier": "a", "profile": {"email": 7, "fcm": "x", "n": "\u{0}"}}),
            &[
                ("profile.n", "invalid_character"),
                ("profile.email", "invalid_type"),
                ("profile.fcm", "invalid_type"),
            ],
        ),
        (json!({"identifier": "a", "profile": {"\u{0}": 1}}), &[("profile", "invalid_character")]),
        (json!({"identifier": "a", "profile": {"x": large}}), &[("profile", "too_long")]),
    ];
    for (body, expected) in cases {
        service.by(&shop, "POST /v3/users").json(&body).send().await.has_problems(expected);
    }
    let renamed = json!({"identifier": "a", "profile": {"identifier": "b"}});
    service.by(&shop, "POST /v3/users").json(&renamed).send().await.fails(422, "reserved_key");
    let strict = service.by(&shop, "POST /v3/users").header("Prefer", "handling=strict");
    strict
        .json(&json!({"identifier": "a", "profil": {}}))
        .send()
        .await
        .has_problems(&[("profil", "unknown_member")]);
}

#[tokio::test]
async fn putting_creates_and_then_merges() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let put = |body: Value| service.by(&shop, "PUT /v3/users/ada").json(&body).send();
    assert_eq!(put(json!({})).await.is(200), json!({"identifier": "ada", "profile": {}}));
    put(json!({"name": "Ada", "fcm": {"token": "a"}})).await.is(200);
    let merged = put(json!({"name": null, "fcm": {"token": "b"}})).await.is(200);
    assert_eq!(merged["profile"], json!({"name": null, "fcm": {"tokens": ["a", "b"]}}));
    for body in ["", "null", "{}", "[]"] {
        let answer = service.by(&shop, "PUT /v3/users/ada").body(body, "application/json").send().await;
        assert_eq!(answer.is(200)["profile"], merged["profile"], "{body:?}");
    }
    put(json!({"identifier": "eve"})).await.fails(422, "reserved_key");
    put(json!([1])).await.has_problems(&[("", "invalid_type")]);
    put(json!({"\u{0}": 1, "n": [1e300]}))
        .await
        .has_problems(&[("", "invalid_character"), ("n[0]", "unsafe_number")]);
    put(json!({"email": 7})).await.has_problems(&[("email", "invalid_type")]);
}

#[tokio::test]
async fn an_identifier_in_a_path_is_decoded_once() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let cases = [
        ("a%2Fb", "a/b"),
        ("a%252Fb", "a%2Fb"),
        ("a+b", "a+b"),
        ("a%2Bb%20c", "a+b c"),
        ("100%", "100%"),
        ("%zz", "%zz"),
        ("%C3%A9", "é"),
        ("a@b.c", "a@b.c"),
        ("a%3Fb%23", "a?b#"),
    ];
    for (path, identifier) in cases {
        let answer =
            service.by(&shop, &format!("PUT /v3/users/{path}")).json(&json!({})).send().await.is(200);
        assert_eq!(answer["identifier"], identifier, "{path}");
    }
    let long = "u".repeat(256);
    for (path, code) in [("%FF", "invalid_character"), ("a%00b", "invalid_character"), (&*long, "too_long")] {
        let answer = service.by(&shop, &format!("PUT /v3/users/{path}/")).json(&json!({})).send().await;
        answer.has_problems(&[("identifier", code)]);
    }
    let longest = "u".repeat(255);
    service.by(&shop, &format!("PUT /v3/users/{longest}")).json(&json!({})).send().await.is(200);
}

#[tokio::test]
async fn a_user_is_shown_with_profile_and_devices() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    service.by(&shop, "PUT /v3/users/a%2Fb").json(&json!({"name": "Ada"})).send().await.is(200);
    for (device, body) in [("d1", json!({"deviceType": "android"})), ("d2", json!({"deviceType": "browser"}))]
    {
        let connect = service.of(&shop, "a/b", "POST /v3/sdk/connect").header("X-SERVICE-DEVICE-ID", device);
        connect.json(&body).send().await.is(200);
    }
    let user = service.by(&shop, "GET /v3/users/a%2Fb/").send().await.is(200);
    let members: Vec<_> = user.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["createdAt", "devices", "identifier", "profile"]);
    assert_eq!((&user["identifier"], &user["profile"]), (&json!("a/b"), &json!({"name": "Ada"})));
    let created = user["createdAt"].as_str().unwrap();
    assert!(created.ends_with('Z') && created.len() == "2027-01-31T09:00:00.000Z".len(), "{created}");
    let devices = user["devices"].as_array().unwrap();
    let kinds: Vec<_> = devices
        .iter()
        .map(|device| (&device["deviceId"], &device["deviceType"], &device["webPush"]))
        .collect();
    let (d1, d2, no) = (json!("d1"), json!("d2"), json!(false));
    assert_eq!(
        kinds,
        [(&d2, &json!("browser"), &no), (&d1, &json!("android"), &no)],
        "the last connected device comes first"
    );
    assert!(devices.iter().all(|device| device["connectedAt"].as_str().unwrap().ends_with('Z')), "{user}");

    service.by(&bank, "GET /v3/users/a%2Fb").send().await.fails(404, "not_found");
    service.by(&shop, "GET /v3/users/nobody").send().await.fails(404, "not_found");
    service.of(&shop, "a/b", "GET /v3/users/a%2Fb").send().await.fails(401, "secret_required");
    service.by(&shop, "GET /v3/users/%FF").send().await.has_problems(&[("identifier", "invalid_character")]);
    service.by(&shop, "POST /v3/users/ada").send().await.fails(405, "method_not_allowed");
}

#[tokio::test]
async fn pages_show_every_user_once_in_order_of_creation() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    assert_eq!(
        service.by(&shop, "GET /v3/users").send().await.is(200),
        json!({"data": [], "nextCursor": null})
    );
    let names: Vec<_> = (0..45).map(|number| format!("user {}", (number * 7) % 45)).collect();
    for name in &names {
        for app in [&shop, &bank] {
            service.by(app, "POST /v3/users").json(&json!({"identifier": name})).send().await.is(200);
        }
    }
    for limit in [1, 20, 44, 45, 100] {
        let (mut seen, mut query) = (Vec::new(), format!("limit={limit}"));
        loop {
            let page = service.by(&shop, &format!("GET /v3/users?{query}")).send().await.is(200);
            let users = page["data"].as_array().unwrap();
            assert!(users.len() <= limit);
            seen.extend(users.iter().map(|user| user["identifier"].as_str().unwrap().to_owned()));
            if seen.len() == 20 {
                // A change does not move the user in the list.
                service
                    .by(&shop, "PUT /v3/users/user%200")
                    .json(&json!({"limit": limit}))
                    .send()
                    .await
                    .is(200);
            }
            match page["nextCursor"].as_str() {
                Some(cursor) => query = format!("limit={limit}&cursor={cursor}"),
                None => break,
            }
        }
        assert_eq!(seen, names, "{limit} a page");
    }
    let first = service.by(&shop, "GET /v3/users?cursor=&limit=").send().await;
    first.has_problems(&[("limit", "invalid_number")]);
    assert_eq!(service.by(&shop, "GET /v3/users").send().await.is(200)["data"].as_array().unwrap().len(), 20);
    for limit in ["0", "101", "-1", "abc", "1.5"] {
        let answer = service.by(&shop, &format!("GET /v3/users?limit={limit}&cursor=%21")).send().await;
        answer.has_problems(&[("limit", "invalid_number"), ("cursor", "invalid_cursor")]);
    }
    service.of(&shop, "user 1", "GET /v3/users").send().await.fails(401, "secret_required");
}

/// Creates users whose addresses, numbers and names are spelled in several ways.
async fn with_people(service: &Service) -> App {
    let shop = service.app("shop").await;
    let bank = service.app("bank").await;
    let long = "x".repeat(5_000);
    for (user, profile) in [
        (
            "u-1",
            json!({"email": " Ada@Example.com ", "phoneNumber": "+49 (0)151-1234.5678", "name": "Ada Lovelace"}),
        ),
        ("u-2", json!({"email": "ada@example.com", "phone": "+4915112345678", "name": "Änne"})),
        ("grace%40example.com", json!({"phoneNumber": "+1 500 555 0006"})),
        ("u-3", json!({"email": "grace@example.org", "name": "Grace", "phoneNumber": null})),
        ("Ada-100%25", json!({"email": long, "name": long, "phoneNumber": long})),
    ] {
        for app in [&shop, &bank] {
            service.by(app, &format!("PUT /v3/users/{user}")).json(&profile).send().await.is(200);
        }
    }
    shop
}

#[tokio::test]
async fn users_are_found_by_every_spelling_of_an_address_a_number_or_the_start_of_a_word() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = with_people(&service).await;
    for (query, expected) in [
        ("email=ADA@EXAMPLE.COM", &["u-1", "u-2"] as &[&str]),
        ("email=grace@example.com", &["grace@example.com"]),
        ("email=ada@example", &[]),
        ("phoneNumber=%2B49+151+12345678", &["u-1", "u-2"]),
        ("phoneNumber=+4915112345678", &["u-1", "u-2"]),
        ("phoneNumber=%2B1(500)555-0006", &["grace@example.com"]),
        ("phoneNumber=4915112345678", &[]),
        ("q=ada", &["Ada-100%", "u-1", "u-2"]),
        ("q=GRACE", &["grace@example.com", "u-3"]),
        ("q=%C3%84NN", &["u-2"]),
        ("q=ada-100%25", &["Ada-100%"]),
        ("q=%25", &[]),
        ("q=lovelace", &[]),
        ("q=u-&limit=2", &["u-1", "u-2"]),
    ] {
        let found = service.by(&shop, &format!("GET /v3/users?{query}")).send().await.is(200);
        let found: Vec<_> =
            found["data"].as_array().unwrap().iter().map(|user| &user["identifier"]).collect();
        assert_eq!(found, expected, "{query}");
    }
    let strict = service.by(&shop, "GET /v3/users?email=ada@example.com").header("Prefer", "handling=strict");
    strict.send().await.is(200);
}

#[tokio::test]
async fn found_users_are_paged_and_wrong_searches_are_refused() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = with_people(&service).await;
    let list = async |query: &str| service.by(&shop, &format!("GET /v3/users?{query}")).send().await;
    let first = list("email=ada@example.com&limit=1").await.is(200);
    let cursor = first["nextCursor"].as_str().unwrap().to_owned();
    let second = list(&format!("email=ada@example.com&limit=1&cursor={cursor}")).await.is(200);
    assert_eq!(
        (&first["data"][0]["identifier"], &second["data"][0]["identifier"]),
        (&json!("u-1"), &json!("u-2"))
    );
    assert_eq!(second["nextCursor"], Value::Null);
    for name in ["email", "q"] {
        list(&format!("{name}=")).await.has_problems(&[(name, "required")]);
    }
    list("q=a&email=b").await.has_problems(&[("", "conflict")]);
    list(&format!("q=a&cursor={cursor}")).await.has_problems(&[("cursor", "invalid_cursor")]);
    list("phoneNumber=x").await.has_problems(&[("phoneNumber", "invalid_number")]);
    list(&format!("q={}", "x".repeat(256))).await.has_problems(&[("q", "too_long")]);
    list("email=%00").await.has_problems(&[("email", "invalid_character")]);
}

#[tokio::test]
async fn the_pages_of_a_search_have_each_user_once() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    // The identifier of most of them is also their address, and all have the same name.
    for number in 0..30 {
        let user = if number < 25 { format!("ada{number:02}@example.com") } else { format!("u-{number}") };
        let profile = json!({"name": "Ada"});
        service.by(&shop, &format!("PUT /v3/users/{user}")).json(&profile).send().await.is(200);
    }
    service.by(&shop, "PUT /v3/users/u-30").json(&json!({"email": "Ada@x.example"})).send().await.is(200);
    let whole = service.by(&shop, "GET /v3/users?q=ada&limit=100").send().await.is(200);
    assert_eq!(whole["nextCursor"], Value::Null);
    let identifiers = |page: &Value| -> Vec<String> {
        let users = page["data"].as_array().unwrap().iter();
        users.map(|user| user["identifier"].as_str().unwrap().to_owned()).collect()
    };
    let expected = identifiers(&whole);
    assert_eq!((expected.len(), expected[25].as_str(), expected[26].as_str()), (31, "u-30", "u-25"));
    for limit in [1, 2, 7, 30, 31] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let call = format!("GET /v3/users?q=ada&limit={limit}&cursor={cursor}");
            let page = service.by(&shop, &call).send().await.is(200);
            found.extend(identifiers(&page));
            match page["nextCursor"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => break,
            }
        }
        assert_eq!(found, expected, "{limit}");
    }
    let other = service.app("bank").await;
    assert_eq!(service.by(&other, "GET /v3/users?q=ada").send().await.is(200)["data"], json!([]));
}
