//! The console in Chromium: every page, light and dark, wide and narrow, and signing in without scripts.

use std::path::Path;

use serde_json::{Value, json};
use sqlx::PgPool;
use testkit::eventually;

use crate::browser::{Browser, SOON, Window, demo};
use crate::running::RunningProcess;

/// Delivery that led to a suppression.
const DEAD: &str = "00000000-0000-7000-8000-00000000dead";
const FILL: &str = include_str!("console.sql");
/// If this variable is set, the pictures of the pages are written to `docs/console`.
const PICTURES: &str = "TIDINGS_TEST_WRITE_PICTURES";
/// Widths between a phone and a desk, at which no page scrolls sideways: tables are lists below 961 px.
const BETWEEN: [u32; 3] = [641, 820, 961];
const VIEWS: [(u32, &str); 4] = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")];

/// Pages about operators and the audit log.
const OF_OPERATORS: [(&str, &str); 10] = [
    ("reveal", "/apps/demo/people/ada/reveal?place=0"),
    ("audit-of-app", "/apps/demo/audit"),
    ("audit", "/audit?q=actor:grace@example.com"),
    ("operators", "/operators"),
    ("operator", "/operators/grace%40example.com"),
    ("new-operator", "/operators/new"),
    ("grant", "/operators/grace%40example.com/grant"),
    ("revoke", "/operators/grace%40example.com/revoke?scope=all"),
    ("account", "/account"),
    ("unlink", "/operators/grace%40example.com/unlink"),
];

/// Pages about tokens and of the second line of tabs, without those about providers.
const OF_SETTINGS: [(&str, &str); 21] = [
    ("tokens", "/tokens"),
    ("token-new", "/tokens/new"),
    ("token-revoke", "/tokens/1007/revoke"),
    ("settings", "/apps/demo/settings"),
    ("credentials", "/apps/demo/credentials"),
    ("rotate-secret", "/apps/demo/credentials/secret"),
    ("rotate-link-key", "/apps/demo/credentials/link-key"),
    ("new-signing-key", "/apps/demo/credentials/signing-key"),
    ("webhooks", "/apps/demo/webhooks"),
    ("webhook-new", "/apps/demo/webhooks/new"),
    ("webhook", "/apps/demo/webhook/1008"),
    ("webhook-edit", "/apps/demo/webhook/1007/edit"),
    ("webhook-secret", "/apps/demo/webhook/1007/secret"),
    ("webhook-remove", "/apps/demo/webhook/1007/remove"),
    ("categories", "/apps/demo/categories"),
    ("category-new", "/apps/demo/categories/new"),
    ("category", "/apps/demo/category/1007"),
    ("category-delete", "/apps/demo/category/1007/delete"),
    ("topics", "/apps/demo/topics"),
    ("topic", "/apps/demo/topic/1007"),
    ("topic-delete", "/apps/demo/topic/1007/delete"),
];

/// Pages about providers and the setup of an app.
const OF_PROVIDERS: [(&str, &str); 9] = [
    ("providers", "/apps/demo/providers"),
    ("provider", "/apps/demo/provider/stand-in-sms"),
    ("provider-kinds", "/apps/demo/providers/new"),
    ("provider-form", "/apps/demo/providers/new?channel=email&kind=smtp"),
    ("provider-edit", "/apps/demo/provider/stand-in-sms/edit"),
    ("provider-switch", "/apps/demo/provider/stand-in/switch"),
    ("provider-remove", "/apps/demo/provider/stand-in/remove"),
    ("setup-demo", "/apps/demo/setup"),
    ("setup-app", "/setup"),
];

pub(crate) async fn fill(running: &RunningProcess) -> String {
    let pool = PgPool::connect(running.dev("databaseUrl")).await.unwrap();
    let mut transaction = pool.begin().await.unwrap();
    sqlx::raw_sql(FILL).execute(&mut *transaction).await.unwrap();
    transaction.commit().await.unwrap();
    let busiest = "SELECT send_id::text FROM request WHERE recipients > 1 AND send_at IS NULL ORDER BY send_id DESC LIMIT 1";
    let send = sqlx::query_scalar(busiest).fetch_one(&pool).await.unwrap();
    pool.close().await;
    send
}

pub(crate) async fn go(browser: &mut Browser, window: &Window, url: &str) {
    browser.call(window, "Page.navigate", json!({"url": url})).await;
    let loaded = format!("document.readyState === 'complete' && location.href.startsWith('{url}')");
    browser.until_true(window, url, &loaded).await;
}

