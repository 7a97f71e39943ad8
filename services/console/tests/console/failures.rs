use domain::Role;
use reqwest::StatusCode;

use crate::fixture::TestConsole;

const FAILURE: &str = "This could not be read.";

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_fails_shows_a_failure_and_never_an_empty_list() {
    let console = TestConsole::start(|_| {}).await;
    console.installation.app("shop").await;
    let admin = console.operator(Role::Admin, None).await;
    let empty = [
        ("/apps/shop/sends", "No send yet."),
        ("/apps/shop/people", "No people yet."),
        ("/apps/shop/waiting", "No delivery waits."),
        ("/apps/shop/parked", "Nothing is parked."),
        ("/apps/shop/refused", "No call was refused."),
    ];
    for (path, text) in empty {
        let page = console.page(path, &admin).await;
        assert!(page.contains(text) && !page.contains(FAILURE), "{path}");
    }
    console
        .installation
        .run(
            "ALTER TABLE request RENAME TO request_2; ALTER TABLE app_user RENAME TO app_user_2;
             ALTER TABLE parked RENAME TO parked_2; ALTER TABLE timer RENAME TO timer_2;
             ALTER TABLE refused_call RENAME TO refused_call_2; ALTER TABLE redrive_run RENAME TO redrive_run_2",
        )
        .await;
    for (path, text) in empty {
        let page = console.page(path, &admin).await;
        assert!(
            page.contains(FAILURE) && page.contains("Try again") && !page.contains(text),
            "{path}: {page}"
        );
    }
    assert_eq!(
        console.get("/apps/shop/people/ada", &admin).await.status(),
        StatusCode::INTERNAL_SERVER_ERROR
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overview_that_cannot_be_read_says_so() {
    let console = TestConsole::start(|_| {}).await;
    console.installation.app("shop").await;
    let admin = console.operator(Role::Admin, None).await;
    console.installation.run("ALTER TABLE delivery RENAME TO delivery_2").await;
    let page = console.page("/apps/shop", &admin).await;
    assert!(page.contains(FAILURE) && !page.contains("All well."), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_addresses_get_a_designed_page_and_every_answer_has_the_policy() {
    let console = TestConsole::start(|_| {}).await;
    let admin = console.operator(Role::Admin, None).await;
    for path in ["/nothing", "/apps/none", "/apps/%FF", "/apps", "/sign-in", "/console.css", "/healthz"] {
        let answer = console.get(path, &admin).await;
        let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"),
            "{path} {policy}"
        );
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff", "{path}");
        if answer.status() == StatusCode::NOT_FOUND {
            assert!(answer.text().await.unwrap().contains("Nothing here"), "{path}");
        }
    }
    let [nothing, app] = [console.get("/nothing", &admin).await, console.get("/apps/none", &admin).await];
    assert_eq!((nothing.status(), app.status()), (StatusCode::NOT_FOUND, StatusCode::NOT_FOUND));
}
