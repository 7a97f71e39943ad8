//! Writing a template in the console: by keyboard alone, and without scripts.

use serde_json::json;
use sqlx::PgPool;
use testkit::eventually;

use crate::browser::{Browser, SOON, Window, demo};
use crate::console::{fill, go, picture, press, sign_in, until_done, until_framed, until_heading};
use crate::console_jobs::keep_only;
use crate::running::RunningProcess;

async fn newest_subject(running: &RunningProcess) -> String {
    let pool = PgPool::connect(running.dev("databaseUrl")).await.unwrap();
    let statement = "SELECT v.channels -> 'email' ->> 'subject' FROM template t
        JOIN template_version v ON (v.app_id, v.template_id, v.version) = (t.app_id, t.id, t.version) WHERE t.identifier = 'order-shipped'";
    let subject = sqlx::query_scalar(statement).fetch_one(&pool).await.unwrap();
    pool.close().await;
    subject
}

/// Sends the text of the editor to the operator, by keys.
async fn send_test(browser: &mut Browser, window: &Window, running: &RunningProcess) {
    browser.follow(window, "Send a test").await;
    browser.follow(window, "Send the test").await;
    until_done(browser, window, "Sent as a test: Email").await;
    eventually(SOON, "the test", async || {
        let mails = json!(running.mails("admin@tidings.example").await).to_string();
        mails.contains("[Test] Parcel NUMBER").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_template_is_edited_tested_and_published_by_keyboard() {
    let (running, _files) = demo().await;
    fill(&running).await;
    keep_only(&running, "editor").await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open_url("about:blank").await;
    go(&mut browser, &window, running.dev("console")).await;
    let (browser, window) = (&mut browser, &window);
    browser.tab_to(window, "form button").await;
    browser.press(window, "Enter").await;
    let overview = "location.pathname === '/apps/demo' && document.readyState === 'complete'";
    browser.until_true(window, "the overview", overview).await;
    for key in ["g", "t"] {
        browser.press(window, key).await;
    }
    until_heading(browser, window, "Templates").await;
    browser.follow(window, "order-shipped").await;
    until_heading(browser, window, "order-shipped").await;
    browser.follow(window, "Edit").await;
    until_heading(browser, window, "Edit order-shipped").await;
    until_framed(browser).await;
    browser.tab_to(window, "[name='email.subject']").await;
    browser
        .evaluate(window, "document.activeElement.select(); window.before = performance.now(); true")
        .await;
    let subject = "Parcel {{ order.number }} <b>left</b>";
    browser.call(window, "Input.insertText", json!({"text": subject})).await;
    let shown = "[...document.querySelectorAll('#preview dd')].some((it) => it.textContent === 'Parcel NUMBER <b>left</b>')";
    browser.until_true(window, "the new preview", shown).await;
    until_framed(browser).await;
    let kept = "document.activeElement.name === 'email.subject' && window.before > 0";
    assert_eq!(
        browser.evaluate(window, kept).await,
        true,
        "the page was not loaded again, and the focus stays"
    );
    let depth = browser.evaluate(window, "history.length").await;
    browser.call(window, "Input.insertText", json!({"text": "!"})).await;
    let shown = shown.replace("left</b>", "left</b>!");
    browser.until_true(window, "the next preview", &shown).await;
    assert_eq!(browser.evaluate(window, "history.length").await, depth, "previews are not in the history");

    browser.evaluate(window, "document.getElementById('dark').click(); true").await;
    browser.until_true(window, "the dark preview", "document.querySelector('iframe.dark') !== null").await;
    until_framed(browser).await;

    send_test(browser, window, &running).await;
    browser.follow(window, "Review and publish").await;
    until_heading(browser, window, "Publish order-shipped").await;
    let added = browser.evaluate(window, "document.querySelector('.diff ins').textContent").await;
    assert_eq!(added, format!("{subject}!"));
    for (width, scheme) in [(1280, "light"), (390, "dark")] {
        browser.look(window, (width, scheme)).await;
        picture(browser, window, &format!("template-review-{width}-{scheme}")).await;
    }
    browser.has_no_findings_of_axe(window).await;
    browser.follow(window, "Publish version 5").await;
    until_done(browser, window, "The version is published").await;
    assert_eq!(newest_subject(&running).await, format!("{subject}!"));
    assert_eq!(browser.evaluate(window, "window.violations").await, json!([]));
}

#[tokio::test]
async fn a_template_is_previewed_tested_and_published_without_scripts() {
    let (running, _files) = demo().await;
    fill(&running).await;
    keep_only(&running, "editor").await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open_url("about:blank").await;
    browser.call(&window, "Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
    let console = sign_in(&mut browser, &window, &running).await;
    let (browser, window) = (&mut browser, &window);
    go(browser, window, &format!("{console}/apps/demo/new-template")).await;
    let fields = "document.querySelector('[name=identifier]').value = 'a/b?c#d'; document.querySelector('[value=order-shipped]').checked = true; true";
    browser.evaluate(window, fields).await;
    press(browser, window, "Write the text").await;
    until_heading(browser, window, "New template a/b?c#d").await;
    let write =
        "document.querySelector('[name=\"email.subject\"]').value = 'Unpublished {{ order.number }}'; true";
    browser.evaluate(window, write).await;
    press(browser, window, "Preview").await;
    let shown =
        "[...document.querySelectorAll('#preview dd')].some((it) => it.textContent === 'Unpublished 1042')";
    browser.until_true(window, "the preview", shown).await;
    press(browser, window, "Show the HTML part").await;
    until_framed(browser).await;
    press(browser, window, "Send the test").await;
    until_done(browser, window, "Sent as a test: Email").await;
    let kept = "document.querySelector('[name=\"email.subject\"]').value";
    assert_eq!(browser.evaluate(window, kept).await, "Unpublished {{ order.number }}");
    let pool = PgPool::connect(running.dev("databaseUrl")).await.unwrap();
    let sent = "SELECT d.status FROM request r JOIN delivery d USING (app_id, send_id)
        WHERE r.title = '[Test] Unpublished 1042' AND d.channel = 'email' AND d.status = 'sent'";
    eventually(SOON, "the test is sent", async || {
        let status: Option<String> = sqlx::query_scalar(sent).fetch_optional(&pool).await.unwrap();
        status
    })
    .await;
    pool.close().await;
    press(browser, window, "Review and publish").await;
    until_heading(browser, window, "Publish a/b?c#d").await;
    press(browser, window, "Back to the text").await;
    until_heading(browser, window, "New template a/b?c#d").await;
    press(browser, window, "Review and publish").await;
    until_heading(browser, window, "Publish a/b?c#d").await;
    press(browser, window, "Publish version 1").await;
    until_done(browser, window, "The version is published").await;
    until_heading(browser, window, "a/b?c#d").await;
}

#[tokio::test]
async fn the_editor_leads_from_a_problem_to_its_line_and_stays_if_the_session_ends() {
    let (running, _files) = demo().await;
    fill(&running).await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open_url("about:blank").await;
    let console = sign_in(&mut browser, &window, &running).await;
    let (browser, window) = (&mut browser, &window);
    go(browser, window, &format!("{console}/apps/demo/templates/order-shipped/edit")).await;
    until_framed(browser).await;
    let write = "window.area = document.getElementById('email.html'); area.value = '\\n'.repeat(60) + 'Hi {% broken %}\\nend';
        area.dispatchEvent(new Event('input', {bubbles: true})); area.scrollTop = 0; true";
    browser.evaluate(window, write).await;
    let link = "document.querySelector('#preview a[data-line]')?.dataset.line";
    browser.until_true(window, "the problem", &format!("{link} === '61'")).await;
    let numbers = "area.nextSibling.textContent.split('\\n').length + area.nextSibling.textContent.slice(-3)";
    assert_eq!(browser.evaluate(window, numbers).await, "62\n62");
    browser.evaluate(window, "document.querySelector('#preview a[data-line]').click(); true").await;
    let selected =
        "document.activeElement === area && area.value.slice(area.selectionStart, area.selectionEnd)";
    assert_eq!(browser.evaluate(window, selected).await, "Hi {% broken %}");
    let in_step = "area.scrollTop > 500 && area.nextSibling.scrollTop === area.scrollTop";
    browser.until_true(window, "the numbers at the line", in_step).await;
    for (width, scheme) in [(1280, "light"), (1280, "dark"), (390, "light")] {
        browser.look(window, (width, scheme)).await;
        picture(browser, window, &format!("template-edit-lines-{width}-{scheme}")).await;
    }
    browser.has_no_findings_of_axe(window).await;

    let pool = PgPool::connect(running.dev("databaseUrl")).await.unwrap();
    sqlx::query("DELETE FROM operator_session").execute(&pool).await.unwrap();
    pool.close().await;
    let review =
        "window.stays = true; document.querySelector('button[formaction$=\"/review\"]').click(); true";
    browser.evaluate(window, review).await;
    let told =
        "document.querySelector('.outdated')?.textContent.startsWith('Your session has ended') === true";
    browser.until_true(window, "the end of the session", told).await;
    assert_eq!(
        browser.evaluate(window, "window.stays && area.value.endsWith('broken %}\\nend')").await,
        true
    );
    assert_eq!(browser.evaluate(window, "window.violations").await, json!([]));
}

#[tokio::test]
async fn older_rows_replace_the_list_and_the_back_button_returns() {
    let (running, _files) = demo().await;
    fill(&running).await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open_url("about:blank").await;
    let console = sign_in(&mut browser, &window, &running).await;
    let (browser, window) = (&mut browser, &window);
    go(browser, window, &format!("{console}/apps/demo/sends")).await;
    browser.evaluate(window, "window.first = document.querySelector('tbody tr').id; true").await;
    browser.follow(window, "Older").await;
    let older =
        "location.search.includes('before=') && document.querySelector('tbody tr').id !== window.first";
    browser.until_true(window, "older sends in the same page", older).await;
    assert_eq!(browser.evaluate(window, "document.activeElement.id + scrollY").await, "main0");
    browser.evaluate(window, "history.back(); true").await;
    let newest = "location.search === '' && document.querySelector('tbody tr').id === window.first";
    browser.until_true(window, "the newest sends", newest).await;
    browser.evaluate(window, "history.forward(); true").await;
    browser.until_true(window, "older sends again", older).await;
    assert_eq!(browser.evaluate(window, "window.violations").await, json!([]));
}
