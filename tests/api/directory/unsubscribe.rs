//! `/v3/unsubscribe/{token}`: the unsubscribe link of an email.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credentials::link::{Link, Purpose};
use credentials::secrets::rotation;
use credentials::{MasterKey, unsubscribe};
use domain::{CategoryId, SendId};
use serde_json::{Value, json};
use service_kit::clock;

use crate::client::Answer;
use crate::service::{App, Backing, Service};

impl Service {
    /// Returns the token of the unsubscribe link in emails of this category to the user.
    pub(crate) async fn unsubscribe_token(&self, app: &App, user: &str, category: CategoryId) -> String {
        let user = self.context.store.directory().find_user(app.id, user).await.unwrap().unwrap().number;
        let link = Link { app: app.id, user, purpose: Purpose::Unsubscribe(category) };
        self.context.links.sign(&link).await.unwrap()
    }

    async fn open(&self, token: &str) -> Answer {
        self.call(&format!("GET /v3/unsubscribe/{token}")).send().await
    }

    /// Unsubscribes as a mail program does (RFC 8058, section 3.2).
    async fn one_click(&self, token: &str) -> Answer {
        let form = "application/x-www-form-urlencoded";
        let call = self.call(&format!("POST /v3/unsubscribe/{token}"));
        call.body("List-Unsubscribe=One-Click", form).send().await
    }

    async fn posted(&self, path: &str, form: &str) -> Answer {
        self.call(&format!("POST {path}")).body(form, "application/x-www-form-urlencoded").send().await
    }

    async fn chosen(&self, app: &App, user: &str) -> Value {
        self.by(app, "GET /v3/preferences").header("X-SERVICE-USER-ID", user).send().await.is(200)
    }

    async fn a_user_and_a_category(&self, app: &App, category: Value) -> CategoryId {
        self.by(app, "PUT /v3/users/ada").json(&json!({})).send().await.is(200);
        let created = self.by(app, "POST /v3/categories").json(&category).send().await.is(200);
        CategoryId(created["id"].as_i64().unwrap())
    }
}

fn text(answer: Answer, status: u16) -> String {
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(answer.header(name), Some(value));
    }
    assert!(answer.header("access-control-allow-origin").is_none() && answer.header("set-cookie").is_none());
    match answer.is(status) {
        Value::String(text) => text,
        other => panic!("the answer is not a page: {other}"),
    }
}

#[tokio::test]
async fn one_click_turns_off_only_email_for_the_category() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let news = json!({"identifier": "news", "name": "News"});
    let category = service.a_user_and_a_category(&shop, news).await;
    service.by(&shop, "PUT /v3/users/bob").json(&json!({})).send().await.is(200);
    let token = service.unsubscribe_token(&shop, "ada", category).await;

    let page = text(service.open(&token).await, 200);
    assert!(page.contains("“News” from shop") && page.contains("<form method=\"post\">"), "{page}");
    assert!(!page.contains("<script") && !page.contains("http"), "{page}");
    service.call(&format!("HEAD /v3/unsubscribe/{token}")).send().await.is(200);
    assert_eq!(service.chosen(&shop, "ada").await, json!([]), "GET changes nothing");

    for _ in 0..2 {
        let page = text(service.one_click(&token).await, 200);
        assert!(page.contains("no more emails") && !page.contains("<form"), "{page}");
        let chosen = service.chosen(&shop, "ada").await;
        assert_eq!(chosen[0]["categoryId"], json!(category));
        assert_eq!(chosen[0]["channels"], json!([{"channel": "email", "enabled": false}]));
    }
    assert_eq!(service.chosen(&shop, "bob").await, json!([]));

    // The user can turn emails on again. A POST without a body turns them off again.
    let on = json!({"preference": [{"categoryId": category, "channels": [{"channel": "email", "enabled": true}]}]});
    service.of(&shop, "ada", "PATCH /v3/preferences").json(&on).send().await.is(200);
    text(service.call(&format!("POST /v3/unsubscribe/{token}/")).send().await, 200);
    assert_eq!(service.chosen(&shop, "ada").await[0]["channels"][0]["enabled"], false);
}

