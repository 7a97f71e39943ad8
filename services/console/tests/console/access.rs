use console::ROUTES;
use domain::Role;
use reqwest::header::LOCATION;
use reqwest::{Method, StatusCode};

use crate::fixture::TestConsole;

const SEND: &str = "0197b5a2-0000-7000-8000-000000000001";

/// Returns the path of a route, with the app `app` and ids of data that [`filled`] adds.
fn path(route: &str, app: &str) -> String {
    let id = if route.contains("sends") { SEND } else { "ada" };
    let path = route.replace("{app}", app).replace("{id}", id);
    if path.ends_with("/find") { path + "?q=ada" } else { path }
}

async fn filled() -> (TestConsole, domain::AppId, domain::AppId) {
    let console = TestConsole::start(|_| {}).await;
    let (shop, bank) = (console.installation.app("shop").await, console.installation.app("bank").await);
    for app in [shop, bank] {
        let statements = [
            format!("INSERT INTO app_user (app_id, identifier) VALUES ({app}, 'ada')"),
            format!(
                "INSERT INTO request (app_id, send_id, accepted_at, lane, title, recipients)
                 VALUES ({app}, '{SEND}', now(), 'bulk', 'Order shipped', 1)"
            ),
        ];
        for statement in statements {
            sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&console.installation.pool).await.unwrap();
        }
    }
    (console, shop, bank)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_page_is_shown_to_roles_in_its_app_and_hidden_from_others() {
    let (console, shop, _) = filled().await;
    let mut checked = 0;
    let pages: Vec<&str> =
        ROUTES.iter().filter(|(_, route)| route.contains("{app}")).map(|(_, route)| *route).collect();
    assert!(pages.len() >= 7);
    for &role in Role::ALL {
        let everywhere = console.operator(role, None).await;
        let in_shop = console.operator(role, Some(shop)).await;
        for route in &pages {
            let shown = if route.ends_with("/find") { StatusCode::SEE_OTHER } else { StatusCode::OK };
            let cases = [
                (&everywhere, "shop", shown),
                (&everywhere, "bank", shown),
                (&in_shop, "shop", shown),
                (&in_shop, "bank", StatusCode::NOT_FOUND),
                (&in_shop, "none", StatusCode::NOT_FOUND),
            ];
            for (session, app, expected) in cases {
                let answer = console.get(&path(route, app), session).await;
                assert_eq!(answer.status(), expected, "{role} {session} {}", path(route, app));
                checked += 1;
            }
        }
        let apps = console.page("/apps", &in_shop).await;
        assert!(apps.contains("shop") && !apps.contains("bank"), "{role}");
    }
    println!("{checked} pages were opened");
    assert_eq!(checked, Role::ALL.len() * pages.len() * 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_valid_session_every_page_asks_to_sign_in() {
    let (console, shop, _) = filled().await;
    let open = ["/sign-in", "/welcome", "/healthz", "/sign-out"];
    let (expired, idle, disabled) = (
        console.operator(Role::Admin, None).await,
        console.operator(Role::Viewer, None).await,
        console.operator(Role::Admin, Some(shop)).await,
    );
    let changes = [
        "UPDATE operator_session s SET expires_at = now() FROM operator o WHERE o.id = s.operator_id AND email = 'admin-all@example.com'",
        "UPDATE operator_session s SET seen_at = now() - interval '12 hours' FROM operator o
         WHERE o.id = s.operator_id AND email = 'viewer-all@example.com'",
        "UPDATE operator SET disabled_at = now() WHERE email LIKE 'admin-_@example.com'",
    ];
    for change in changes {
        console.installation.run(change).await;
    }
    let mut checked = 0;
    for (method, route) in ROUTES.iter().filter(|(_, route)| !open.contains(route)) {
        for session in ["", "unknown", &expired, &idle, &disabled] {
            let path = path(route, "shop");
            let answer = console.get(&path, session).await;
            assert_eq!((*method, answer.status()), ("GET", StatusCode::SEE_OTHER), "{path} {session}");
            let location = answer.headers()[LOCATION].to_str().unwrap();
            assert!(location.starts_with("/sign-in?next="), "{path} {location}");
            checked += 1;
        }
    }
    println!("{checked} pages asked to sign in");
    assert_eq!(checked, (ROUTES.len() - 6) * 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_of_other_sites_are_refused_before_anything_else() {
    let (console, ..) = filled().await;
    for (method, route) in ROUTES.iter().filter(|(method, _)| *method == "POST") {
        assert_eq!(*method, "POST");
        let call = console.call(Method::POST, route).header("sec-fetch-site", "cross-site");
        // The first header of the call says same-origin; a second one makes the value ambiguous, so it is replaced.
        let mut call = call.build().unwrap();
        call.headers_mut().insert("sec-fetch-site", "cross-site".parse().unwrap());
        let answer = reqwest::Client::new().execute(call).await.unwrap();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{route}");
        assert!(answer.text().await.unwrap().contains("sent from another site"), "{route}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_trusted_proxy_signs_operators_in() {
    let trusted = TestConsole::start(|config| {
        config.console.proxy_header = Some("X-Forwarded-Email".to_owned());
        config.console.proxy_from = vec!["127.0.0.1".parse().unwrap()];
    })
    .await;
    let foreign = TestConsole::start(|config| {
        config.console.proxy_header = Some("X-Forwarded-Email".to_owned());
        config.console.proxy_from = vec!["10.0.0.0/8".parse().unwrap()];
    })
    .await;
    for (console, known, unknown) in [
        (&trusted, StatusCode::OK, StatusCode::FORBIDDEN),
        (&foreign, StatusCode::SEE_OTHER, StatusCode::SEE_OTHER),
    ] {
        console.operator(Role::Viewer, None).await;
        for (email, expected) in [("Viewer-All@example.com", known), ("eve@example.com", unknown)] {
            let call = console.call(Method::GET, "/apps").header("x-forwarded-email", email);
            assert_eq!(call.send().await.unwrap().status(), expected, "{email}");
        }
    }
}
