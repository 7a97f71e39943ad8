//! Shares of the admin API: a token or a stranger that floods it does not starve the others. Only files without secrets are compressed.

use domain::Role;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use reqwest::{Method, RequestBuilder, StatusCode};
use tokio::task::JoinSet;

use super::contract::{AdminClient, token};
use crate::access::filled;
use crate::fixture::TestConsole;

fn get(console: &TestConsole, path: &str, token: &str) -> RequestBuilder {
    console.call(Method::GET, path).bearer_auth(token)
}

async fn status(call: RequestBuilder) -> StatusCode {
    call.send().await.unwrap().status()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_floods_the_api_does_not_starve_another() {
    let console = TestConsole::start(|config| config.gateway.user_rate_limit = 5).await;
    let app = console.installation.app("shop").await;
    let flooding = token(&console, Role::Viewer, Some(app)).await;
    let other = token(&console, Role::Viewer, None).await;
    let mut flood = JoinSet::new();
    for _ in 0..100 {
        flood.spawn(status(get(&console, "/v1/admin/apps", &flooding)));
    }
    for _ in 0..3 {
        assert_eq!(status(get(&console, "/v1/admin/apps", &other)).await, StatusCode::OK);
    }
    let answered = flood.join_all().await;
    let refused = answered.iter().filter(|status| **status == StatusCode::TOO_MANY_REQUESTS).count();
    assert!(refused > 50, "{refused} of {} calls were refused", answered.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_are_limited_before_they_are_looked_up() {
    let console = TestConsole::start(|config| config.gateway.refusal_rate_limit = 1).await;
    let known = token(&console, Role::Viewer, None).await;
    assert_eq!(status(get(&console, "/v1/admin/apps", &known)).await, StatusCode::OK);
    let wrong = format!("tdga_{:A<43}", "wrong");
    while status(get(&console, "/v1/admin/apps", &wrong)).await != StatusCode::TOO_MANY_REQUESTS {}

    // A look-up would wait for the lock.
    let mut transaction = console.installation.pool.begin().await.unwrap();
    let lock = "LOCK TABLE admin_token IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(lock).execute(&mut *transaction).await.unwrap();
    let mut strangers = JoinSet::new();
    for number in 0..40 {
        let wrong = format!("tdga_{:A<43}", format!("wrong-{number}-"));
        strangers.spawn(status(get(&console, "/v1/admin/apps", &wrong)));
    }
    for _ in 0..30 {
        let answered = strangers.join_next().await.unwrap().unwrap();
        assert_eq!(answered, StatusCode::TOO_MANY_REQUESTS);
    }
    transaction.rollback().await.unwrap();
    assert_eq!(
        status(get(&console, "/v1/admin/apps", &known)).await,
        StatusCode::OK,
        "a token that was valid before needs no share of the strangers"
    );
    console.installation.run("UPDATE admin_token SET revoked_at = now()").await;
    assert_ne!(
        status(get(&console, "/v1/admin/apps", &known)).await,
        StatusCode::OK,
        "it is looked up each time"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_files_without_secrets_are_compressed() {
    let (console, ..) = filled().await;
    let admin = token(&console, Role::Admin, None).await;
    for number in 0..40 {
        console.installation.app(&format!("reflected-{number}")).await;
    }
    let coding = async |call: RequestBuilder| {
        let answer = call.header(ACCEPT_ENCODING, "gzip").send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
        let coding = answer.headers().get(CONTENT_ENCODING).map(|coding| coding.to_str().unwrap().to_owned());
        (coding, answer.bytes().await.unwrap().len())
    };
    let (listed, length) = coding(get(&console, "/v1/admin/apps", &admin)).await;
    assert!(listed.is_none() && length > 2_000, "{length}");
    let new = console.call(Method::POST, "/v1/admin/apps").bearer_auth(&admin);
    let new = new.header("content-type", "application/json").body(r#"{"name": "new"}"#);
    assert_eq!(coding(new).await.0, None, "the answer has an API secret");
    for file in ["/v1/admin/openapi.json", "/v1/admin/docs"] {
        assert_eq!(coding(console.call(Method::GET, file)).await.0.as_deref(), Some("gzip"), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_by_claim_opens_no_way_into_the_api() {
    let (console, shop, _) = filled().await;
    let session = console.operator(Role::Viewer, None).await;
    let by_claim = "INSERT INTO operator_grant (operator_id, app_id, role, by_claim) SELECT id, NULL, 'admin', true FROM operator";
    console.installation.run(by_claim).await;
    console.installation.run("UPDATE operator_session SET method = 'provider'").await;
    assert_eq!(console.get("/v1/admin/apps", &session).await.status(), StatusCode::UNAUTHORIZED);
    // A token has its own role, whatever the groups of its creator.
    let viewer = token(&console, Role::Viewer, Some(shop)).await;
    assert_eq!(status(get(&console, "/v1/admin/apps/shop", &viewer)).await, StatusCode::OK);
    for refused in ["/v1/admin/operators", "/v1/admin/tokens", "/v1/admin/audit?app=shop"] {
        assert_eq!(status(get(&console, refused, &viewer)).await, StatusCode::FORBIDDEN, "{refused}");
    }
    // The API changes roles by hand only.
    let admin = token(&console, Role::Admin, None).await;
    let email = "/v1/admin/operators/viewer-all%40example.com/role";
    let removed = console.call(Method::DELETE, email).bearer_auth(&admin);
    assert_eq!(status(removed).await, StatusCode::NO_CONTENT, "the role by hand");
    let left = "SELECT count(*) FROM operator_grant WHERE by_claim AND role = 'admin'";
    assert_eq!(console.installation.count(left).await, 1, "the role by claim stays until the next sign-in");
    let again = console.call(Method::DELETE, email).bearer_auth(&admin);
    assert_eq!(status(again).await, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_continue_at_their_cursors_without_gaps() {
    let (console, ..) = filled().await;
    // Several rows have the same time.
    for statement in [
        "INSERT INTO parked (id, app_id, user_number, stream, message, cause, parked_at)
         SELECT gen_random_uuid(), app.id, n, 'SEND_bulk', '', 'malformed', now() - n / 2 * interval '1 second' FROM app, generate_series(1, 7) AS n",
        "INSERT INTO suppression (app_id, channel, target, delivery_id, code, created_at)
         SELECT app.id, 'email', n || '@example.com', gen_random_uuid(), '550', now() - n / 2 * interval '1 second' FROM app, generate_series(1, 7) AS n",
        "INSERT INTO audit (app_id, actor, actor_kind, action, subject)
         SELECT app.id, 'cli:ada', CASE WHEN n % 2 = 0 THEN 'cli' ELSE 'operator' END, 'app.set', 'x' FROM app, generate_series(1, 7) AS n",
    ] {
        console.installation.run(statement).await;
    }
    let client = AdminClient::of(&console).await;
    let admin = token(&console, Role::Admin, None).await;
    for (list, filter) in
        [("/parked", "cause=malformed"), ("/suppressions", "channel=email"), ("/audit", "actorKind=cli")]
    {
        let operation = client.operations().into_iter().find(|operation| operation.path == list).unwrap();
        let read = async |query: &str| {
            let answer = client.call(&operation, &format!("{list}?{query}"), Some(&admin), None).await;
            assert_eq!(answer.status, StatusCode::OK, "{list}?{query}: {}", answer.body);
            answer.body
        };
        for filter in ["app=shop", &format!("app=shop&{filter}"), filter] {
            let all = read(&format!("{filter}&limit=1000")).await;
            let all = all["data"].as_array().unwrap();
            assert!(all.len() >= 3, "{list}?{filter}: {}", all.len());
            let (mut found, mut next) = (Vec::new(), String::new());
            loop {
                let page = read(&format!("{filter}&limit=2{next}")).await;
                found.extend(page["data"].as_array().unwrap().clone());
                let Some(cursor) = page["nextCursor"].as_str() else { break };
                next = format!("&cursor={cursor}");
            }
            assert_eq!(&found, all, "{list}?{filter}");
        }
        let wrong = client.call(&operation, &format!("{list}?cursor=x"), Some(&admin), None).await;
        assert_eq!(
            (wrong.status, &wrong.body["errors"][0]["field"]),
            (StatusCode::BAD_REQUEST, &"cursor".into())
        );
    }
}