#[tokio::test]
async fn an_invalid_token_reveals_and_changes_nothing() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let news = json!({"identifier": "news", "name": "News"});
    let category = service.a_user_and_a_category(&shop, news.clone()).await;
    let other = service.a_user_and_a_category(&bank, news).await;
    let ada = service.context.store.directory().find_user(shop.id, "ada").await.unwrap().unwrap().number;
    let token = service.unsubscribe_token(&shop, "ada", category).await;

    let mut forged = URL_SAFE_NO_PAD.decode(&token).unwrap();
    forged[8] ^= 1;
    let click = Link { app: shop.id, user: ada, purpose: Purpose::Click(SendId(clock::new_id())) };
    let foreign = Link { app: shop.id, user: ada, purpose: Purpose::Unsubscribe(other) };
    let wrong = [
        "x".to_owned(),
        "%00".to_owned(),
        "x".repeat(5_000),
        token[1..].to_owned(),
        URL_SAFE_NO_PAD.encode(forged),
        service.context.links.sign(&click).await.unwrap(),
        service.context.links.sign(&foreign).await.unwrap(),
    ];
    for token in wrong {
        for answer in [service.open(&token).await, service.one_click(&token).await] {
            let page = text(answer, 404);
            assert!(page.contains("not valid") && !page.contains("shop"), "{page}");
        }
    }
    assert_eq!(service.chosen(&shop, "ada").await, json!([]));

    service.by(&shop, "DELETE /v3/users/ada").send().await.is(202);
    text(service.one_click(&token).await, 404);
    service.by(&shop, "PUT /v3/users/ada").json(&json!({})).send().await.is(200);
    text(service.one_click(&token).await, 404);
    assert_eq!(
        service.chosen(&shop, "ada").await,
        json!([]),
        "the new user with the same identifier keeps all emails"
    );

    let token = service.unsubscribe_token(&shop, "ada", category).await;
    service.by(&shop, &format!("DELETE /v3/categories/{category}")).send().await.is(200);
    text(service.open(&token).await, 404);
    service.call(&format!("PUT /v3/unsubscribe/{token}")).send().await.fails(405, "method_not_allowed");
}

#[tokio::test]
async fn the_page_states_that_a_critical_category_cannot_be_turned_off() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let codes = json!({"identifier": "codes", "name": "<Codes> & {app}", "critical": true});
    let category = service.a_user_and_a_category(&shop, codes).await;
    let token = service.unsubscribe_token(&shop, "ada", category).await;
    for answer in [service.open(&token).await, service.one_click(&token).await] {
        let status = answer.status;
        let page = text(answer, status);
        assert!([200, 409].contains(&status) && page.contains("cannot be turned off"), "{status} {page}");
        assert!(page.contains("“&lt;Codes&gt; &amp; {app}” from shop") && !page.contains("<form"), "{page}");
    }
    assert_eq!(service.one_click(&token).await.status, 409);
    assert_eq!(service.chosen(&shop, "ada").await, json!([]));
}

#[tokio::test]
async fn the_page_uses_the_readers_language_and_sends_no_cors_headers() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let category = service.a_user_and_a_category(&shop, json!({"identifier": "news", "name": "News"})).await;
    let token = service.unsubscribe_token(&shop, "ada", category).await;
    let call = service.call(&format!("GET /v3/unsubscribe/{token}"));
    let browser = call
        .header("Accept", "text/html")
        .header("Accept-Language", "de-AT,de;q=0.9,en;q=0.5")
        .header("Origin", "https://evil.example");
    let answer = browser.send().await;
    assert_eq!(answer.header("content-language"), Some("de"));
    assert!(text(answer, 200).contains("Abbestellen"));
}

#[tokio::test]
async fn links_stay_valid_after_a_master_key_rotation() {
    let mut service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let category = service.a_user_and_a_category(&shop, json!({"identifier": "news", "name": "News"})).await;
    let token = service.unsubscribe_token(&shop, "ada", category).await;
    let mut security = service.context.config.security.clone();
    let key_file = security.master_key_file.clone().unwrap();
    let previous = key_file.with_file_name("previous.key");
    std::fs::rename(&key_file, &previous).unwrap();
    MasterKey::generate_file(&key_file).unwrap();
    security.previous_master_key_file = Some(previous);
    let both = MasterKey::configured(&security).unwrap();
    let tables = rotation::reseal_all(&service.context.store, &both, |_, _| {}).await.unwrap();
    assert!(tables.iter().any(|table| table.table == "app_link_key" && table.records == 1));
    // Restart the services with the new master key only.
    service.restart(Backing::Nothing).await;
    text(service.one_click(&token).await, 200);
}

