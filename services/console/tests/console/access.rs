use console::ROUTES;
use domain::Role;
use reqwest::header::LOCATION;
use reqwest::{Method, StatusCode};

use crate::fixture::TestConsole;

const SEND: &str = "0197b5a2-0000-7000-8000-000000000001";
const DEAD: &str = "0197b5a2-0000-7000-8000-000000000009";
/// Least roles of the pages and forms that viewers may not use, by the end of the route.
const LEAST: [(&str, &str, Role); 38] = [
    ("GET POST", "/release", Role::Operator),
    ("GET POST", "/cancel", Role::Operator),
    ("GET POST", "/lift", Role::Support),
    ("GET POST", "/erase", Role::Support),
    ("GET POST", "/reveal", Role::Support),
    ("GET", "/audit", Role::Admin),
    ("GET POST", "/redrive", Role::Operator),
    ("GET", "/redrive.csv", Role::Operator),
    ("POST", "/runs/{number}", Role::Operator),
    ("GET", "/new-template", Role::Editor),
    ("GET POST", "/templates/{id}/edit", Role::Editor),
    ("POST", "/frame", Role::Editor),
    ("POST", "/review", Role::Editor),
    ("POST", "/publish", Role::Editor),
    ("POST", "/templates/{id}/test", Role::Editor),
    ("GET POST", "/restore", Role::Editor),
    ("GET POST", "/providers/new", Role::Operator),
    ("GET POST", "/provider/{id}/edit", Role::Operator),
    ("POST", "/setup", Role::Editor),
    ("GET POST", "/switch", Role::Operator),
    ("GET POST", "/remove", Role::Operator),
    ("POST", "/move", Role::Operator),
    ("POST", "/provider/{id}/test", Role::Operator),
    ("POST", "/settings", Role::Admin),
    ("GET POST", "/credentials/secret", Role::Admin),
    ("GET POST", "/credentials/link-key", Role::Admin),
    ("GET POST", "/credentials/signing-key", Role::Admin),
    ("GET POST", "/signing-key/{kid}", Role::Admin),
    ("GET POST", "/webhooks/new", Role::Operator),
    ("GET POST", "/webhook/{number}/edit", Role::Operator),
    ("GET POST", "/webhook/{number}/secret", Role::Operator),
    ("POST", "/redeliver", Role::Operator),
    ("GET POST", "/categories/new", Role::Editor),
    ("GET POST", "/category/{number}", Role::Editor),
    ("GET POST", "/category/{number}/delete", Role::Editor),
    ("GET POST", "/topics/new", Role::Operator),
    ("GET POST", "/topic/{number}", Role::Operator),
    ("GET POST", "/topic/{number}/delete", Role::Operator),
];

fn least(method: &str, route: &str) -> Role {
    let found = LEAST.iter().find(|(methods, end, _)| methods.contains(method) && route.ends_with(end));
    found.map_or(Role::Viewer, |(.., role)| *role)
}

/// Returns the path of a route, with the app `app` and ids of data that [`filled`] adds.
fn path(route: &str, app: &str) -> String {
    let id = if route.contains("sends") { SEND } else { "ada" };
    let path =
        route.replace("{app}", app).replace("{id}", id).replace("{number}", "7").replace("{kid}", "key_7");
    let path = path.replace("{email}", "bob@example.com");
    match path.rsplit('/').next() {
        Some("find") => path + "?q=ada",
        Some("explain") => path + "?person=ada",
        Some("release") => path + "?channel=email&reason=breaker_open&provider=main&code=421",
        Some("lift") => format!("{path}?channel=email&delivery={DEAD}"),
        Some("reveal") => path + "?place=0",
        Some("revoke") => path + "?scope=all",
        _ => path,
    }
}

