//! Providers: their pages, their forms, and the changes that are refused.

use domain::Role;
use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode};

use crate::fixture::{TestConsole, encoded};

const APP: &str = "a/b?c#d";
const NEW: &[(&str, &str)] = &[
    ("channel", "email"),
    ("kind", "pigeon"),
    ("identifier", "main"),
    ("settings.host", "mail.example.com"),
    ("settings.security", "tls"),
    ("settings.password", "hunter2"),
    ("settings.receipts", "true"),
    ("maxPerSecond", "50"),
];

struct Shop {
    console: TestConsole,
    operator: String,
    app: String,
}

impl Shop {
    async fn start() -> Shop {
        let console = TestConsole::start(|_| {}).await;
        console.installation.app(APP).await;
        let operator = console.operator(Role::Operator, None).await;
        Shop { console, operator, app: format!("/apps/{}", encoded(APP)) }
    }

    async fn page(&self, below: &str) -> String {
        self.console.page(&format!("{}{below}", self.app), &self.operator).await
    }

    async fn send(&self, below: &str, fields: &[(&str, &str)]) -> Response {
        self.console.change(&format!("{}{below}", self.app), &self.operator, fields).await
    }

    async fn create(&self, identifier: &str) {
        let fields: Vec<_> = NEW
            .iter()
            .map(|&(name, value)| if name == "identifier" { (name, identifier) } else { (name, value) })
            .collect();
        let created = self.send("/providers/new", &fields).await;
        assert_eq!(created.status(), StatusCode::SEE_OTHER, "{}", created.text().await.unwrap());
    }

    async fn stored(&self, column: &'static str) -> Vec<String> {
        let statement = format!("SELECT {column}::text FROM provider ORDER BY priority, identifier");
        let query = sqlx::query_scalar(sqlx::AssertSqlSafe(statement));
        query.fetch_all(&self.console.installation.pool).await.unwrap()
    }
}