#[tokio::test]
async fn emails_get_a_link_if_the_public_url_is_set() {
    let without = Service::start_with(Backing::Nothing).await;
    let shop = without.app("shop").await;
    let category = without.a_user_and_a_category(&shop, json!({"identifier": "news", "name": "News"})).await;
    let user = without.context.store.directory().find_user(shop.id, "ada").await.unwrap().unwrap().number;
    assert_eq!(
        unsubscribe::url(&without.context.links, without.context.public_url(), shop.id, user, category)
            .await
            .unwrap(),
        None
    );

    let url = "https://notify.example.com/";
    let service =
        Service::start_configured(|config| config.gateway.public_url = Some(url.parse().unwrap())).await;
    let shop = service.app("shop").await;
    let category = service.a_user_and_a_category(&shop, json!({"identifier": "news", "name": "News"})).await;
    let user = service.context.store.directory().find_user(shop.id, "ada").await.unwrap().unwrap().number;
    let link =
        unsubscribe::url(&service.context.links, service.context.public_url(), shop.id, user, category)
            .await
            .unwrap()
            .unwrap();
    let token = link.strip_prefix("https://notify.example.com/v3/unsubscribe/").unwrap();
    text(service.one_click(token).await, 200);
    assert!(link.len() < 200, "the link must fit into a header line: {link}");
}

#[tokio::test]
async fn the_page_of_preferences_changes_what_its_reader_changed() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let news =
        service.a_user_and_a_category(&shop, json!({"identifier": "news", "name": "<News> & {app}"})).await;
    let codes = json!({"identifier": "codes", "name": "Codes", "critical": true});
    let codes = service.a_user_and_a_category(&shop, codes).await;
    let hidden = json!({"identifier": "internal", "name": "Internal", "hideInPreferenceManager": true});
    service.a_user_and_a_category(&shop, hidden).await;
    let token = service.unsubscribe_token(&shop, "ada", news).await;
    let path = format!("/v3/unsubscribe/{token}/preferences");
    let link = text(service.open(&token).await, 200);
    assert!(link.contains(&format!("<a href=\"{token}/preferences\">Notification settings</a>")), "{link}");

    let page = text(service.call(&format!("GET {path}")).send().await, 200);
    assert!(page.contains("&lt;News&gt; &amp; {app}") && page.contains("Always on"), "{page}");
    assert!(!page.contains("Internal") && !page.contains("<script") && !page.contains("http"), "{page}");
    assert!(page.contains(&format!("name=\"shown\" value=\"{news}:inApp:on\"")), "{page}");
    let unchanged = service.posted(&path, &format!("shown={news}:inApp:on&on={news}:inApp")).await;
    assert!(text(unchanged, 200).contains("Your choices are saved."));
    assert_eq!(service.chosen(&shop, "ada").await, json!([]), "what is as it was is no choice");

    let page = text(
        service.posted(&path, &format!("shown={news}:inApp:on+{codes}:inApp:on+999:email:on")).await,
        200,
    );
    assert!(page.contains(&format!("{news}:inApp:off")), "{page}");
    let chosen = service.chosen(&shop, "ada").await;
    assert_eq!(chosen.as_array().unwrap().len(), 1, "a critical category has no choices: {chosen}");
    assert_eq!(chosen[0]["channels"], json!([{"channel": "inApp", "enabled": false}]));

    service.posted(&path, "shown=x").await.has_problems(&[("shown", "invalid_value")]);
    let too_many = "on=1%3Aemail&".repeat(5_002);
    service.posted(&path, &too_many).await.has_problems(&[("", "too_many")]);
    for wrong in [token[1..].to_owned(), "x".repeat(500)] {
        let path = format!("/v3/unsubscribe/{wrong}/preferences");
        for answer in [service.call(&format!("GET {path}")).send().await, service.posted(&path, "").await] {
            assert!(!text(answer, 404).contains("shop"));
        }
    }
    service.by(&shop, "DELETE /v3/users/ada").send().await.is(202);
    text(service.posted(&path, &format!("shown={news}:inApp:off&on={news}:inApp")).await, 404);
}
