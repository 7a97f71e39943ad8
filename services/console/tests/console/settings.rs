//! Settings, credentials, webhooks, categories, topics and tokens: their pages, and the forms that are refused.

use domain::{AppId, Role};
use reqwest::header::{CACHE_CONTROL, LOCATION};
use reqwest::{Response, StatusCode};

use crate::fixture::{TestConsole, encoded};

const APP: &str = "a/b?c#d";

struct Shop {
    console: TestConsole,
    admin: String,
    app: AppId,
}

impl Shop {
    async fn start() -> Shop {
        let console = TestConsole::start(|_| {}).await;
        let app = console.installation.app(APP).await;
        let admin = console.operator(Role::Admin, None).await;
        Shop { console, admin, app }
    }

    fn path(below: &str) -> String {
        format!("/apps/{}{below}", encoded(APP))
    }

    async fn page(&self, below: &str) -> String {
        self.console.page(&Shop::path(below), &self.admin).await
    }

    async fn send(&self, below: &str, fields: &[(&str, &str)]) -> Response {
        self.console.change(&Shop::path(below), &self.admin, fields).await
    }

    /// Sends a form, which must lead to another page with this end of its address.
    async fn done(&self, below: &str, fields: &[(&str, &str)], leads_to: &str) {
        let answer = self.send(below, fields).await;
        let status = answer.status();
        let location =
            answer.headers().get(LOCATION).map(|it| it.to_str().unwrap().to_owned()).unwrap_or_default();
        assert!(
            location.ends_with(leads_to),
            "{below}: {status} {location} {}",
            answer.text().await.unwrap()
        );
    }

    /// Sends a form, which must be answered with this status and text.
    async fn refused(&self, below: &str, fields: &[(&str, &str)], status: StatusCode, text: &str) {
        let answer = self.send(below, fields).await;
        assert_eq!(answer.status(), status, "{below} {fields:?}");
        let page = answer.text().await.unwrap();
        assert!(page.contains(text), "{below} {fields:?}: {page}");
    }

    async fn value(&self, statement: &'static str) -> String {
        let value: Option<String> =
            sqlx::query_scalar(statement).fetch_one(&self.console.installation.pool).await.unwrap();
        value.unwrap_or_default()
    }
}

/// Returns the value of a hidden field.
fn hidden(page: &str, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    let (_, rest) = page.split_once(&start).unwrap_or_else(|| panic!("{name}: {page}"));
    rest.split('"').next().unwrap().to_owned()
}

/// Returns the secret that a page shows once.
fn secret(page: &str) -> String {
    assert!(page.contains("It is not shown again."), "{page}");
    let (_, rest) = page.split_once("<pre class=\"example\"><code data-copy>").unwrap();
    rest.split('<').next().unwrap().to_owned()
}

/// Returns the fields that the page of the settings would send.
fn fields(page: &str) -> Vec<(String, String)> {
    let mut fields = vec![("seen".to_owned(), hidden(page, "seen"))];
    for (name, value) in [
        ("token-subject", "prefixed"),
        ("template-profile", "app"),
        ("address-keys", "open"),
        ("cors-origins", "any"),
    ] {
        fields.push((name.to_owned(), value.to_owned()));
    }
    for switch in ["secure-mode", "require-exp"] {
        fields.push((switch.to_owned(), "on".to_owned()));
    }
    fields
}

