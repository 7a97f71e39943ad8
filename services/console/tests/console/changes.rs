//! Forms that change something: what they do, and that stale or incomplete ones change nothing.

use credentials::password;
use domain::Role;
use reqwest::header::LOCATION;
use reqwest::{Method, RequestBuilder, Response, StatusCode};

use crate::fixture::{TestConsole, encoded};

pub(crate) const SEND: &str = "0197b5a2-0000-7000-8000-000000000001";
const DEAD: &str = "0197b5a2-0000-7000-8000-000000000009";
pub(crate) const PASSWORD: &str = "vier alte Katzen am Fluss";

impl TestConsole {
    /// Sends a form of an operator.
    pub(crate) async fn change(&self, path: &str, session: &str, fields: &[(&str, &str)]) -> Response {
        self.unsent_change(path, session, fields).send().await.unwrap()
    }

    pub(crate) fn unsent_change(&self, path: &str, session: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        let body = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
        let call = self.call(Method::POST, path).header("cookie", format!("tidings-console={session}"));
        let call = call.header("content-type", "application/x-www-form-urlencoded");
        call.body(body.collect::<Vec<_>>().join("&"))
    }

    pub(crate) async fn set_password(&self, email: &str) {
        let hash = password::hash(PASSWORD).unwrap();
        let statement = "UPDATE operator SET password = $2 WHERE email = $1";
        sqlx::query(statement).bind(email).bind(hash).execute(&self.installation.pool).await.unwrap();
    }

    pub(crate) async fn audited(&self, action: &'static str) -> Vec<String> {
        let statement = "SELECT actor FROM audit WHERE action = $1 ORDER BY id";
        sqlx::query_scalar(statement).bind(action).fetch_all(&self.installation.pool).await.unwrap()
    }
}

pub(crate) fn location(answer: &Response) -> &str {
    answer.headers()[LOCATION].to_str().unwrap()
}

