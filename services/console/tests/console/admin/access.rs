use console::admin_routes;
use domain::Role;
use reqwest::StatusCode;
use reqwest::header::{COOKIE, WWW_AUTHENTICATE};
use serde_json::{Value, json};

use super::contract::{AdminClient, Operation, token};
use crate::access::filled;
use crate::fixture::TestConsole;

const SEND: &str = "0197b5a2-0000-7000-8000-000000000001";
const DEAD: &str = "0197b5a2-0000-7000-8000-000000000009";

/// Returns the path of an operation for an app, with ids of data that [`filled`] adds.
pub(super) fn path(operation: &Operation, app: &str) -> String {
    let category = if operation.method == reqwest::Method::DELETE { "1" } else { "orders" };
    let path = operation.path.replace("{app}", app).replace("{request}", SEND).replace("{person}", "ada");
    let path = path.replace("{provider}", "main").replace("{template}", "welcome").replace("{version}", "1");
    let path = path.replace("{kid}", "none").replace("{endpoint}", "1").replace("{category}", category);
    let path = path.replace("{topic}", "news").replace("{channel}", "email").replace("{delivery}", DEAD);
    let path =
        path.replace("{message}", SEND).replace("{redrive}", "7").replace("{email}", "none@example.com");
    let path = path.replace("{token}", "none");
    assert!(!path.contains('{'), "{path}");
    if path.ends_with("/explain") { path + "?person=ada" } else { path }
}