fn with<'a>(fields: &'a [(String, String)], more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let others = fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let others = others.filter(|(name, _)| !more.iter().any(|(other, _)| other == name));
    others.chain(more.iter().copied()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_changed_in_one_step_and_a_stale_form_changes_nothing() {
    let shop = Shop::start().await;
    shop.console
        .installation
        .run("UPDATE app SET token_subject = 'prefixed', template_profile = 'app', secure_mode = true, require_exp = true")
        .await;
    let page = shop.page("/settings").await;
    let form = fields(&page);
    shop.done(
        "/settings",
        &with(&form, &[("rate-limit", "500"), ("brand-name", " Shop & Söhne ")]),
        "done=settings-saved",
    )
    .await;
    let changed = "SELECT string_agg(subject, ' ' ORDER BY id) FROM audit WHERE action = 'app.set'";
    assert_eq!(shop.value(changed).await, "rate-limit=500 brand-name=Shop & Söhne", "only these are changed");
    let page = shop.page("/settings").await;
    assert!(page.contains("value=\"500\"") && page.contains("value=\"Shop &#38; Söhne\""), "{page}");
    shop.refused(
        "/settings",
        &with(&form, &[("rate-limit", "7")]),
        StatusCode::CONFLICT,
        "changed or removed",
    )
    .await;
    shop.refused(
        "/settings",
        &with(&form, &[("rate-limit", "x")]),
        StatusCode::CONFLICT,
        "changed or removed",
    )
    .await;
    let form = fields(&page);
    let wrong = [("rate-limit", "many"), ("max-users", "9"), ("brand-name", "Other")];
    let answer = shop.send("/settings", &with(&form, &wrong)).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    let page = answer.text().await.unwrap();
    for text in ["Nothing was saved.", "value=\"many\"", "value=\"9\"", "value=\"Other\"", "aria-invalid"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let layout =
        with(&form, &[("rate-limit", "500"), ("brand-name", "Shop & Söhne"), ("email-layout", "none-such")]);
    shop.refused("/settings", &layout, StatusCode::BAD_REQUEST, "is not a template of the app").await;
    assert_eq!(shop.value(changed).await, "rate-limit=500 brand-name=Shop & Söhne");
    let viewer = shop.console.operator(Role::Viewer, None).await;
    let page = shop.console.page(&Shop::path("/settings"), &viewer).await;
    assert!(page.contains("500") && !page.contains("<button class=\"primary\""), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_rotated_once_shown_once_and_never_stored_by_browsers() {
    let shop = Shop::start().await;
    let page = shop.page("/credentials/secret").await;
    let seen = hidden(&page, "seen");
    shop.refused("/credentials/secret", &[("seen", &seen)], StatusCode::BAD_REQUEST, "no valid value").await;
    let answer = shop.send("/credentials/secret", &[("seen", &seen), ("grace", "1h")]).await;
    assert_eq!(
        (answer.status(), answer.headers()[CACHE_CONTROL].to_str().unwrap()),
        (StatusCode::OK, "no-store")
    );
    let secret = secret(&answer.text().await.unwrap());
    assert!(secret.starts_with("as_"), "{secret}");
    let again = [("seen", seen.as_str()), ("grace", "1h")];
    shop.refused("/credentials/secret", &again, StatusCode::CONFLICT, "Nothing was changed").await;
    let page = shop.page("/credentials").await;
    assert!(page.contains("valid until") && !page.contains(&secret), "{page}");

    let seen = hidden(&shop.page("/credentials/signing-key").await, "seen");
    let fields = [("seen", seen.as_str()), ("algorithm", "ES256")];
    let page = shop.send("/credentials/signing-key", &fields).await.text().await.unwrap();
    assert!(page.contains("BEGIN PRIVATE KEY") && page.contains("BEGIN PUBLIC KEY"), "{page}");
    shop.refused("/credentials/signing-key", &fields, StatusCode::CONFLICT, "Nothing was changed").await;
    let kid = shop.value("SELECT kid FROM signing_key").await;
    let revoke = format!("/credentials/signing-key/{kid}");
    shop.refused(&revoke, &[], StatusCode::BAD_REQUEST, "does not say").await;
    shop.done(&revoke, &[("seen", &kid)], "/credentials?done=key-revoked").await;
    shop.refused(&revoke, &[("seen", &kid)], StatusCode::NOT_FOUND, "revoked already").await;
    let seen = hidden(&shop.page("/credentials/link-key").await, "seen");
    shop.done("/credentials/link-key", &[("seen", &seen), ("grace", "60d")], "done=link-key-rotated").await;
    let rows = shop
        .value("SELECT string_agg(action, ' ' ORDER BY id) FROM audit WHERE actor_kind = 'operator'")
        .await;
    assert_eq!(rows, "app.rotate-secret app.signing-key.create app.signing-key.revoke app.link-key.rotate");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_credentials_needs_a_recent_proof() {
    let shop = Shop::start().await;
    let paths = ["/credentials/secret", "/credentials/link-key", "/credentials/signing-key"];
    shop.console.installation.run("UPDATE operator_session SET created_at = now() - interval '1 hour'").await;
    for path in paths {
        let seen = hidden(&shop.page(path).await, "seen");
        let fields = [("seen", seen.as_str()), ("grace", "0s"), ("algorithm", "HS256")];
        shop.refused(path, &fields, StatusCode::FORBIDDEN, "needs a sign-in of the last ten minutes").await;
    }
    assert_eq!(shop.value("SELECT count(*)::text FROM audit WHERE actor_kind = 'operator'").await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_added_edited_redelivered_and_removed() {
    let shop = Shop::start().await;
    let url = "https://shop.example/hook";
    let new = [("url", url), ("event.delivery.sent", "true")];
    shop.refused("/webhooks/new", &new[..1], StatusCode::BAD_REQUEST, "at least one event").await;
    let plain = [("url", "http://shop.example/"), new[1]];
    shop.refused("/webhooks/new", &plain, StatusCode::BAD_REQUEST, "must begin with https://").await;
    let created = shop.send("/webhooks/new", &new).await;
    assert_eq!(created.status(), StatusCode::CREATED);
    assert!(secret(&created.text().await.unwrap()).starts_with("whsec_"));
    shop.refused("/webhooks/new", &new, StatusCode::CONFLICT, "this URL already").await;
    let id = shop.value("SELECT id::text FROM webhook_endpoint").await;
    let at = |below: &str| format!("/webhook/{id}{below}");
    let seen = hidden(&shop.page(&at("/edit")).await, "seen");
    let edited = [("seen", seen.as_str()), ("event.delivery.failed", "true")];
    shop.done(&at("/edit"), &edited, "done=webhook-saved").await;
    shop.refused(&at("/edit"), &edited, StatusCode::CONFLICT, "changed or removed").await;

    shop.console
        .installation
        .run(
            "INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, body, status, last_answer, settled_at)
             SELECT app_id, id, gen_random_uuid(), gen_random_uuid(), 'delivery.failed', '', 'failed', '503', now()
             FROM webhook_endpoint, generate_series(1, 3)",
        )
        .await;
    let page = shop.page(&at("")).await;
    assert!(page.contains("Send all 3 again") && page.contains("503"), "{page}");
    let message = hidden(&page, "message");
    shop.done(&at("/redeliver"), &[("message", &message)], "done=redelivered").await;
    assert_eq!(shop.value("SELECT count(*)::text FROM webhook_message WHERE status = 'failed'").await, "2");
    shop.done(&at("/redeliver"), &[("all", "true")], "done=redelivered").await;
    assert_eq!(shop.value("SELECT count(*)::text FROM webhook_message WHERE status = 'failed'").await, "0");

    let seen = hidden(&shop.page(&at("/secret")).await, "seen");
    let fields = [("seen", seen.as_str()), ("grace", "24h")];
    let rotated = shop.send(&at("/secret"), &fields).await.text().await.unwrap();
    assert!(secret(&rotated).starts_with("whsec_"));
    shop.refused(&at("/secret"), &fields, StatusCode::CONFLICT, "changed or removed").await;
    let page = shop.page(&at("/remove")).await;
    assert!(page.contains("3 pending messages are dropped"), "{page}");
    shop.done(&at("/remove"), &[("seen", &id)], "/webhooks?done=webhook-removed").await;
    assert!(shop.page("/webhooks").await.contains("No endpoint yet."));
}

#[tokio::test(flavor = "multi_thread")]
async fn categories_and_topics_are_added_edited_and_deleted_with_rows_in_the_audit_log() {
    let shop = Shop::start().await;
    for (many, one, saved, deleted) in [
        ("categories", "category", "category-saved", "category-deleted"),
        ("topics", "topic", "topic-saved", "topic-deleted"),
    ] {
        let add = format!("/{many}/new");
        let new = [("identifier", "news:1"), ("name", "News"), ("order", "5"), ("open", "true")];
        shop.done(&add, &new, &format!("done={saved}")).await;
        shop.refused(&add, &new, StatusCode::CONFLICT, "with this identifier already").await;
        let empty = [("identifier", ""), ("order", "5")];
        shop.refused(&add, &empty, StatusCode::BAD_REQUEST, "dentifier must").await;
        let id = match one {
            "topic" => shop.value("SELECT id::text FROM topic").await,
            _ => shop.value("SELECT id::text FROM category").await,
        };
        let own = format!("/{one}/{id}");
        let seen = hidden(&shop.page(&own).await, "seen");
        let edited = [("seen", seen.as_str()), ("name", "Latest news"), ("order", "6")];
        shop.done(&own, &edited, &format!("done={saved}")).await;
        shop.refused(&own, &edited, StatusCode::CONFLICT, "changed or removed").await;
        let page = shop.page(&format!("/{many}")).await;
        assert!(page.contains("Latest news") && page.contains("news:1"), "{page}");
        let delete = format!("{own}/delete");
        shop.refused(&delete, &[("seen", &seen)], StatusCode::CONFLICT, "changed or removed").await;
        let seen = hidden(&shop.page(&delete).await, "seen");
        shop.done(&delete, &[("seen", &seen)], &format!("done={deleted}")).await;
        shop.refused(&delete, &[("seen", &seen)], StatusCode::NOT_FOUND, "There is no such").await;
    }
    let rows = shop.value("SELECT string_agg(action || ' ' || subject, ', ' ORDER BY id) FROM audit WHERE actor_kind = 'operator'").await;
    let of = |name: &str| format!("{name}.set news:1, {name}.set news:1, {name}.delete news:1");
    assert_eq!(rows, format!("{}, {}", of("category"), of("topic")));
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_are_counted_up_to_ten_thousand() {
    let shop = Shop::start().await;
    shop.done("/topics/new", &[("identifier", "all")], "done=topic-saved").await;
    shop.done("/topics/new", &[("identifier", "few")], "done=topic-saved").await;
    shop.console
        .installation
        .run(
            "INSERT INTO app_user (app_id, identifier, profile) SELECT id, 'u' || n, '{}' FROM app, generate_series(1, 10001) AS n;
             INSERT INTO topic_subscription (app_id, topic_id, user_number, subscribed_at)
             SELECT u.app_id, t.id, u.number, now() FROM app_user u JOIN topic t ON t.app_id = u.app_id
             WHERE t.identifier = 'all' OR u.identifier IN ('u1', 'u2')",
        )
        .await;
    let page = shop.page("/topics").await;
    assert!(page.contains(">10,000+</td>") && page.contains(">2</td>"), "{page}");
    let id = shop.value("SELECT id::text FROM topic WHERE identifier = 'all'").await;
    let page = shop.page(&format!("/topic/{id}/delete")).await;
    assert!(page.contains("Its 10,000+ subscribers will be unsubscribed."), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_created_listed_and_revoked_by_administrators_of_all_apps() {
    let shop = Shop::start().await;
    let (console, admin) = (&shop.console, &shop.admin);
    let in_shop = console.operator(Role::Admin, Some(shop.app)).await;
    for path in ["/tokens", "/tokens/new", "/tokens/1/revoke"] {
        assert_eq!(console.get(path, &in_shop).await.status(), StatusCode::FORBIDDEN, "{path}");
    }
    let scope = shop.app.to_string();
    let new = [("name", "ci"), ("role", "editor"), ("scope", scope.as_str()), ("lifetime", "30d")];
    let refused = console.change("/tokens/new", &in_shop, &new).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    assert_eq!(console.change("/tokens/new", admin, &new[..3]).await.status(), StatusCode::BAD_REQUEST);
    let created = console.change("/tokens/new", admin, &new).await;
    assert_eq!(created.status(), StatusCode::CREATED);
    let secret = secret(&created.text().await.unwrap());
    assert!(secret.starts_with("tdga_"), "{secret}");
    assert_eq!(console.change("/tokens/new", admin, &new).await.status(), StatusCode::CONFLICT);
    let page = console.page("/tokens", admin).await;
    for text in ["ci", "<b>editor</b>", APP, "admin-all@example.com", "never", "valid"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains(&secret));
    let id = shop.value("SELECT id::text FROM admin_token").await;
    let revoke = format!("/tokens/{id}/revoke");
    assert_eq!(console.change(&revoke, admin, &[]).await.status(), StatusCode::BAD_REQUEST);
    let revoked = console.change(&revoke, admin, &[("seen", &id)]).await;
    assert_eq!(revoked.headers()[LOCATION], "/tokens?done=token-revoked");
    assert_eq!(console.change(&revoke, admin, &[("seen", &id)]).await.status(), StatusCode::NOT_FOUND);
    assert!(console.page("/tokens", admin).await.contains("revoked"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_whose_creator_has_a_lower_role_says_so() {
    let shop = Shop::start().await;
    let console = &shop.console;
    let new = [("name", "ci"), ("role", "admin"), ("scope", "all"), ("lifetime", "30d")];
    assert_eq!(console.change("/tokens/new", &shop.admin, &new).await.status(), StatusCode::CREATED);
    console.installation.run("UPDATE operator_grant SET role = 'support'").await;
    let other = console.operator(Role::Admin, Some(shop.app)).await;
    console.installation.run("UPDATE operator_grant SET app_id = NULL").await;
    assert!(console.page("/tokens", &other).await.contains("now support, as its creator"));
    console
        .installation
        .run("UPDATE operator SET disabled_at = now() WHERE email = 'admin-all@example.com'")
        .await;
    assert!(console.page("/tokens", &other).await.contains("without a creator"));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_dots_have_pages() {
    let shop = Shop::start().await;
    for (number, name) in [".", "..", "%2E"].into_iter().enumerate() {
        let statement = format!(
            "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
             SELECT id, '{name}', 'email', 'pigeon', {number}, true, '{{\"host\": \"mail\"}}' FROM app"
        );
        let statement = sqlx::raw_sql(sqlx::AssertSqlSafe(statement));
        statement.execute(&shop.console.installation.pool).await.unwrap();
    }
    let page = shop.page("/providers").await;
    for (segment, name) in [("%252E", "."), ("%252E%252E", ".."), ("%25%32%45", "%2E")] {
        let path = format!("/provider/{segment}");
        assert!(page.contains(&format!("{path}\"")), "{path}: {page}");
        assert!(shop.page(&path).await.contains(&format!("<title>{name} ·")), "{path}");
    }
}