/// Signs in by the link of `tidings up`, with a click. Returns the address of the console.
pub(crate) async fn sign_in(browser: &mut Browser, window: &Window, running: &RunningProcess) -> String {
    sign_in_with(browser, window, running, async |browser, window| {
        browser.evaluate(window, "document.querySelector('form button').click(); true").await;
    })
    .await
}

/// Signs in by the link of `tidings up`; `confirm` presses the button of its page. Returns the address of the console.
pub(crate) async fn sign_in_with(
    browser: &mut Browser,
    window: &Window,
    running: &RunningProcess,
    confirm: impl AsyncFnOnce(&mut Browser, &Window),
) -> String {
    let link = running.dev("console");
    go(browser, window, link).await;
    confirm(browser, window).await;
    let shown = "location.pathname === '/apps/demo' && document.readyState === 'complete'";
    browser.until_true(window, "the overview", shown).await;
    link.split("/welcome").next().unwrap().to_owned()
}

/// Names of pages for their pictures, and their paths.
fn pages(send: &str) -> Vec<(&'static str, String)> {
    let pages = [
        ("overview", "/apps/demo"),
        ("sends", "/apps/demo/sends"),
        ("send", &format!("/apps/demo/sends/{send}")),
        ("explain", &format!("/apps/demo/sends/{send}/explain?recipient=0")),
        ("sends-nothing-found", "/apps/demo/sends?q=category:orders+chanel:email+unheard-of"),
        ("people", "/apps/demo/people"),
        ("person", "/apps/demo/people/ada"),
        ("waiting", "/apps/demo/waiting"),
        ("parked", "/apps/demo/parked"),
        (
            "release",
            "/apps/demo/waiting/release?channel=email&reason=breaker_open&provider=stand-in&code=421",
        ),
        ("redrive", "/apps/demo/parked/redrive?cause=20429&channel=sms"),
        ("redrive-run", "/apps/demo/parked/runs/3"),
        ("cancel", &format!("/apps/demo/sends/{send}/cancel")),
        ("erase", "/apps/demo/people/ada/erase"),
        ("lift", &format!("/apps/demo/suppressions/lift?channel=email&delivery={DEAD}")),
        ("templates", "/apps/demo/templates"),
        ("template", "/apps/demo/templates/order-shipped"),
        ("template-edit", "/apps/demo/templates/order-shipped/edit"),
        ("template-new", "/apps/demo/new-template"),
        ("template-restore", "/apps/demo/templates/order-shipped/versions/2/restore"),
        ("refused", "/apps/demo/refused"),
        ("installation", "/installation"),
        ("apps", "/apps"),
        ("admin-api", "/v1/admin/docs"),
        ("sign-in", "/sign-in"),
        ("not-found", "/apps/none"),
    ];
    pages
        .into_iter()
        .chain(OF_OPERATORS)
        .chain(OF_PROVIDERS)
        .map(|(name, path)| (name, path.to_owned()))
        .collect()
}

#[tokio::test]
async fn every_page_of_the_console_is_accessible_and_keeps_its_policy() {
    open_in_every_view(pages).await;
}

#[tokio::test]
async fn every_page_of_the_settings_is_accessible_and_keeps_its_policy() {
    open_in_every_view(|_| OF_SETTINGS.iter().map(|(name, path)| (*name, (*path).to_owned())).collect())
        .await;
}

