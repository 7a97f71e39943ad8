//! Jobs of the people who use the console, from the sign-in to the result, by clicks and keys alone. Each is done with scripts and
//! without. The developer's job is in `setup.rs`, the editor's in `console_templates.rs`.

use reqwest::Method;
use serde_json::json;
use sqlx::{AssertSqlSafe, PgPool};
use tempfile::TempDir;
use testkit::eventually;

use crate::browser::{Browser, SOON, Window, demo};
use crate::console::{fill, sign_in_with, until_done, until_heading};
use crate::running::RunningProcess;

const PASSWORD: &str = "marble tractor quiet violin";
const INVITED: &str = "joy@example.org";
const PEOPLE: [&str; 3] = ["ida", "kay", "lee"];

/// Runs a statement in the database of `tidings up`.
async fn run(running: &RunningProcess, statement: &str) {
    let pool = PgPool::connect(running.dev("databaseUrl")).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&pool).await.unwrap();
    pool.close().await;
}

/// Waits until a query counts this number.
async fn until_counted(running: &RunningProcess, query: &'static str, number: i64) {
    let pool = PgPool::connect(running.dev("databaseUrl")).await.unwrap();
    eventually(SOON, query, async || {
        let counted: i64 = sqlx::query_scalar(query).fetch_one(&pool).await.unwrap();
        (counted == number).then_some(())
    })
    .await;
    pool.close().await;
}

/// Leaves the operator of `tidings up` only a role in the app `demo`.
pub(crate) async fn keep_only(running: &RunningProcess, role: &str) {
    let roles = format!(
        "UPDATE operator_grant SET app_id = (SELECT id FROM app WHERE name = 'demo'), role = '{role}'
         WHERE operator_id = (SELECT id FROM operator WHERE email = 'admin@tidings.example')"
    );
    run(running, &roles).await;
}

/// Signs in by the link of `tidings up`: as an administrator of all apps, unless [`keep_only`] came before.
pub(crate) async fn sign_in(browser: &mut Browser, running: &RunningProcess, scripts: bool) -> Window {
    let window = browser.open_url("about:blank").await;
    browser.run_scripts(&window, scripts).await;
    sign_in_with(browser, &window, running, async |browser, window| browser.click(window, "Sign in").await)
        .await;
    window
}

async fn send(running: &RunningProcess, title: &str, recipients: serde_json::Value) {
    let send = json!({
        "notification": {"title": title, "message": "Hello"}, "override": {"channels": ["email"]},
        "sendTo": {"recipients": recipients},
    });
    let (status, answer) = running.call(Method::POST, "/notifications", Some(&send)).await;
    assert_eq!(status, 202, "{answer}");
}

