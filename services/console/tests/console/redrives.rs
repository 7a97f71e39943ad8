//! Redrives from the page of parked messages.

use domain::Role;
use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode};

use crate::fixture::TestConsole;

/// Three people with a parked email each, the third of which has expired.
const PARKED: &str = "WITH people AS (
     INSERT INTO app_user (app_id, number, identifier) OVERRIDING SYSTEM VALUE
     SELECT app.id, n, CASE n WHEN 1 THEN 'ada@example.com' WHEN 2 THEN '=HYPERLINK(1)' ELSE 'cyd' END FROM app, generate_series(1, 3) AS n
     RETURNING app_id, number, identifier
   ), planned AS (
     INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
     SELECT app_id, '00000000-0000-0000-0000-000000000001', number, 0, identifier, number, false, '{}' FROM people
   ), made AS (
     INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status, reason, provider, expires_at)
     SELECT app_id, lpad(to_hex(number), 32, '0')::uuid, '00000000-0000-0000-0000-000000000001', number, number, 'email',
       'secret-' || number || '@example.com', 'parked', 'retries_exhausted', 'main', CASE WHEN number = 3 THEN now() END
     FROM people RETURNING app_id, id, send_id, user_number
   )
   INSERT INTO parked (id, app_id, send_id, delivery_id, user_number, stream, message, cause, parked_at)
   SELECT gen_random_uuid(), app_id, send_id, id, user_number, 'JOB_email_bulk', '', '535', now() - interval '1 minute' FROM made";
const PREVIEW: &str = "/apps/shop/parked/redrive?cause=535&channel=email";

async fn parked() -> (TestConsole, String) {
    let console = TestConsole::start(|_| {}).await;
    console.installation.app("shop").await;
    console.installation.run(PARKED).await;
    let operator = console.operator(Role::Operator, None).await;
    (console, operator)
}

/// Returns the fields of the form that starts the previewed redrive.
pub(crate) fn fields(page: &str) -> Vec<(String, String)> {
    let form = page.split("<form class=\"stack confirm\"").nth(1).unwrap().split("</form>").next().unwrap();
    let inputs = form.split("<input type=\"hidden\" name=\"").skip(1);
    let field = |input: &str| {
        let (name, rest) = input.split_once("\" value=\"").unwrap();
        (name.to_owned(), rest.split('"').next().unwrap().to_owned())
    };
    inputs.map(field).collect()
}

async fn start(console: &TestConsole, operator: &str, fields: &[(String, String)]) -> Response {
    let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    console.change("/apps/shop/parked/redrive", operator, &fields).await
}