/// Opens the pages for a send in each view.
async fn open_in_every_view(pages: impl Fn(&str) -> Vec<(&'static str, String)>) {
    let (running, _files) = demo().await;
    let send = fill(&running).await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open_url("about:blank").await;
    let console = sign_in(&mut browser, &window, &running).await;
    for (name, path) in pages(&send) {
        for (width, scheme) in VIEWS {
            let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
            browser.call(&window, "Emulation.setDeviceMetricsOverride", size).await;
            let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
            browser.call(&window, "Emulation.setEmulatedMedia", media).await;
            go(&mut browser, &window, &format!("{console}{path}")).await;
            let is_refused = browser.evaluate(&window, "document.querySelector('p.code') !== null").await;
            assert_eq!(is_refused, name == "not-found", "{name}");
            assert_fits(&mut browser, &window, name).await;
            if name.starts_with("template") && path.contains("order-shipped") && name != "template-restore" {
                until_framed(&mut browser).await;
            }
            if name == "installation" {
                // The name of the machine would change the picture.
                let rename = "document.querySelector('td.words').textContent = 'node-1'";
                browser.evaluate(&window, rename).await;
            }
            if name == "provider" {
                let ports = "document.querySelectorAll('.setting').forEach((it) => { it.textContent = it.textContent.replace(/:\\d+/, ':8443'); })";
                browser.evaluate(&window, ports).await;
            }
            picture(&mut browser, &window, &format!("{name}-{width}-{scheme}")).await;
        }
        for width in BETWEEN {
            let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
            browser.call(&window, "Emulation.setDeviceMetricsOverride", size).await;
            assert_fits(&mut browser, &window, name).await;
        }
        browser.has_no_findings_of_axe(&window).await;
        assert_eq!(browser.evaluate(&window, "window.violations").await, json!([]), "{name}");
    }
}

async fn assert_fits(browser: &mut Browser, window: &Window, name: &str) {
    let widths = "[document.documentElement.scrollWidth, innerWidth]";
    let widths = browser.evaluate(window, widths).await;
    assert!(widths[0].as_u64() <= widths[1].as_u64(), "{name} scrolls sideways: {widths}");
}

/// Waits until the HTML of an email is shown. Chromium runs a frame without an origin in its own process.
pub(crate) async fn until_framed(browser: &mut Browser) {
    let chromium = &mut browser.chromium;
    eventually(SOON, "the email is shown", async || {
        let targets = chromium.call("Target.getTargets", json!({}), None).await;
        let mut targets = targets["targetInfos"].as_array().unwrap().iter();
        targets.find(|it| it["type"] == "iframe" && it["url"].as_str().unwrap().ends_with("/frame")).map(drop)
    })
    .await;
}

pub(crate) async fn picture(browser: &mut Browser, window: &Window, name: &str) {
    if std::env::var_os(PICTURES).is_none() {
        return;
    }
    // The preview of the editor stays in the window, and the beginning of a long form says enough.
    let is_cut = ["template-edit-1280", "first-provider", "first-template"];
    let height = if is_cut.iter().any(|start| name.starts_with(start)) {
        "innerHeight"
    } else {
        "document.documentElement.scrollHeight"
    };
    let height = browser.evaluate(window, height).await;
    let width = browser.evaluate(window, "innerWidth").await;
    let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": 1});
    let wanted = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
    let taken = browser.call(window, "Page.captureScreenshot", wanted).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/console");
    std::fs::create_dir_all(&folder).unwrap();
    let bytes = base64(&taken);
    std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
}

fn base64(taken: &Value) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(taken["data"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn the_console_works_without_scripts() {
    let (running, _files) = demo().await;
    fill(&running).await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open_url("about:blank").await;
    browser.call(&window, "Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
    let console = sign_in(&mut browser, &window, &running).await;
    for (tab, heading) in [
        ("Sends", "Sends"),
        ("People", "People"),
        ("Waiting", "Waiting"),
        ("Parked", "Parked"),
        ("Templates", "Templates"),
        ("Settings", "Settings of demo"),
        ("Providers", "Providers"),
        ("Webhooks", "Webhooks"),
        ("Categories", "Categories"),
        ("Topics", "Topics"),
        ("Refused", "Refused calls"),
    ] {
        let click = format!(
            "[...document.querySelectorAll('.tabs a')].find((tab) => tab.textContent === '{tab}').click(); true"
        );
        browser.evaluate(&window, &click).await;
        let shown = format!(
            "document.querySelector('h1')?.textContent === '{heading}' && document.querySelector('tbody tr, form .settings') !== null"
        );
        browser.until_true(&window, heading, &shown).await;
    }
    let search = "document.querySelector('.find input').value = 'ada'; document.querySelector('.find').requestSubmit(); true";
    browser.evaluate(&window, search).await;
    browser.until_true(&window, "the person", "document.querySelector('h1')?.textContent === 'ada'").await;
    browser.evaluate(&window, "document.querySelector('.account summary').click(); true").await;
    browser.evaluate(&window, "document.querySelector('.account form button').click(); true").await;
    browser.until_true(&window, "signed out", "location.pathname === '/sign-in'").await;
    go(&mut browser, &window, &format!("{console}/sign-in")).await;
    let link = running.dev("console").to_owned();
    browser.call(&window, "Page.navigate", json!({"url": link})).await;
    eventually(SOON, "the used link is refused", async || {
        let text = browser.evaluate(&window, "document.body?.textContent ?? ''").await;
        text.as_str().is_some_and(|text| text.contains("has been used or has expired")).then_some(())
    })
    .await;
}

/// Follows the link or presses the button whose text begins with these words.
pub(crate) async fn press(browser: &mut Browser, window: &Window, text: &str) {
    let press = format!(
        "[...document.querySelectorAll('main a, main button')].find((it) => it.textContent.trim().startsWith('{text}')).click(); true"
    );
    browser.evaluate(window, &press).await;
}

pub(crate) async fn until_heading(browser: &mut Browser, window: &Window, start: &str) {
    let shown = format!(
        "document.readyState === 'complete' && (document.querySelector('h1')?.textContent ?? '').startsWith('{start}')"
    );
    browser.until_true(window, start, &shown).await;
}

pub(crate) async fn until_done(browser: &mut Browser, window: &Window, text: &str) {
    let shown = format!("(document.querySelector('.done')?.textContent ?? '').includes('{text}')");
    browser.until_true(window, text, &shown).await;
}

#[tokio::test]
async fn sends_suppressions_people_and_parked_messages_are_changed_without_scripts() {
    let (running, _files) = demo().await;
    let send = fill(&running).await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open_url("about:blank").await;
    browser.call(&window, "Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
    let console = sign_in(&mut browser, &window, &running).await;
    let (browser, window) = (&mut browser, &window);

    go(browser, window, &format!("{console}/apps/demo/sends/{send}")).await;
    press(browser, window, "Cancel").await;
    until_heading(browser, window, "Cancel “").await;
    press(browser, window, "Keep it").await;
    until_heading(browser, window, "Weekend").await;

    go(browser, window, &format!("{console}/apps/demo/people/ada")).await;
    press(browser, window, "Lift").await;
    until_heading(browser, window, "Lift the suppression of a***@example.com").await;
    press(browser, window, "Lift the suppression").await;
    until_done(browser, window, "The suppression is lifted").await;

    go(browser, window, &format!("{console}/apps/demo/parked")).await;
    press(browser, window, "Redrive…").await;
    until_heading(browser, window, "Redrive ").await;
    // A paused redrive of the fixture selects the emails.
    go(browser, window, &format!("{console}/apps/demo/parked/redrive?channel=sms")).await;
    press(browser, window, "Start the redrive").await;
    until_done(browser, window, "The redrive runs.").await;
    until_heading(browser, window, "Redrive of SMS").await;

    go(browser, window, &format!("{console}/apps/demo/people/ada/erase")).await;
    browser.evaluate(window, "document.querySelector('[name=typed]').value = 'ada'; true").await;
    press(browser, window, "Erase the person").await;
    until_done(browser, window, "The person is erased").await;
}

#[tokio::test]
async fn the_list_of_sends_stands_still_under_the_pointer_and_counts_newer_sends() {
    let (running, _files) = demo().await;
    fill(&running).await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open_url("about:blank").await;
    let console = sign_in(&mut browser, &window, &running).await;
    go(&mut browser, &window, &format!("{console}/apps/demo/sends")).await;
    let place = "(({x, y}) => [x + 40, y + 40])(document.querySelector('tbody').getBoundingClientRect())";
    let place = browser.evaluate(&window, place).await;
    let pointer = json!({"type": "mouseMoved", "x": place[0], "y": place[1]});
    browser.call(&window, "Input.dispatchMouseEvent", pointer).await;
    browser
        .until_true(
            &window,
            "the pointer is over the list",
            "document.getElementById('live').matches(':hover')",
        )
        .await;
    let pool = PgPool::connect(running.dev("databaseUrl")).await.unwrap();
    let newer = "INSERT INTO request (app_id, send_id, accepted_at, lane, title, recipients)
         SELECT id, send_id_at(now() + interval '1 second'), now(), 'transactional', 'Newest', 1 FROM app WHERE name = 'demo'";
    sqlx::raw_sql(newer).execute(&pool).await.unwrap();
    pool.close().await;
    let pill = "document.querySelector('.pill')?.textContent === '1 newer'";
    browser.until_true(&window, "the number of newer sends", pill).await;
    let first = "document.querySelector('tbody td.main').textContent";
    assert_ne!(browser.evaluate(&window, first).await, "Newest", "the list stands still");
    browser.evaluate(&window, "document.querySelector('.pill').click(); true").await;
    assert_eq!(browser.evaluate(&window, first).await, "Newest");
    assert_eq!(browser.evaluate(&window, "document.querySelector('.pill')").await, Value::Null);
}
