//! Setup: the first app, and its first message.

use domain::Role;
use reqwest::StatusCode;
use reqwest::header::LOCATION;
use testkit::eventually;

use crate::fixture::TestConsole;

const SOON: std::time::Duration = std::time::Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_creates_the_first_app_and_sees_its_secret_once() {
    let console = TestConsole::start(|_| {}).await;
    let admin = console.operator(Role::Admin, None).await;
    let home = console.get("/", &admin).await;
    assert_eq!(home.headers()[LOCATION], "/setup");
    assert!(console.page("/apps", &admin).await.contains("create the first one"));
    assert!(console.page("/setup", &admin).await.contains("Create an app"));
    let fields = [("name", "a/b?c#d"), ("access", "closed")];
    let created = console.change("/setup", &admin, &fields).await;
    assert_eq!(created.status(), StatusCode::CREATED);
    let page = created.text().await.unwrap();
    assert!(page.contains(">as_") && page.contains("/apps/a%2Fb%3Fc%23d/setup"), "{page}");
    let taken = console.change("/setup", &admin, &fields).await;
    assert_eq!(taken.status(), StatusCode::CONFLICT);
    let page = taken.text().await.unwrap();
    assert!(
        page.contains("An app named “a/b?c#d” exists already.") && page.contains("value=\"a/b?c#d\""),
        "{page}"
    );
    for (name, access, status) in [("", "closed", 400), ("shop", "anyhow", 400), ("bank", "open", 201)] {
        let answer = console.change("/setup", &admin, &[("name", name), ("access", access)]).await;
        assert_eq!(answer.status().as_u16(), status, "{name} {access}");
    }
    assert_eq!(console.installation.count("SELECT count(*) FROM app").await, 2);
    let overview = console.page("/apps/a%2Fb%3Fc%23d", &admin).await;
    assert!(overview.contains("Set up the app") && !overview.contains("Latest failures"), "{overview}");
    let setup = console.page("/apps/a%2Fb%3Fc%23d/setup", &admin).await;
    assert!(
        setup.contains("Set up a/b?c#d") && setup.contains("tidings app create") && !setup.contains("as_"),
        "{setup}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_administrators_of_all_apps_create_apps() {
    let console = TestConsole::start(|_| {}).await;
    let shop = console.installation.app("shop").await;
    for &role in Role::ALL {
        for app in [None, Some(shop)] {
            let session = console.operator(role, app).await;
            let may = role == Role::Admin && app.is_none();
            let shown = console.get("/setup", &session).await.status();
            assert_eq!(shown == StatusCode::OK, may, "{role} {app:?}: {shown}");
            let fields = [("name", "shop"), ("access", "closed")];
            let status = console.change("/setup", &session, &fields).await.status();
            let expected = if may { StatusCode::CONFLICT } else { StatusCode::FORBIDDEN };
            assert_eq!(status, expected, "{role} {app:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_message_takes_the_path_of_every_send_and_its_outcome_is_shown() {
    let console = TestConsole::start(|_| {}).await;
    console.installation.app("shop").await;
    console.installation.context.serve("dispatcher", dispatcher::run);
    console.installation.context.serve("inbox", inbox::run);
    let editor = console.operator(Role::Editor, None).await;
    let setup = console.page("/apps/shop/setup", &editor).await;
    assert!(
        setup.contains("value=\"editor-all@example.com\"") && setup.contains("/v3/notifications"),
        "{setup}"
    );
    for (email, recipient) in [("ada@example.com", ""), ("nowhere", "me"), ("a@b@c", "me"), ("", "me")] {
        let fields = [("email", email), ("recipient", recipient)];
        let answer = console.change("/apps/shop/setup", &editor, &fields).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{email} {recipient}");
        assert!(answer.text().await.unwrap().contains("class=\"problem\""), "{email} {recipient}");
    }
    let fields = [("email", "ada@example.com"), ("recipient", "ada/1")];
    let answer = console.change("/apps/shop/setup", &editor, &fields).await;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{}", answer.text().await.unwrap());
    let next = answer.headers()[LOCATION].to_str().unwrap().to_owned();
    let page = eventually(SOON, "the send is planned", async || {
        let page = console.page(&next, &editor).await;
        page.contains("has the inbox item").then_some(page)
    })
    .await;
    let link = page.split("href=\"").find(|part| part.contains("/explain?person=ada%2F1")).unwrap();
    let explained = console.page(link.split('"').next().unwrap(), &editor).await;
    assert!(explained.contains("It works"), "{explained}");
}