fn location(answer: &Response) -> String {
    answer.headers()[LOCATION].to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_is_previewed_started_paused_resumed_and_stopped() {
    let (console, operator) = parked().await;
    let list = console.page("/apps/shop/parked", &operator).await;
    assert!(list.replace("&#38;", "&").contains(&format!("href=\"{PREVIEW}\"")), "{list}");
    let page = console.page(PREVIEW, &operator).await;
    for text in [
        "2 people would get 2 messages: 2 Email.",
        "1 stays parked: 1 expired.",
        "At 50 a second it takes 1 s.",
        "ada@example.com",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let started = start(&console, &operator, &fields(&page)).await;
    assert_eq!(started.status(), StatusCode::SEE_OTHER);
    let run = location(&started).split('?').next().unwrap().to_owned();
    let shown = console.page(&location(&started), &operator).await;
    assert!(shown.contains("The redrive runs.") && shown.contains("operator-all@example.com"), "{shown}");
    for (to, text) in [("paused", "Resume"), ("running", "Pause"), ("stopped", "the rest is still parked")] {
        let answer = console.change(&run, &operator, &[("to", to)]).await;
        assert_eq!(location(&answer), format!("{run}?done={to}"));
        assert!(console.page(&location(&answer), &operator).await.contains(text), "{to}");
        let again = console.change(&run, &operator, &[("to", to)]).await;
        assert_eq!(again.status(), StatusCode::CONFLICT, "{to} twice");
    }
    assert_eq!(console.change(&run, &operator, &[("to", "done")]).await.status(), StatusCode::BAD_REQUEST);
    let list = console.page("/apps/shop/parked", &operator).await;
    assert!(list.contains(&format!("href=\"{run}\"")) && list.contains("stopped"), "{list}");
    let viewer = console.operator(Role::Viewer, None).await;
    let seen = console.page(&run, &viewer).await;
    assert!(!seen.contains("<form method=\"post\" action=\"/apps/shop/parked"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_and_overlapping_previews_are_refused_and_incomplete_forms_too() {
    let (console, operator) = parked().await;
    let page = console.page(PREVIEW, &operator).await;
    let mut stale = fields(&page);
    for (name, value) in &mut stale {
        if name == "at" {
            *value = "2026-01-01T00:00:00Z".to_owned();
        }
    }
    let answer = start(&console, &operator, &stale).await;
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    assert!(answer.text().await.unwrap().contains("older than 15 minutes"));
    let incomplete = [("cause".to_owned(), "535".to_owned())];
    assert_eq!(start(&console, &operator, &incomplete).await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(start(&console, &operator, &fields(&page)).await.status(), StatusCode::SEE_OTHER);
    let overlapping = start(&console, &operator, &fields(&page)).await;
    assert_eq!(overlapping.status(), StatusCode::CONFLICT);
    assert!(overlapping.text().await.unwrap().contains("Another redrive that is not finished"));
    for wrong in ["?age=yesterday", "?rate=x", "?channel=fax", "?delivery=1"] {
        let answer = console.get(&format!("/apps/shop/parked/redrive{wrong}"), &operator).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_csv_has_all_messages_without_targets_and_formulas() {
    let (console, operator) = parked().await;
    let answer = console.get(&PREVIEW.replace("redrive?", "redrive.csv?"), &operator).await;
    assert_eq!(answer.headers()["content-type"], "text/csv; charset=utf-8");
    assert!(answer.headers()["content-disposition"].to_str().unwrap().starts_with("attachment"));
    let text = answer.text().await.unwrap();
    let lines: Vec<_> = text.split("\r\n").collect();
    assert_eq!((lines.len(), lines[0]), (5, "person,what,target,cause,parked,redrive"), "{text}");
    assert!(text.contains("\"ada@example.com\",\"email\",\"s***@example.com\",\"535\""), "{text}");
    assert!(text.contains("\"'=HYPERLINK(1)\"") && !text.contains("secret-"), "{text}");
    assert!(text.contains("\"expired\""), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_of_more_than_a_thousand_messages_asks_for_the_number_and_the_password() {
    let (console, operator) = parked().await;
    console
        .installation
        .run(
            "INSERT INTO parked (id, app_id, user_number, stream, message, cause, parked_at)
             SELECT gen_random_uuid(), app.id, n, 'SEND_bulk', '', 'malformed', now() - interval '1 minute' FROM app, generate_series(1, 1001) AS n",
        )
        .await;
    console.set_password("operator-all@example.com").await;
    let page = console.page("/apps/shop/parked/redrive?cause=malformed", &operator).await;
    assert!(page.contains("1,001 messages: 1,001 sends planned again"), "{page}");
    assert!(page.contains("Type the number of messages") && page.contains("Your password"), "{page}");
    let with = |typed: &str, password: &str| {
        let mut fields = fields(&page);
        fields.push(("typed".to_owned(), typed.to_owned()));
        fields.push(("password".to_owned(), password.to_owned()));
        fields
    };
    let right = crate::changes::PASSWORD;
    for (typed, password, expected) in [
        ("1001", "wrong password 1", StatusCode::FORBIDDEN),
        ("1000", right, StatusCode::BAD_REQUEST),
        ("", right, StatusCode::BAD_REQUEST),
    ] {
        let answer = start(&console, &operator, &with(typed, password)).await;
        assert_eq!(answer.status(), expected, "{typed}");
        assert!(answer.text().await.unwrap().contains("Start the redrive"), "the form is shown again");
    }
    let mut forged = with("1", "");
    for (name, value) in &mut forged {
        if name == "expected" {
            *value = "1".to_owned();
        }
    }
    assert_eq!(start(&console, &operator, &forged).await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(start(&console, &operator, &with("1,001", right)).await.status(), StatusCode::SEE_OTHER);
}
