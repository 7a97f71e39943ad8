//! Pages and forms about operators.

use console::ROUTES;
use domain::Role;
use reqwest::StatusCode;

use crate::changes::{PASSWORD, location};
use crate::fixture::{TestConsole, token_of};

const BOB: &str = "/operators/viewer-all%40example.com";

/// A console with the app `shop` and an administrator. Returns the administrator's session.
async fn shop() -> (TestConsole, String) {
    let console = TestConsole::start(|_| {}).await;
    console.installation.app("shop").await;
    let admin = console.operator(Role::Admin, None).await;
    (console, admin)
}

async fn roles_of(console: &TestConsole, email: &str) -> Vec<String> {
    let statement = "SELECT coalesce(a.name, 'all') || ':' || role FROM operator_grant g JOIN operator o ON o.id = g.operator_id
         LEFT JOIN app a ON a.id = g.app_id WHERE email = $1 ORDER BY 1";
    sqlx::query_scalar(statement).bind(email).fetch_all(&console.installation.pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_administrators_of_all_apps_manage_operators_and_read_the_whole_audit_log() {
    let (console, _) = shop().await;
    let shop = console.installation.app("bank").await;
    console.operator(Role::Viewer, None).await;
    let is_about = |route: &str| route.starts_with("/operators") || route == "/audit";
    let mut checked = 0;
    for &role in Role::ALL {
        let everywhere = match role {
            Role::Admin | Role::Viewer => format!("{role}-all"),
            role => console.operator(role, None).await,
        };
        let in_app = console.operator(role, Some(shop)).await;
        for (method, route) in ROUTES.iter().filter(|(_, route)| is_about(route)) {
            let path =
                route.replace("{email}", "viewer-all@example.com").replace("/revoke", "/revoke?scope=all");
            for (session, is_admin) in [(&everywhere, role == Role::Admin), (&in_app, false)] {
                if is_admin && *method == "POST" {
                    continue;
                }
                let status = match *method {
                    "GET" => console.get(&path, session).await.status(),
                    _ => {
                        console.change(&path, session, &[("role", "admin"), ("scope", "all")]).await.status()
                    }
                };
                let expected = if is_admin { StatusCode::OK } else { StatusCode::FORBIDDEN };
                assert_eq!(status, expected, "{method} {path} {session}");
                checked += 1;
            }
        }
        let account = console.page("/account", &in_app).await;
        assert!(account.contains("in bank") && account.contains("this one"), "{account}");
    }
    println!("{checked} pages and forms were checked");
    assert!(checked > 120, "{checked}");
    assert_eq!(roles_of(&console, "viewer-all@example.com").await, ["all:viewer"]);
    assert!(console.audited("operator.link").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_is_created_after_the_password_and_chooses_one_by_the_link() {
    let (console, admin) = shop().await;
    console.set_password("admin-all@example.com").await;
    let app: i64 =
        sqlx::query_scalar("SELECT id FROM app").fetch_one(&console.installation.pool).await.unwrap();
    let app = app.to_string();
    let fields = |email: &'static str, password: &'static str| {
        [("email", email), ("role", "support"), ("scope", app.as_str()), ("password", password)]
    };
    for (email, password, expected, problem) in [
        ("bob@example.com", "wrong password 1", StatusCode::FORBIDDEN, "password is wrong"),
        ("bob", PASSWORD, StatusCode::BAD_REQUEST, "must be an email address"),
        ("admin-all@example.com", PASSWORD, StatusCode::CONFLICT, "with this email already"),
    ] {
        let answer = console.change("/operators/new", &admin, &fields(email, password)).await;
        assert_eq!(answer.status(), expected, "{email}");
        assert!(answer.text().await.unwrap().contains(problem), "{email}");
    }
    let answer = console.change("/operators/new", &admin, &fields("Bob@example.com", PASSWORD)).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let page = answer.text().await.unwrap();
    let code = page.split("/welcome?code=").nth(1).unwrap().split('<').next().unwrap().to_owned();
    let listed = console.page("/operators", &admin).await;
    assert!(listed.contains("bob@example.com") && listed.contains("never") && !listed.contains(&code));
    let chosen = console.form("/welcome", &[("code", &code), ("password", PASSWORD)]).await;
    assert_eq!(chosen.status(), StatusCode::SEE_OTHER);
    let shown = console.page("/apps", &token_of(&chosen)).await;
    assert!(shown.contains("shop"), "{shown}");
    assert_eq!(roles_of(&console, "bob@example.com").await, ["shop:support"]);
    assert!(!console.page("/operators", &admin).await.contains("never"), "the sign-in is noted");
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_change_for_the_role_that_the_form_showed_and_sessions_end() {
    let (console, admin) = shop().await;
    let bob = console.operator(Role::Viewer, None).await;
    let grant = format!("{BOB}/grant");
    let page = console.page(&format!("{grant}?scope=all"), &admin).await;
    assert!(page.contains("Change the role of viewer-all@example.com in all apps"), "{page}");
    let editor = [("scope", "all"), ("role", "editor"), ("seen", "viewer")];
    let answer = console.change(&grant, &admin, &editor).await;
    assert_eq!(location(&answer), format!("{BOB}?done=granted"));
    assert_eq!(console.get("/apps", &bob).await.status(), StatusCode::SEE_OTHER, "the session has ended");
    let stale = console.change(&grant, &admin, &editor).await;
    assert_eq!(stale.status(), StatusCode::CONFLICT, "the operator is an editor now");
    assert_eq!(roles_of(&console, "viewer-all@example.com").await, ["all:editor"]);
    let unknown = console.change(&grant, &admin, &[("scope", "99"), ("role", "editor")]).await;
    assert_eq!(unknown.status(), StatusCode::BAD_REQUEST);
    let revoke = format!("{BOB}/revoke");
    let stale = console.change(&revoke, &admin, &[("scope", "all"), ("seen", "viewer")]).await;
    assert_eq!(stale.status(), StatusCode::CONFLICT);
    let answer = console.change(&revoke, &admin, &[("scope", "all"), ("seen", "editor")]).await;
    assert_eq!(location(&answer), format!("{BOB}?done=revoked"));
    assert_eq!(roles_of(&console, "viewer-all@example.com").await, Vec::<String>::new());
    let log = console.page("/audit?q=viewer-all", &admin).await;
    for text in ["role: viewer → editor", "role: editor → –", "admin-all@example.com", "127.0.0.1"] {
        assert!(log.contains(text), "{text}: {log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_administrator_is_neither_disabled_nor_loses_the_role() {
    let (console, admin) = shop().await;
    let own = "/operators/admin-all%40example.com";
    let less = [("scope", "all"), ("role", "viewer"), ("seen", "admin")];
    for (step, fields) in [("disable", &[][..]), ("revoke", &[less[0], less[2]][..]), ("grant", &less[..])] {
        let answer = console.change(&format!("{own}/{step}"), &admin, fields).await;
        assert_eq!(answer.status(), StatusCode::CONFLICT, "{step}");
        assert!(
            answer.text().await.unwrap().contains("No other enabled operator is an administrator"),
            "{step}"
        );
    }
    assert_eq!(roles_of(&console, "admin-all@example.com").await, ["all:admin"]);

    // Two administrators who disable each other at the same time: one stays.
    console.operator(Role::Viewer, None).await;
    let promoted = [("scope", "all"), ("role", "admin"), ("seen", "viewer")];
    let answer = console.change(&format!("{BOB}/grant"), &admin, &promoted).await;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    let bob: i64 = sqlx::query_scalar("SELECT id FROM operator WHERE email LIKE 'viewer%'")
        .fetch_one(&console.installation.pool)
        .await
        .unwrap();
    console.session(bob, "bob").await;
    let (one, other) = (format!("{BOB}/disable"), format!("{own}/disable"));
    let (one, other) = tokio::join!(console.change(&one, &admin, &[]), console.change(&other, "bob", &[]));
    let enabled = "SELECT count(*) FROM operator WHERE disabled_at IS NULL";
    assert_eq!(console.installation.count(enabled).await, 1, "{} {}", one.status(), other.status());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_operator_is_enabled_again_and_gets_a_new_link() {
    let (console, admin) = shop().await;
    let bob = console.operator(Role::Viewer, None).await;
    let answer = console.change(&format!("{BOB}/disable"), &admin, &[]).await;
    assert!(console.page(location(&answer), &admin).await.contains("may not sign in"));
    assert_eq!(console.get("/apps", &bob).await.status(), StatusCode::SEE_OTHER);
    let link = console.change(&format!("{BOB}/link"), &admin, &[]).await;
    assert_eq!(link.status(), StatusCode::NOT_FOUND, "a disabled operator gets no link");
    console.change(&format!("{BOB}/enable"), &admin, &[]).await;
    let link = console.change(&format!("{BOB}/link"), &admin, &[]).await;
    assert!(link.text().await.unwrap().contains("/welcome?code="));
    assert_eq!(console.get(&format!("{BOB}/unknown"), &admin).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(console.get("/operators/none@x", &admin).await.status(), StatusCode::NOT_FOUND);
}
