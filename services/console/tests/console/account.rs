//! The own account: sessions and password.

use domain::Role;
use reqwest::StatusCode;

use crate::changes::{PASSWORD, location};
use crate::fixture::TestConsole;

const NEW: &str = "drei junge Hunde am Berg";

/// A console with an operator who has a password and three sessions. Returns the first one.
async fn three_sessions() -> (TestConsole, String) {
    let console = TestConsole::start(|_| {}).await;
    let own = console.operator(Role::Viewer, None).await;
    console.set_password("viewer-all@example.com").await;
    let id: i64 =
        sqlx::query_scalar("SELECT id FROM operator").fetch_one(&console.installation.pool).await.unwrap();
    console.session(id, "second").await;
    console.session(id, "third").await;
    let other = console.operator(Role::Support, None).await;
    assert_eq!(other, "support-all");
    (console, own)
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_listed_in_words_and_ended_one_or_all() {
    let (console, own) = three_sessions().await;
    let page = console.page("/account", &own).await;
    assert_eq!(page.matches("Firefox on Linux").count(), 3, "{page}");
    assert!(page.contains("by password from 192.0.2.x") && page.matches("this one").count() == 1, "{page}");
    let name = page.split("name=\"session\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let ended = console.change("/account/sessions", &own, &[("session", &name)]).await;
    assert_eq!(location(&ended), "/account?done=ended");
    let again = console.change("/account/sessions", &own, &[("session", &name)]).await;
    assert_eq!(again.status(), StatusCode::NOT_FOUND);
    let foreign = console.change("/account/sessions", "support-all", &[("session", &name)]).await;
    assert_eq!(foreign.status(), StatusCode::NOT_FOUND);
    let ended = console.change("/account/sessions", &own, &[]).await;
    assert_eq!(location(&ended), "/account?done=ended-all");
    for (session, status) in [
        (own.as_str(), StatusCode::OK),
        ("second", StatusCode::SEE_OTHER),
        ("third", StatusCode::SEE_OTHER),
        ("support-all", StatusCode::OK),
    ] {
        assert_eq!(console.get("/account", session).await.status(), status, "{session}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_changed_with_the_old_one_and_other_sessions_end() {
    let (console, own) = three_sessions().await;
    for (old, new, expected, problem) in [
        ("wrong password 1", NEW, StatusCode::FORBIDDEN, "password is wrong"),
        (PASSWORD, "password1234", StatusCode::BAD_REQUEST, "easy to guess"),
    ] {
        let answer = console.change("/account/password", &own, &[("password", old), ("new", new)]).await;
        assert_eq!(answer.status(), expected, "{old} {new}");
        assert!(answer.text().await.unwrap().contains(problem), "{old} {new}");
    }
    let answer = console.change("/account/password", &own, &[("password", PASSWORD), ("new", NEW)]).await;
    assert_eq!(location(&answer), "/account?done=password");
    assert!(console.page(location(&answer), &own).await.contains("Your password is changed."));
    assert_eq!(console.get("/account", "second").await.status(), StatusCode::SEE_OTHER);
    assert_eq!(console.get("/account", "support-all").await.status(), StatusCode::OK);
    assert_eq!(console.audited("operator.password").await.len(), 1);
    for (password, status) in [(PASSWORD, StatusCode::FORBIDDEN), (NEW, StatusCode::SEE_OTHER)] {
        let fields = [("email", "viewer-all@example.com"), ("password", password)];
        assert_eq!(console.form("/sign-in", &fields).await.status(), status, "{password}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_whom_a_proxy_signs_in_has_neither_sessions_nor_a_password() {
    let console = TestConsole::start(|config| {
        config.console.proxy_header = Some("X-Forwarded-Email".to_owned());
        config.console.proxy_from = vec!["127.0.0.1".parse().unwrap()];
    })
    .await;
    console.operator(Role::Viewer, None).await;
    let call = |method, path| {
        console.call(method, path).header("x-forwarded-email", "viewer-all@example.com").send()
    };
    let page = call(reqwest::Method::GET, "/account").await.unwrap().text().await.unwrap();
    assert!(page.contains("Your proxy signs you in.") && !page.contains("New password"), "{page}");
    for path in ["/account/sessions", "/account/password"] {
        assert_eq!(call(reqwest::Method::POST, path).await.unwrap().status(), StatusCode::CONFLICT, "{path}");
    }
}