/// An app `shop` with the person `ada`, who has a send with two emails that wait.
async fn shop() -> TestConsole {
    let console = TestConsole::start(|_| {}).await;
    console.installation.app("shop").await;
    for statement in [
        "INSERT INTO app_user (app_id, number, identifier, profile) OVERRIDING SYSTEM VALUE
         SELECT id, 7, 'ada', '{\"email\": \"Ada@Example.com\"}' FROM app",
        "INSERT INTO request (app_id, send_id, accepted_at, lane, title, recipients)
         SELECT id, '0197b5a2-0000-7000-8000-000000000001', now(), 'bulk', 'Order shipped', 3 FROM app",
        "INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
         SELECT app_id, send_id, n, 0, 'ada', 7, false, '{}' FROM request, generate_series(0, 1) AS n",
        "INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status)
         SELECT app_id, gen_random_uuid(), send_id, recipient_index, 7, 'email', 'ada@example.com', 'queued' FROM planned_recipient",
    ] {
        console.installation.run(statement).await;
    }
    console
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_is_cancelled_after_a_page_that_counts_what_waits() {
    let console = shop().await;
    let operator = console.operator(Role::Operator, None).await;
    let path = format!("/apps/shop/sends/{SEND}/cancel");
    let page = console.page(&path, &operator).await;
    for text in ["Order shipped", "2 deliveries wait and will not be made", "1 recipient is not planned yet"]
    {
        assert!(page.contains(text), "{text}: {page}");
    }
    let send = console.page(&format!("/apps/shop/sends/{SEND}"), &operator).await;
    assert!(send.contains(&format!("{path}\"")), "{send}");
    for _ in 0..2 {
        let answer = console.change(&path, &operator, &[]).await;
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
        let page = console.page(location(&answer), &operator).await;
        assert!(page.contains("The send is cancelled.") && !page.contains("/cancel\""), "{page}");
    }
    let cancelled = "SELECT count(*) FROM delivery WHERE status = 'cancelled'";
    assert_eq!(console.installation.count(cancelled).await, 2);
    assert_eq!(console.audited("request.cancel").await.len(), 1, "the second form changes nothing");
    assert!(console.audited("request.cancel").await[0].starts_with("operator:"));
    assert!(console.page(&path, &operator).await.contains("cancelled already"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_has_ended_is_not_cancelled() {
    let console = shop().await;
    let operator = console.operator(Role::Operator, None).await;
    console.installation.run("UPDATE delivery SET status = 'sent', settled_at = now()").await;
    console.installation.run("UPDATE request SET recipients = 2").await;
    let path = format!("/apps/shop/sends/{SEND}/cancel");
    assert!(console.page(&path, &operator).await.contains("No delivery waits now."));
    let answer = console.change(&path, &operator, &[]).await;
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    assert!(answer.text().await.unwrap().contains("left to cancel"));
    let unknown = "/apps/shop/sends/0197b5a2-0000-7000-8000-000000000077/cancel";
    assert_eq!(console.change(unknown, &operator, &[]).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn suppressed_targets_of_all_kinds_are_shown_and_lifted_once() {
    let console = shop().await;
    let support = console.operator(Role::Support, None).await;
    for statement in [
        "INSERT INTO suppression (app_id, channel, target, delivery_id, code)
         SELECT id, 'email', 'ADA@example.com', '0197b5a2-0000-7000-8000-000000000009', '550' FROM app",
        "INSERT INTO suppression (app_id, channel, target, delivery_id, code, pruned)
         SELECT id, 'mobilePush', 'fcm:token-of-ada', gen_random_uuid(), 'UNREGISTERED', '{\"users\": [{\"number\": 6}, {\"number\": 7}]}' FROM app",
        "INSERT INTO device (app_id, user_number, device_id) SELECT id, 7, 'laptop' FROM app",
        "INSERT INTO suppression (app_id, channel, target, delivery_id, code, pruned)
         SELECT id, 'webPush', 'https://push.example/ada', gen_random_uuid(), '410',
           '{\"subscription\": {\"user\": 7, \"device\": \"laptop\", \"p256dh\": \"AA==\", \"auth\": \"AA==\", \"expiresAt\": null}}' FROM app",
        "INSERT INTO suppression (app_id, channel, target, delivery_id, code, pruned)
         SELECT id, 'mobilePush', 'fcm:token-of-bob', gen_random_uuid(), 'UNREGISTERED', '{\"users\": [{\"number\": 6}]}' FROM app",
    ] {
        console.installation.run(statement).await;
    }
    for left in [3, 2, 1] {
        let page = console.page("/apps/shop/people/ada", &support).await;
        assert_eq!(page.matches("Lift…").count(), left, "{page}");
        let link = page.split("href=\"").find(|part| part.contains("/suppressions/lift")).unwrap();
        let link = link.split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&");
        let asked = console.page(&link, &support).await;
        assert!(asked.contains("Lift the suppression of") && !asked.contains("token-of-ada"), "{asked}");
        let answer = console.change(&link, &support, &[]).await;
        assert_eq!(
            (answer.status(), location(&answer)),
            (StatusCode::SEE_OTHER, "/apps/shop/people/ada?done=lifted")
        );
        let stale = console.change(&link, &support, &[]).await;
        assert_eq!(stale.status(), StatusCode::NOT_FOUND);
        assert!(stale.text().await.unwrap().contains("was lifted already"));
    }
    assert_eq!(console.installation.count("SELECT count(*) FROM suppression").await, 1, "that of Bob stays");
    assert_eq!(console.installation.count("SELECT count(*) FROM web_push_subscription").await, 1);
    let tokens =
        "SELECT count(*) FROM app_user WHERE profile @> '{\"fcm\": {\"tokens\": [\"token-of-ada\"]}}'";
    assert_eq!(console.installation.count(tokens).await, 1);
    assert_eq!(console.audited("suppression.lift").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_explanation_of_a_dead_target_leads_to_lifting_and_back() {
    let console = shop().await;
    let support = console.operator(Role::Support, None).await;
    for statement in [
        "UPDATE delivery SET status = 'failed', reason = 'target_gone', settled_at = now()",
        "INSERT INTO suppression (app_id, channel, target, delivery_id, code)
         SELECT id, 'email', 'ada@example.com', '0197b5a2-0000-7000-8000-000000000009', '550' FROM app",
    ] {
        console.installation.run(statement).await;
    }
    let explained = format!("/apps/shop/sends/{SEND}/explain?person=ada");
    let page = console.page(&explained, &support).await;
    let lift = format!("/apps/shop/suppressions/lift?channel=email&amp;delivery={DEAD}&amp;back=");
    assert!(page.replace("&#38;", "&amp;").contains(&lift), "{page}");
    let back = percent(&explained);
    let path = format!("/apps/shop/suppressions/lift?channel=email&delivery={DEAD}&back={back}");
    let answer = console.change(&path, &support, &[]).await;
    assert_eq!(location(&answer), format!("{explained}&done=lifted"));
    assert!(!console.page(&explained, &support).await.contains("Lift the suppression"));
    let elsewhere = format!("/apps/shop/suppressions/lift?channel=email&delivery={DEAD}&back=//evil.example");
    console
        .installation
        .run(
            "INSERT INTO suppression (app_id, channel, target, delivery_id, code)
         SELECT id, 'email', 'ada@example.com', '0197b5a2-0000-7000-8000-000000000009', '550' FROM app",
        )
        .await;
    assert_eq!(location(&console.change(&elsewhere, &support, &[]).await), "/?done=lifted");
}

fn percent(text: &str) -> String {
    encoded(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_deliveries_of_one_cause_are_released_once() {
    let console = shop().await;
    let operator = console.operator(Role::Operator, None).await;
    let fill = "INSERT INTO timer (id, due_at, stream, message, app_id, send_id, delivery_id, wait_reason, provider, code)
         SELECT gen_random_uuid(), now() + interval '1 hour', 'JOB_email_' || lane, '', app.id, NULL, gen_random_uuid(), 'retry_later', provider, '421'
         FROM app, (VALUES ('bulk', 'a&b'), ('transactional', 'a&b'), ('bulk', 'other')) AS v (lane, provider)";
    console.installation.run(fill).await;
    let page = console.page("/apps/shop/waiting", &operator).await;
    let path = "/apps/shop/waiting/release?channel=email&reason=retry_later&provider=a%26b&code=421";
    assert!(page.replace("&#38;", "&").contains(&format!("href=\"{path}\"")), "{page}");
    let asked = console.page(path, &operator).await;
    assert!(
        asked.contains("Release 2 deliveries?") && asked.contains("uses up one of its retries"),
        "{asked}"
    );
    let answer = console.change(path, &operator, &[]).await;
    assert_eq!(location(&answer), "/apps/shop/waiting?done=released");
    assert_eq!(console.installation.count("SELECT count(*) FROM timer WHERE due_at <= now()").await, 2);
    assert_eq!(
        console.change(path, &operator, &[]).await.status(),
        StatusCode::CONFLICT,
        "nothing waits any more"
    );
    assert_eq!(console.audited("waiting.release").await.len(), 1);
    let unknown = "/apps/shop/waiting/release?channel=email&reason=target_gone";
    assert_eq!(console.get(unknown, &operator).await.status(), StatusCode::CONFLICT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_erased_after_typing_the_identifier_and_the_password() {
    let console = shop().await;
    let support = console.operator(Role::Support, None).await;
    console.set_password("support-all@example.com").await;
    let path = "/apps/shop/people/ada/erase";
    let page = console.page(path, &support).await;
    assert!(page.contains("Type the identifier") && page.contains("Your password"), "{page}");
    for (typed, word, expected, problem) in [
        ("Ada", PASSWORD, StatusCode::BAD_REQUEST, "not the identifier"),
        ("", PASSWORD, StatusCode::BAD_REQUEST, "not the identifier"),
        ("ada", "", StatusCode::FORBIDDEN, "password is wrong"),
        ("ada", "wrong password 1", StatusCode::FORBIDDEN, "password is wrong"),
    ] {
        let answer = console.change(path, &support, &[("typed", typed), ("password", word)]).await;
        assert_eq!(answer.status(), expected, "{typed} {word}");
        assert!(answer.text().await.unwrap().contains(problem), "{typed} {word}");
    }
    assert_eq!(console.installation.count("SELECT count(*) FROM app_user").await, 1);
    let right = [("typed", "ada"), ("password", PASSWORD)];
    let answer = console.change(path, &support, &right).await;
    assert_eq!(location(&answer), "/apps/shop/people?done=erased");
    assert!(console.page(location(&answer), &support).await.contains("The person is erased."));
    assert_eq!(console.installation.count("SELECT count(*) FROM app_user").await, 0);
    assert_eq!(console.change(path, &support, &right).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(console.audited("user.erase").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_is_shown_in_full_with_a_reason_that_the_audit_log_keeps() {
    let console = shop().await;
    let (viewer, support) =
        (console.operator(Role::Viewer, None).await, console.operator(Role::Support, None).await);
    let person = console.page("/apps/shop/people/ada", &support).await;
    assert!(person.contains("/people/ada/reveal?place=0\""), "{person}");
    let person = console.page("/apps/shop/people/ada", &viewer).await;
    assert!(!person.contains("/reveal"), "{person}");
    let path = "/apps/shop/people/ada/reveal";
    let page = console.page(&format!("{path}?place=0"), &support).await;
    assert!(
        page.contains("Show A***@example.com in full?") || page.contains("Show a***@example.com in full?"),
        "{page}"
    );
    let masked = page.split("name=\"masked\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let fields = |reason: &'static str| {
        vec![("channel", "email"), ("place", "0"), ("masked", masked.as_str()), ("reason", reason)]
    };
    let without = console.change(path, &support, &fields(" ")).await;
    assert_eq!(without.status(), StatusCode::BAD_REQUEST);
    let text = without.text().await.unwrap();
    assert!(text.contains("reason must have") && !text.contains("Ada@Example.com"), "{text}");
    let mut stale = fields("ticket 7");
    stale[2].1 = "b***@example.com";
    assert_eq!(console.change(path, &support, &stale).await.status(), StatusCode::CONFLICT);
    assert!(console.audited("target.reveal").await.is_empty());
    let answer = console.change(path, &support, &fields("ticket 7")).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let text = answer.text().await.unwrap();
    assert!(text.to_lowercase().contains("ada@example.com") && text.contains("ticket 7"), "{text}");
    let kept = "SELECT count(*) FROM audit WHERE action = 'target.reveal' AND subject = 'user 7'
         AND after = '{\"channel\": \"email\", \"reason\": \"ticket 7\"}' AND ip = '127.0.0.1' AND request_id IS NOT NULL";
    assert_eq!(console.installation.count(kept).await, 1);
    let missing = console.get(&format!("{path}?place=1"), &support).await;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_passwords_of_a_step_up_are_limited_like_sign_ins() {
    let console = shop().await;
    let support = console.operator(Role::Support, None).await;
    console.set_password("support-all@example.com").await;
    let path = "/apps/shop/people/ada/erase";
    for _ in 0..5 {
        let wrong = [("typed", "ada"), ("password", "wrong password 1")];
        assert_eq!(console.change(path, &support, &wrong).await.status(), StatusCode::FORBIDDEN);
    }
    let answer = console.change(path, &support, &[("typed", "ada"), ("password", PASSWORD)]).await;
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    let sign_in = [("email", "support-all@example.com"), ("password", PASSWORD)];
    assert_eq!(console.form("/sign-in", &sign_in).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(console.installation.count("SELECT count(*) FROM app_user").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_without_a_password_confirms_by_a_recent_sign_in() {
    let console = shop().await;
    let support = console.operator(Role::Support, None).await;
    let path = "/apps/shop/people/ada/erase";
    assert!(!console.page(path, &support).await.contains("Your password"));
    let old = "UPDATE operator_session SET created_at = now() - interval '10 minutes'";
    console.installation.run(old).await;
    let answer = console.change(path, &support, &[("typed", "ada")]).await;
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    assert!(answer.text().await.unwrap().contains("a sign-in of the last ten minutes"));
    console.installation.run("UPDATE operator_session SET created_at = now()").await;
    let answer = console.change(path, &support, &[("typed", "ada")]).await;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_whom_a_proxy_signs_in_confirms_by_typing() {
    let console = TestConsole::start(|config| {
        config.console.proxy_header = Some("X-Forwarded-Email".to_owned());
        config.console.proxy_from = vec!["127.0.0.1".parse().unwrap()];
    })
    .await;
    console.installation.app("shop").await;
    let person = "INSERT INTO app_user (app_id, identifier) SELECT id, 'ada' FROM app";
    console.installation.run(person).await;
    console.operator(Role::Support, None).await;
    for (typed, expected) in [("bob", StatusCode::BAD_REQUEST), ("ada", StatusCode::SEE_OTHER)] {
        let call = console.call(Method::POST, "/apps/shop/people/ada/erase");
        let call = call.header("x-forwarded-email", "support-all@example.com").body(format!("typed={typed}"));
        assert_eq!(call.send().await.unwrap().status(), expected, "{typed}");
    }
}