fn is_of_app(operation: &Operation) -> bool {
    operation.path.contains("{app}")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_is_answered_for_roles_in_their_app_and_refused_for_others() {
    let (console, shop, _) = filled().await;
    let client = AdminClient::of(&console).await;
    let mut checked = 0;
    for &role in Role::ALL {
        let everywhere = token(&console, role, None).await;
        let in_shop = token(&console, role, Some(shop)).await;
        for operation in client.operations() {
            let apps: &[&str] = if is_of_app(&operation) { &["shop", "bank", "none"] } else { &[""] };
            for app in apps {
                for (token, is_own) in [(&everywhere, *app != "none"), (&in_shop, *app == "shop")] {
                    let path = path(&operation, app);
                    // The sends of both apps have the same id, and so have the messages of their cancellation.
                    console.installation.run("DELETE FROM timer WHERE delivery_id IS NULL").await;
                    let answer = client.call(&operation, &path, Some(token), operation.body.as_ref()).await;
                    let case =
                        format!("{token} {} {path}: {} {}", operation.method, answer.status, answer.body);
                    if is_of_app(&operation) && !is_own {
                        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{case}");
                        assert_eq!(answer.body["message"], "no such app", "{case}");
                    } else if role < operation.least {
                        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{case}");
                        assert_eq!(answer.body["code"], "role_required", "{case}");
                        assert_eq!(answer.body["needs"], operation.least.as_str(), "{case}");
                    } else if is_of_app(&operation) || token == &everywhere {
                        assert_ne!(answer.status, StatusCode::FORBIDDEN, "{case}");
                        assert!(!answer.status.is_server_error(), "{case}");
                        assert_ne!(answer.body["message"], "no such app", "{case}");
                    }
                    checked += 1;
                }
            }
        }
    }
    println!("{checked} calls were made");
    let (of_apps, others): (Vec<_>, Vec<_>) = client.operations().into_iter().partition(is_of_app);
    assert_eq!(checked, Role::ALL.len() * 2 * (3 * of_apps.len() + others.len()));
    assert_eq!(of_apps.len() + others.len(), admin_routes().count());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_about_all_apps_need_a_role_in_all_of_them() {
    let (console, shop, _) = filled().await;
    let client = AdminClient::of(&console).await;
    let (everywhere, in_shop) =
        (token(&console, Role::Admin, None).await, token(&console, Role::Admin, Some(shop)).await);
    let mut checked = 0;
    for operation in
        client.operations().into_iter().filter(|operation| operation.path.matches('/').count() == 1)
    {
        let path = &operation.path;
        if operation.method != reqwest::Method::GET || path == "/apps" {
            continue;
        }
        assert_eq!(
            client.call(&operation, path, Some(&everywhere), None).await.status,
            StatusCode::OK,
            "{path}"
        );
        let refused = client.call(&operation, path, Some(&in_shop), None).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{path}");
        if !["/operators", "/processes"].contains(&path.as_str()) {
            let own = client.call(&operation, &format!("{path}?app=shop"), Some(&in_shop), None).await;
            assert_eq!(own.status, StatusCode::OK, "{path}");
            let other = client.call(&operation, &format!("{path}?app=bank"), Some(&in_shop), None).await;
            assert_eq!(other.status, StatusCode::NOT_FOUND, "{path}");
        }
        checked += 1;
    }
    assert!(checked >= 7, "{checked}");
    let apps = client.operations().into_iter().find(|operation| operation.path == "/apps").unwrap();
    let listed = client.call(&apps, "/apps", Some(&in_shop), None).await.body;
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_valid_token_every_call_is_a_401() {
    let (console, shop, _) = filled().await;
    let client = AdminClient::of(&console).await;
    let (expired, revoked) =
        (token(&console, Role::Admin, None).await, token(&console, Role::Admin, Some(shop)).await);
    console.installation.run("UPDATE admin_token SET expires_at = now() WHERE app_id IS NULL").await;
    console.installation.run("UPDATE admin_token SET revoked_at = now() WHERE app_id IS NOT NULL").await;
    let session = console.operator(Role::Admin, None).await;
    let unknown = format!("tdga_{:A<43}", "unknown");
    let mut checked = 0;
    for operation in client.operations() {
        let path = path(&operation, "shop");
        for token in [None, Some(expired.as_str()), Some(&revoked), Some(&unknown), Some("x"), Some(&session)]
        {
            let answer = client.call(&operation, &path, token, operation.body.as_ref()).await;
            let is_refused =
                [StatusCode::UNAUTHORIZED, StatusCode::TOO_MANY_REQUESTS].contains(&answer.status);
            assert!(is_refused, "{} {path} {token:?}: {}", operation.method, answer.status);
            if answer.status == StatusCode::UNAUTHORIZED {
                assert!(answer.headers[WWW_AUTHENTICATE].to_str().unwrap().starts_with("Bearer"));
            }
            checked += 1;
        }
    }
    println!("{checked} calls were refused");
    assert_eq!(checked, admin_routes().count() * 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_accepts_no_cookie_and_pages_accept_no_token() {
    let (console, ..) = filled().await;
    let (session, token) =
        (console.operator(Role::Admin, None).await, token(&console, Role::Admin, None).await);
    for path in ["/v1/admin/apps", "/v1/admin/apps/shop"] {
        assert_eq!(console.get(path, &session).await.status(), StatusCode::UNAUTHORIZED, "{path}");
    }
    for path in ["/apps", "/apps/shop", "/apps/shop/people/ada"] {
        let call = console.call(reqwest::Method::GET, path).bearer_auth(&token);
        let answer = call.header(COOKIE, format!("tidings-console={token}")).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{path}");
    }
    for open in ["/v1/admin/openapi.json", "/v1/admin/docs"] {
        assert_eq!(console.get(open, "").await.status(), StatusCode::OK, "{open}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_with_wrong_tokens_is_limited_and_so_is_a_token() {
    let console = TestConsole::start(|config| {
        (config.gateway.refusal_rate_limit, config.gateway.user_rate_limit) = (3, 50);
    })
    .await;
    let client = AdminClient::of(&console).await;
    let apps = client.operations().into_iter().find(|operation| operation.path == "/apps").unwrap();
    let mut statuses = Vec::new();
    for _ in 0..20 {
        statuses.push(client.call(&apps, "/apps", Some("wrong"), None).await.status);
    }
    assert!(statuses.contains(&StatusCode::UNAUTHORIZED), "{statuses:?}");
    assert!(statuses.contains(&StatusCode::TOO_MANY_REQUESTS), "{statuses:?}");
    let token = token(&console, Role::Viewer, None).await;
    let answer = client.call(&apps, "/apps", Some(&token), None).await;
    assert_eq!(answer.status, StatusCode::OK, "valid tokens have their own limit");
    assert_eq!(answer.headers["ratelimit-limit"], "50");
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_and_identifiers_are_masked_for_viewers() {
    let (console, ..) = filled().await;
    console.installation.run(crate::access::EVE[0]).await;
    console.installation.run(crate::access::EVE[1]).await;
    let client = AdminClient::of(&console).await;
    let (viewer, support) =
        (token(&console, Role::Viewer, None).await, token(&console, Role::Support, None).await);
    let list =
        client.operations().into_iter().find(|operation| operation.path == "/apps/{app}/people").unwrap();
    let seen = client.call(&list, "/apps/shop/people", Some(&viewer), None).await.body.to_string();
    assert!(!seen.contains("eve@example.com") && seen.contains("e***@example.com"), "{seen}");
    let seen = client.call(&list, "/apps/shop/people", Some(&support), None).await.body.to_string();
    assert!(seen.contains("eve@example.com"), "{seen}");
    let search = client.call(&list, "/apps/shop/people?email=eve@example.com", Some(&viewer), None).await;
    assert_eq!((search.status, &search.body["needs"]), (StatusCode::FORBIDDEN, &json!("support")));
    let suppressions =
        client.operations().into_iter().find(|operation| operation.path == "/suppressions").unwrap();
    for (query, token, status) in [("", &viewer, 200), ("", &support, 200), ("?reveal=true", &support, 400)] {
        let path = format!("/suppressions{query}");
        let answer = client.call(&suppressions, &path, Some(token), None).await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
        assert!(!answer.body.to_string().contains("\"ada@example.com\""), "{path} {}", answer.body);
    }
    let none: Option<&Value> = None;
    assert!(client.call(&suppressions, "/suppressions", Some(&viewer), none).await.status.is_success());
}