/// Returns these fields with another value, or with a further field.
fn with<'a>(fields: &[(&'a str, &'a str)], name: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    let others = fields.iter().filter(|(known, _)| *known != name).copied();
    others.chain([(name, value)]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_is_created_and_edited_and_its_secret_is_never_shown() {
    let shop = Shop::start().await;
    assert!(shop.page("/providers").await.contains("No provider yet."));
    assert!(shop.page("/providers/new").await.contains("pigeon"));
    let form = shop.page("/providers/new?channel=email&kind=pigeon").await;
    assert!(form.contains("name=\"settings.host\"") && form.contains("<option value=\"tls\">"), "{form}");
    shop.create("main").await;
    assert_eq!(
        shop.stored("settings").await,
        [r#"{"host": "mail.example.com", "receipts": true, "security": "tls"}"#]
    );
    let page = shop.page("/provider/main?done=provider-saved").await;
    for text in [
        "The provider is saved.",
        "mail.example.com",
        "at most 50 a second",
        "stored encrypted",
        "operator-all@example.com",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let form = shop.page("/provider/main/edit").await;
    assert!(form.contains("stored; leave it empty to keep it") && !form.contains("hunter2"), "{form}");
    let moved = [("version", "1"), ("settings.host", "mail2.example.com"), ("settings.security", "tls")];
    let refused = shop.send("/provider/main/edit", &moved).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert!(refused.text().await.unwrap().contains("settings.password must be given again"));
    let edited = [("version", "1"), ("settings.host", "mail.example.com"), ("settings.security", "tls")];
    let answer = shop.send("/provider/main/edit", &edited).await;
    let location = answer.headers()[LOCATION].to_str().unwrap();
    assert_eq!(location, "/apps/a%2Fb%3Fc%23d/provider/main?done=provider-saved");
    assert_eq!(
        shop.stored("settings").await,
        [r#"{"host": "mail.example.com", "receipts": false, "security": "tls"}"#]
    );
    assert_eq!(shop.stored("sealed IS NOT NULL").await, ["true"], "the secret is kept");
    let removed = with(&with(&edited, "version", "2"), "remove.password", "true");
    assert_eq!(shop.send("/provider/main/edit", &removed).await.status(), StatusCode::SEE_OTHER);
    assert_eq!(shop.stored("sealed IS NOT NULL").await, ["false"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_names_the_field_keeps_what_was_typed_and_stores_nothing() {
    let shop = Shop::start().await;
    for (name, value, text) in [
        ("settings.host", "two words", "settings.host must be a DNS name"),
        ("settings.host", "", "settings.host is required"),
        ("settings.headers", "{\"a\"", "headers must be an object as JSON"),
        ("settings.further", "[1]", "further settings must be an object as JSON"),
        ("identifier", "", "identifier"),
        ("maxPerSecond", "many", "maxPerSecond"),
    ] {
        let answer = shop.send("/providers/new", &with(NEW, name, value)).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{name}={value}");
        let page = answer.text().await.unwrap();
        assert!(page.contains(text) && page.contains("Nothing was saved."), "{name}={value}: {page}");
        assert!(!page.contains("hunter2"), "{name}={value} shows the secret");
        let kept = if name == "settings.host" { "main" } else { "mail.example.com" };
        assert!(page.contains(&format!("value=\"{kept}\"")), "{name}={value}: {page}");
    }
    for (name, value) in [("kind", "unknown"), ("channel", "")] {
        let answer = shop.send("/providers/new", &with(NEW, name, value)).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{name}");
    }
    assert!(shop.stored("identifier").await.is_empty());
    shop.create("main").await;
    let taken = shop.send("/providers/new", NEW).await;
    assert_eq!(taken.status(), StatusCode::CONFLICT);
    assert!(taken.text().await.unwrap().contains("has a provider with this identifier already"));
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_forms_change_nothing() {
    let shop = Shop::start().await;
    for identifier in ["main", "other", "third"] {
        shop.create(identifier).await;
    }
    shop.console.installation.run("UPDATE provider SET version = 7").await;
    for (below, fields) in [
        ("/provider/main/edit", &[("version", "6"), ("settings.host", "elsewhere")][..]),
        ("/provider/main/switch", &[("version", "6"), ("to", "disabled"), ("reason", "maintenance")]),
        ("/provider/main/remove", &[("version", "6"), ("typed", "main")]),
        ("/provider/third/move", &[("before", "main")]),
        ("/provider/third/move", &[("behind", "other")]),
    ] {
        let answer = shop.send(below, fields).await;
        assert_eq!(answer.status(), StatusCode::CONFLICT, "{below}");
        assert!(
            answer.text().await.unwrap().contains("changed or removed since the page was opened"),
            "{below}"
        );
    }
    for (below, fields) in [
        ("/provider/main/edit", &[("settings.host", "elsewhere")][..]),
        ("/provider/main/switch", &[("version", "7"), ("to", "disabled"), ("reason", " ")]),
        ("/provider/main/switch", &[("version", "7"), ("reason", "maintenance")]),
        ("/provider/main/remove", &[("version", "7"), ("typed", "mail")]),
        ("/provider/main/move", &[]),
    ] {
        assert_eq!(shop.send(below, fields).await.status(), StatusCode::BAD_REQUEST, "{below}");
    }
    assert_eq!(
        shop.stored("version || ' ' || identifier || ' ' || enabled").await,
        ["7 main true", "7 other true", "7 third true"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn providers_are_ordered_switched_with_a_reason_tested_and_removed() {
    let shop = Shop::start().await;
    for identifier in ["main", "other", "third"] {
        shop.create(identifier).await;
    }
    let moved = shop.send("/provider/third/move", &[("before", "other")]).await;
    assert_eq!(moved.status(), StatusCode::SEE_OTHER);
    assert_eq!(
        shop.send("/provider/main/move", &[("behind", "third")]).await.status(),
        StatusCode::SEE_OTHER
    );
    assert_eq!(shop.stored("identifier").await, ["third", "main", "other"]);

    assert!(shop.page("/provider/other/switch").await.contains("2 other providers"));
    let reason = "maintenance <b>until</b> noon";
    let fields = [("version", "2"), ("to", "disabled"), ("reason", reason)];
    assert_eq!(shop.send("/provider/other/switch", &fields).await.status(), StatusCode::SEE_OTHER);
    let page = shop.page("/provider/other").await;
    assert!(page.contains("Disabled. Workers do not call it."), "{page}");
    assert!(page.contains("“maintenance &#60;b&#62;until&#60;/b&#62; noon”"), "{page}");

    let tested = shop.send("/provider/main/test", &[]).await;
    let page = tested.text().await.unwrap();
    assert!(page.contains("The test failed: no_worker") && page.contains("tidings run email"), "{page}");

    let fields = [("version", "3"), ("typed", "other")];
    assert_eq!(shop.send("/provider/other/remove", &fields).await.status(), StatusCode::SEE_OTHER);
    assert_eq!(shop.stored("identifier").await, ["third", "main"]);
    let viewer = shop.console.operator(Role::Viewer, None).await;
    let seen = shop.console.page(&format!("{}/provider/main", shop.app), &viewer).await;
    assert!(
        seen.contains("mail.example.com") && !seen.contains("/edit") && !seen.contains("/test"),
        "{seen}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_whose_calls_are_paused_says_after_which_answer() {
    let shop = Shop::start().await;
    shop.create("main").await;
    shop.console
        .installation
        .run(
            "INSERT INTO timer (id, due_at, stream, message, app_id, delivery_id, wait_reason, provider, code)
             SELECT gen_random_uuid(), now() + interval '1 hour', 'JOB_email_bulk', '', id, gen_random_uuid(), 'breaker_open', 'main', '535'
             FROM app",
        )
        .await;
    assert!(shop.page("/providers").await.contains("calls are paused"));
    let page = shop.page("/provider/main").await;
    assert!(page.contains("Calls are paused after 535. 1 delivery waits for it."), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_says_since_when_it_is_set_and_a_move_names_the_new_host() {
    let shop = Shop::start().await;
    shop.create("main").await;
    let set = shop.stored("set_times ->> 'password'").await;
    assert!(set[0].parse::<i64>().unwrap() > 1_700_000_000_000, "{set:?}");
    let page = shop.page("/provider/main").await;
    assert!(
        page.contains("<dt>Password</dt><dd class=\"muted\">stored encrypted, set <time datetime="),
        "{page}"
    );
    let kept = [("version", "1"), ("settings.host", "mail.example.com"), ("settings.security", "tls")];
    let kept = shop.send("/provider/main/edit", &kept).await;
    assert_eq!(kept.status(), StatusCode::SEE_OTHER);
    assert_eq!(shop.stored("set_times ->> 'password'").await, set, "a secret that stays keeps its time");
    let hosts = "SELECT count(*) FROM audit WHERE action = 'provider.set' AND after ? 'host'";
    assert_eq!(shop.console.installation.count(hosts).await, 0);

    let moved = [("version", "2"), ("settings.host", "mail2.example.com"), ("settings.password", "hunter3")];
    assert_eq!(shop.send("/provider/main/edit", &moved).await.status(), StatusCode::SEE_OTHER);
    assert!(shop.stored("set_times ->> 'password'").await > set);
    let noted = "SELECT count(*) FROM audit WHERE before ->> 'host' = 'mail.example.com' AND after ->> 'host' = 'mail2.example.com'";
    assert_eq!(shop.console.installation.count(noted).await, 1);
    assert!(shop.page("/provider/main").await.contains("host mail.example.com → mail2.example.com"));

    shop.console.installation.run("UPDATE provider SET set_times = NULL").await;
    assert!(shop.page("/provider/main").await.contains("stored encrypted, and never shown"));
    let unknown = [("version", "3"), ("settings.host", "mail2.example.com")];
    assert_eq!(shop.send("/provider/main/edit", &unknown).await.status(), StatusCode::SEE_OTHER);
    let page = shop.page("/provider/main").await;
    assert!(page.contains("<dt>Password</dt><dd class=\"muted\">stored encrypted</dd>"), "{page}");
}