/// A person whose email is suppressed asks why an email did not come.
async fn support(scripts: bool) {
    let (running, _files) = demo().await;
    fill(&running).await;
    send(&running, "Your refund", json!(["ada"])).await;
    let settled = "SELECT count(*) FROM planned_recipient JOIN request USING (app_id, send_id) WHERE title = 'Your refund'";
    until_counted(&running, settled, 1).await;
    let mut browser = Browser::start(&running).await;
    keep_only(&running, "support").await;
    let window = &sign_in(&mut browser, &running, scripts).await;
    let browser = &mut browser;

    browser.write(window, "q", "ada").await;
    browser.press(window, "Enter").await;
    until_heading(browser, window, "ada").await;
    // The first click after the search shows the cause.
    browser.click(window, "Your refund").await;
    until_heading(browser, window, "Your refund").await;
    assert!(browser.path(window).await.ends_with("/explain"));
    browser.until_reads(window, "suppressed").await;
    browser.click(window, "Lift the suppression of a***@example.com").await;
    until_heading(browser, window, "Lift the suppression of a***@example.com?").await;
    browser.click(window, "Lift the suppression").await;
    until_done(browser, window, "The suppression is lifted").await;
    until_heading(browser, window, "Your refund").await;

    send(&running, "Your refund again", json!(["ada"])).await;
    eventually(SOON, "the email", async || {
        let mails = running.mails("ada@example.com").await;
        mails.iter().any(|mail| mail.to_string().contains("Your refund again")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn support_finds_the_cause_and_lifts_the_suppression() {
    support(true).await;
}

#[tokio::test]
async fn support_finds_the_cause_and_lifts_the_suppression_without_scripts() {
    support(false).await;
}

/// Three emails are parked, because the port of the mail server is wrong.
async fn parked() -> (RunningProcess, TempDir, String) {
    let files = tempfile::Builder::new().prefix("tidings-browser-").tempdir().unwrap();
    let once = [("TIDINGS_DELIVERY__RETRY_SCHEDULE", "0s")];
    let running = RunningProcess::start_with(&files.path().join("data"), &once).await;
    let port = crate::setup::mail_port(&running).await;
    let closed = local_servers::port::free().unwrap();
    let wrong = format!("settings = jsonb_set(settings, '{{port}}', '{closed}'), version = version + 1");
    run(&running, &format!("UPDATE provider SET {wrong} WHERE identifier = 'stand-in'")).await;
    let people = PEOPLE.map(|name| json!({"identifier": name, "email": format!("{name}@example.com")}));
    send(&running, "Your order", json!(people)).await;
    until_counted(&running, "SELECT count(*) FROM parked", 3).await;
    (running, files, port)
}

/// An operator on call corrects a provider, and has the parked emails sent.
async fn operator_on_call(scripts: bool) {
    let (running, _files, port) = parked().await;
    let mut browser = Browser::start(&running).await;
    keep_only(&running, "operator").await;
    let window = &sign_in(&mut browser, &running, scripts).await;
    let browser = &mut browser;

    until_heading(browser, window, "▲ 3 messages are parked.").await;
    browser.until_reads(window, "Most often: connect.").await;
    browser.click_on(window, "main a[href$='/provider/stand-in']").await;
    until_heading(browser, window, "● stand-in").await;
    browser.click(window, "Edit").await;
    until_heading(browser, window, "Edit stand-in").await;
    browser.write(window, "settings.port", &port).await;
    browser.click(window, "Save").await;
    until_done(browser, window, "The provider is saved").await;
    browser.click(window, "Test").await;
    until_done(browser, window, "The test passed").await;

    browser.click(window, "Parked").await;
    until_heading(browser, window, "Parked").await;
    browser.click(window, "Redrive…").await;
    until_heading(browser, window, "Redrive ").await;
    browser.until_reads(window, "3 people would get 3 messages").await;
    browser.click(window, "Start the redrive").await;
    until_heading(browser, window, "Redrive of ").await;
    let done = "done, 3 redriven, 0 left parked, of 3.";
    if scripts {
        browser.until_reads(window, done).await;
    } else {
        browser.reload_until_reads(window, done).await;
    }
    browser.click(window, "Parked").await;
    until_heading(browser, window, "Parked").await;
    if scripts {
        browser.until_reads(window, "Nothing is parked.").await;
    } else {
        browser.reload_until_reads(window, "Nothing is parked.").await;
    }
    for name in PEOPLE {
        eventually(SOON, "the email", async || {
            (running.mails(&format!("{name}@example.com")).await.len() == 1).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn the_operator_on_call_corrects_a_provider_and_redrives_what_is_parked() {
    operator_on_call(true).await;
}

#[tokio::test]
async fn the_operator_on_call_corrects_a_provider_and_redrives_what_is_parked_without_scripts() {
    operator_on_call(false).await;
}

/// Opens a page from the menu of apps.
async fn open_from_menu(browser: &mut Browser, window: &Window, name: &str) {
    browser.click_on(window, "details.switch summary").await;
    browser.click(window, name).await;
    until_heading(browser, window, name).await;
}

/// Follows the link of an invitation, and chooses a password.
async fn accept(browser: &mut Browser, link: &str, scripts: bool) -> Window {
    let window = browser.open_apart().await;
    browser.run_scripts(&window, scripts).await;
    crate::console::go(browser, &window, link).await;
    browser.until_reads(&window, &format!("Choose a password for {INVITED}")).await;
    browser.write(&window, "password", PASSWORD).await;
    browser.press(&window, "Enter").await;
    browser.until_reads(&window, "Providers").await;
    assert_eq!(browser.path(&window).await, "/apps/demo");
    window
}

/// Signs in again after a change of roles has ended the session.
async fn sign_in_again(browser: &mut Browser, window: &Window) {
    browser.reload_until_reads(window, "Sign in to the console").await;
    browser.write(window, "email", INVITED).await;
    browser.write(window, "password", PASSWORD).await;
    browser.press(window, "Enter").await;
}

async fn administrator(scripts: bool) {
    let (running, _files) = demo().await;
    let mut browser = Browser::start(&running).await;
    let window = &sign_in(&mut browser, &running, scripts).await;
    let browser = &mut browser;

    open_from_menu(browser, window, "Operators").await;
    browser.click(window, "New operator").await;
    until_heading(browser, window, "New operator").await;
    browser.write(window, "email", INVITED).await;
    browser.choose(window, "role", "support").await;
    browser.choose(window, "scope", "demo").await;
    browser.click(window, "Create the operator").await;
    until_heading(browser, window, &format!("Link for {INVITED}")).await;
    let link = browser.texts(window, ".secret code").await.remove(0);
    let invited = &accept(browser, &link, scripts).await;
    browser.click(invited, "Settings").await;
    browser.click(invited, "Providers").await;
    until_heading(browser, invited, "Providers").await;
    assert!(!browser.texts(invited, "main a").await.iter().any(|text| text.starts_with("Add a provider")));

    browser.click(window, &format!("Roles of {INVITED}")).await;
    until_heading(browser, window, INVITED).await;
    browser.click(window, "Change…").await;
    until_heading(browser, window, &format!("Change the role of {INVITED} in demo")).await;
    browser.choose(window, "role", "operator").await;
    browser.click(window, "Save the role").await;
    until_heading(browser, window, INVITED).await;
    sign_in_again(browser, invited).await;
    until_heading(browser, invited, "Providers").await;
    browser.until_reads(invited, "Add a provider…").await;

    browser.click(window, "Remove…").await;
    until_heading(browser, window, &format!("Remove the role of {INVITED} in demo?")).await;
    browser.click(window, "Remove the role").await;
    browser.until_reads(window, "None: this operator sees no app.").await;
    sign_in_again(browser, invited).await;
    browser.until_reads(invited, "you have no role in it").await;
    browser.click(invited, "Back to the console").await;
    browser.until_reads(invited, "You see no app.").await;

    open_from_menu(browser, window, "Audit log").await;
    let rows = browser.texts(window, "td.told").await;
    for (row, what) in rows.iter().zip(["removed a role of", "changed the roles of", "created"]) {
        assert!(row.contains(&format!("{what} the operator {INVITED}")), "{what}: {rows:?}");
    }
}

#[tokio::test]
async fn an_administrator_invites_an_operator_whose_role_is_changed_and_taken_away() {
    administrator(true).await;
}

#[tokio::test]
async fn an_administrator_invites_an_operator_whose_role_is_changed_and_taken_away_without_scripts() {
    administrator(false).await;
}