pub(crate) async fn filled() -> (TestConsole, domain::AppId, domain::AppId) {
    // Tests of the admin API make thousands of calls with a token.
    let console = TestConsole::start(|config| {
        (config.gateway.user_rate_limit, config.gateway.refusal_rate_limit) = (100_000, 100_000);
    })
    .await;
    let (shop, bank) = (console.installation.app("shop").await, console.installation.app("bank").await);
    for app in [shop, bank] {
        let statements = [
            format!(
                "INSERT INTO app_user (app_id, number, identifier, profile) OVERRIDING SYSTEM VALUE
                 VALUES ({app}, 7, 'ada', '{{\"email\": \"ada@example.com\"}}')"
            ),
            format!(
                "INSERT INTO request (app_id, send_id, accepted_at, lane, title, recipients)
                 VALUES ({app}, '{SEND}', now(), 'bulk', 'Order shipped', 1)"
            ),
            format!(
                "INSERT INTO timer (id, due_at, stream, message, app_id, delivery_id, wait_reason, provider, code)
                 VALUES (gen_random_uuid(), now() + interval '1 hour', 'JOB_email_bulk', '', {app}, gen_random_uuid(), 'breaker_open', 'main', '421')"
            ),
            format!(
                "INSERT INTO redrive_run (app_id, id, parked_before, selected, expected, per_second, created_by)
                 OVERRIDING SYSTEM VALUE VALUES ({app}, 7, now(), 2, 2, 50, 'cli:ada')"
            ),
            format!("INSERT INTO signing_key (app_id, kid, algorithm, public_key) VALUES ({app}, 'key_7', 'RS256', 'pem')"),
            format!(
                "INSERT INTO webhook_endpoint (app_id, id, url, events) OVERRIDING SYSTEM VALUE
                 VALUES ({app}, 7, 'https://shop.example/hook', ARRAY['delivery.sent'])"
            ),
            format!(
                "INSERT INTO category (app_id, id, identifier, name) OVERRIDING SYSTEM VALUE VALUES ({app}, 7, 'orders', 'Orders')"
            ),
            format!(
                "INSERT INTO topic (app_id, id, identifier, name) OVERRIDING SYSTEM VALUE VALUES ({app}, 7, 'news', 'News')"
            ),
            format!("INSERT INTO template (app_id, identifier, version) VALUES ({app}, 'ada', 8)"),
            format!(
                "INSERT INTO template_version (app_id, template_id, version, name, channels)
                 SELECT app_id, id, number, 'Ada', '{{\"email\": {{\"subject\": \"Hi\", \"html\": \"<p>Hi</p>\"}}}}'
                 FROM template, generate_series(1, 8) AS number WHERE app_id = {app}"
            ),
            format!(
                "INSERT INTO suppression (app_id, channel, target, delivery_id, code)
                 VALUES ({app}, 'email', 'ada@example.com', '{DEAD}', '550')"
            ),
            format!(
                "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
                 VALUES ({app}, 'ada', 'email', 'pigeon', 10, true, '{{\"host\": \"mail\"}}')"
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
    let is_page = |(method, route): &&(&str, &str)| *method == "GET" && route.contains("{app}");
    let pages: Vec<&str> = ROUTES.iter().filter(is_page).map(|(_, route)| *route).collect();
    assert!(pages.len() >= 13);
    for &role in Role::ALL {
        let everywhere = console.operator(role, None).await;
        let in_shop = console.operator(role, Some(shop)).await;
        for route in &pages {
            let shown = match least("GET", route) {
                least if least > role => StatusCode::FORBIDDEN,
                _ if route.ends_with("/find") => StatusCode::SEE_OTHER,
                _ => StatusCode::OK,
            };
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
async fn only_operators_with_a_role_in_all_apps_see_the_installation() {
    let (console, shop, _) = filled().await;
    for &role in Role::ALL {
        let page = console.page("/installation", &console.operator(role, None).await).await;
        assert!(page.contains("No process of dispatcher answers."), "{role}: only the console runs");
        let in_shop = console.operator(role, Some(shop)).await;
        assert_eq!(console.get("/installation", &in_shop).await.status(), StatusCode::FORBIDDEN, "{role}");
        let overview = console.page("/apps/shop", &in_shop).await;
        assert!(!overview.contains("/installation") && !overview.contains("No process of"), "{role}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_form_is_read_for_roles_in_its_app_and_refused_for_others() {
    let (console, shop, _) = filled().await;
    let is_form = |(method, route): &&(&str, &str)| *method == "POST" && route.contains("{app}");
    let forms: Vec<&str> = ROUTES.iter().filter(is_form).map(|(_, route)| *route).collect();
    assert!(forms.len() >= 3);
    let again = format!(
        "DELETE FROM timer WHERE delivery_id IS NULL;
         INSERT INTO suppression (app_id, channel, target, delivery_id, code)
         SELECT id, 'email', 'ada@example.com', '{DEAD}', '550' FROM app ON CONFLICT DO NOTHING"
    );
    let mut checked = 0;
    for &role in Role::ALL {
        let everywhere = console.operator(role, None).await;
        let in_shop = console.operator(role, Some(shop)).await;
        for route in &forms {
            let cases = [
                (&everywhere, "shop", true),
                (&everywhere, "bank", true),
                (&in_shop, "shop", true),
                (&in_shop, "bank", false),
                (&in_shop, "none", false),
            ];
            for (session, app, is_own) in cases {
                let statement = sqlx::raw_sql(sqlx::AssertSqlSafe(again.clone()));
                statement.execute(&console.installation.pool).await.unwrap();
                let status = console.change(&path(route, app), session, &[]).await.status();
                let expected: &[StatusCode] = match least("POST", route) {
                    _ if !is_own => &[StatusCode::NOT_FOUND],
                    least if least > role => &[StatusCode::FORBIDDEN],
                    // The result of a test is shown at once.
                    _ if route.ends_with("/provider/{id}/test") => &[StatusCode::OK],
                    _ => &[StatusCode::SEE_OTHER, StatusCode::BAD_REQUEST, StatusCode::CONFLICT],
                };
                assert!(expected.contains(&status), "{role} {session} {}: {status}", path(route, app));
                checked += 1;
            }
        }
    }
    println!("{checked} forms were sent");
    assert_eq!(checked, Role::ALL.len() * forms.len() * 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_valid_session_every_page_asks_to_sign_in() {
    let (console, shop, _) = filled().await;
    let open = ["/sign-in", "/sign-in/oidc", "/sign-in/oidc/callback", "/welcome", "/healthz", "/sign-out"];
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
            let answer = match *method {
                "GET" => console.get(&path, session).await,
                _ => console.change(&path, session, &[]).await,
            };
            assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{method} {path} {session}");
            let location = answer.headers()[LOCATION].to_str().unwrap();
            assert!(location.starts_with("/sign-in?next="), "{path} {location}");
            checked += 1;
        }
    }
    println!("{checked} pages asked to sign in");
    assert_eq!(checked, (ROUTES.len() - 8) * 5);
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

/// A person whose identifier is an email address, with a parked delivery of the send.
pub(crate) const EVE: [&str; 4] = [
    "INSERT INTO app_user (app_id, number, identifier, profile) OVERRIDING SYSTEM VALUE
     SELECT id, 8, 'eve@example.com', '{\"name\": \"Eve Adams\"}' FROM app WHERE name = 'shop'",
    "INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
     SELECT app_id, send_id, 0, 0, 'eve@example.com', 8, true, '{}' FROM request
     WHERE app_id = (SELECT id FROM app WHERE name = 'shop')",
    "INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status, reason, settled_at)
     SELECT app_id, gen_random_uuid(), send_id, 0, 8, 'email', identifier, 'parked', 'retries_exhausted', now() FROM planned_recipient",
    "INSERT INTO parked (id, app_id, send_id, delivery_id, stream, message, cause)
     SELECT gen_random_uuid(), app_id, send_id, id, 'JOB_email_bulk', '', '535' FROM delivery",
];

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_are_identifiers_are_masked_for_viewers_only() {
    let (console, ..) = filled().await;
    for statement in EVE {
        console.installation.run(statement).await;
    }
    let (viewer, support) =
        (console.operator(Role::Viewer, None).await, console.operator(Role::Support, None).await);
    let pages = [
        "/people".to_owned(),
        "/people/number/8".to_owned(),
        "/parked".to_owned(),
        format!("/sends/{SEND}"),
        format!("/sends/{SEND}/explain?recipient=0"),
    ];
    for path in pages {
        let masked = console.page(&format!("/apps/shop{path}"), &viewer).await;
        assert!(masked.contains("e***@example.com"), "{path}: {masked}");
        for hidden in ["eve@example.com", "eve%40example.com", "Eve Adams"] {
            assert!(!masked.contains(hidden), "{path} shows {hidden}: {masked}");
        }
        let shown = console.page(&format!("/apps/shop{path}"), &support).await;
        assert!(shown.contains("eve@example.com"), "{path}: {shown}");
    }
    for (path, resource) in [
        (
            format!("/sends/{SEND}/explain?recipient=0"),
            format!("/v3/explain?user=eve%40example.com&amp;request={SEND}"),
        ),
        ("/people/number/8".to_owned(), "/v3/users/eve%40example.com".to_owned()),
    ] {
        let masked = console.page(&format!("/apps/shop{path}"), &viewer).await;
        assert!(!masked.contains("curl -sS"), "{path}: {masked}");
        let shown = console.page(&format!("/apps/shop{path}"), &support).await.replace("&#38;", "&amp;");
        assert!(shown.contains(&resource) && shown.contains("$SECRET"), "{path}: {shown}");
    }
    let explained = format!("/apps/shop/sends/{SEND}/explain?person=eve%40example.com");
    let explained = console.page(&explained, &support).await;
    for text in
        ["Order shipped → Eve Adams", "The email is parked", "What happened", "tidings parked redrive"]
    {
        assert!(explained.contains(text), "{text}: {explained}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn support_searches_people_by_a_beginning_and_viewers_by_the_whole_identifier() {
    let (console, ..) = filled().await;
    console.installation.run(EVE[0]).await;
    let number = "UPDATE app_user SET profile = profile || '{\"phoneNumber\": \"+4915112345\"}' WHERE identifier = 'ada'";
    console.installation.run(number).await;
    let (viewer, support) =
        (console.operator(Role::Viewer, None).await, console.operator(Role::Support, None).await);
    for (search, found) in [
        ("EVE", "/people/eve%40example.com"),
        ("eve a", "/people/eve%40example.com"),
        ("email:Eve@example.com", "/people/eve%40example.com"),
        ("phoneNumber:%2B49 151 12345", "/people/ada"),
        ("%2B49 (151) 12345", "/people/ada"),
    ] {
        let path = format!("/apps/shop/people?q={}", search.replace(' ', "+"));
        let page = console.page(&path, &support).await;
        assert!(page.contains(&format!("href=\"/apps/shop{found}\"")), "{path}: {page}");
        let page = console.page(&path, &viewer).await;
        assert!(page.contains("No person here is") && !page.contains("<table"), "{path}: {page}");
    }
    for session in [&viewer, &support] {
        let page = console.page("/apps/shop/people?q=ada", session).await;
        assert!(page.contains("href=\"/apps/shop/people/ada\""), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_calls_are_filtered_by_status_code_client_and_words() {
    let (console, ..) = filled().await;
    let rows = "INSERT INTO refused_call (app_id, at, times, status, method, route, code, fields, api_key, client, proven)
         SELECT a.id, now(), 1, v.* FROM app a, (VALUES
           (400, 'POST', '/v3/notifications', 'required', ARRAY['notification.title'], 'pk_12345', '192.0.2.x', true),
           (401, 'GET', '/v3/users/{id}', 'invalid_credentials', ARRAY[]::text[], 'pk_12345', '2001:db8:2::/48', false)) AS v
         WHERE name = 'shop'";
    console.installation.run(rows).await;
    let viewer = console.operator(Role::Viewer, None).await;
    for (search, required, wrong) in [
        ("", true, true),
        ("?status=401", false, true),
        ("?q=code:required", true, false),
        ("?q=client:2001:db8:2::/48", false, true),
        ("?q=TITLE", true, false),
        ("?q=status:404", true, true),
        ("?before=1", false, false),
    ] {
        let page = console.page(&format!("/apps/shop/refused{search}"), &viewer).await;
        let found = (page.contains("notification.title"), page.contains("invalid credentials"));
        assert_eq!(found, (required, wrong), "{search}: {page}");
    }
    let other = console.page("/apps/bank/refused", &viewer).await;
    assert!(other.contains("No call was refused."), "{other}");
}
