//! Signing in to the console by an OpenID provider: `oidc-provider`, a certified server for Node.js.

use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use sqlx::PgPool;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::browser::{Browser, Window};
use crate::running::RunningProcess;

/// Starts the provider, which ends when the value is dropped.
async fn provider(port: u16, redirect_uri: &str) -> Child {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let modules = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../node/node_modules").canonicalize();
    let mut child = Command::new("node")
        .arg(folder.join("browser/oidc-provider.mjs"))
        .arg(modules.expect("run `cargo xtask test --test browser` once"))
        .args([&port.to_string(), redirect_uri])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line == "listening" {
            return child;
        }
    }
    panic!("the provider ended");
}

/// A console whose operators sign in by the provider only.
async fn running(issuer: &str) -> (RunningProcess, TempDir) {
    let files = tempfile::Builder::new().prefix("tidings-browser-").tempdir().unwrap();
    let secret = files.path().join("secret");
    std::fs::write(&secret, "a+b/c% d\n").unwrap();
    let variables = [
        ("TIDINGS_CONSOLE__PASSWORDS", "false"),
        ("TIDINGS_CONSOLE__OIDC__ISSUER", issuer),
        ("TIDINGS_CONSOLE__OIDC__CLIENT_ID", "tidings console"),
        ("TIDINGS_CONSOLE__OIDC__CLIENT_SECRET_FILE", secret.to_str().unwrap()),
        ("TIDINGS_CONSOLE__OIDC__SCOPES", "openid,email,groups"),
        ("TIDINGS_CONSOLE__OIDC__ROLE_CLAIM", "groups"),
        ("TIDINGS_CONSOLE__OIDC__ROLE_MAP", "ops=admin,guests=viewer@demo"),
        ("TIDINGS_CONSOLE__OIDC__ALLOWED_DOMAINS", "example.com"),
    ];
    (RunningProcess::start_with(&files.path().join("data"), &variables).await, files)
}

async fn go(browser: &mut Browser, window: &Window, url: &str) {
    browser.call(window, "Page.navigate", json!({"url": url})).await;
    let loaded = format!("document.readyState === 'complete' && location.href.startsWith('{url}')");
    browser.until_true(window, url, &loaded).await;
}

/// Follows the link to the provider, and signs in there with a name.
async fn sign_in_as(browser: &mut Browser, window: &Window, name: &str) {
    browser
        .until_true(window, "the form of the provider", "document.querySelector('[name=login]') !== null")
        .await;
    let fill = format!(
        "document.querySelector('[name=login]').value = '{name}'; document.querySelector('[name=password]').value = 'any'; \
         document.querySelector('form').requestSubmit(); true"
    );
    browser.evaluate(window, &fill).await;
}

async fn consent(browser: &mut Browser, window: &Window) {
    // The page of the provider loads a font from elsewhere, so it may never be complete.
    let asked =
        "document.querySelector('[name=prompt][value=consent]')?.form?.querySelector('button') != null";
    browser.until_true(window, "the consent", asked).await;
    browser.evaluate(window, "document.querySelector('form').requestSubmit(); true").await;
}

async fn until_text(browser: &mut Browser, window: &Window, text: &str) {
    let shown = format!("document.readyState === 'complete' && document.body.textContent.includes('{text}')");
    browser.until_true(window, text, &shown).await;
}

async fn click(browser: &mut Browser, window: &Window, text: &str) {
    let click = format!(
        "[...document.querySelectorAll('a, button')].find((it) => it.textContent.trim().startsWith('{text}')).click(); true"
    );
    browser.evaluate(window, &click).await;
}

#[tokio::test]
async fn operators_sign_in_by_an_openid_provider_with_the_roles_of_their_groups() {
    let port = local_servers::port::free().unwrap();
    let (running, _files) = running(&format!("http://127.0.0.1:{port}")).await;
    let console = running.dev("console").split("/welcome").next().unwrap().to_owned();
    let _provider = provider(port, &format!("{console}/sign-in/oidc/callback")).await;
    let mut browser = Browser::start(&running).await;
    let window = &browser.open_url("about:blank").await;
    let browser = &mut browser;

    go(browser, window, &format!("{console}/sign-in?next=%2Foperators")).await;
    until_text(browser, window, "Sign in to the console").await;
    assert_eq!(browser.evaluate(window, "document.querySelector('[type=password]')").await, json!(null));
    click(browser, window, "Sign in").await;
    sign_in_as(browser, window, "ada").await;
    consent(browser, window).await;
    until_text(browser, window, "ada@example.com").await;
    assert_eq!(browser.evaluate(window, "location.pathname").await, "/operators", "the page that was wanted");
    go(browser, window, &format!("{console}/account")).await;
    until_text(browser, window, "by your identity provider").await;

    // An old authentication confirms no step. Signing in again leads back to the form.
    let pool = PgPool::connect(running.dev("databaseUrl")).await.unwrap();
    let old = "UPDATE operator_session SET authenticated_at = now() - interval '1 hour'";
    sqlx::raw_sql(old).execute(&pool).await.unwrap();
    let grant = "document.querySelector('[name=role]').value = 'viewer'; document.querySelector('main form').requestSubmit(); true";
    go(browser, window, &format!("{console}/operators/ada%40example.com/grant")).await;
    browser.evaluate(window, grant).await;
    until_text(browser, window, "This needs a sign-in of the last ten minutes.").await;
    browser.evaluate(window, "document.querySelector('.account summary').click(); true").await;
    click(browser, window, "Sign in again").await;
    sign_in_as(browser, window, "ada").await;
    until_text(browser, window, "Give ada@example.com a role").await;
    browser.evaluate(window, grant).await;
    until_text(browser, window, "Sign in to the console").await;
    let roles = "SELECT string_agg(role || ' ' || by_claim, ', ' ORDER BY role) FROM operator_grant g
         JOIN operator o ON o.id = g.operator_id WHERE email = 'ada@example.com'";
    let roles: String = sqlx::query_scalar(roles).fetch_one(&pool).await.unwrap();
    assert_eq!(roles, "admin true, viewer false", "roles by hand stay beside those by claim");
    pool.close().await;

    for (name, refusal) in
        [("eve", "has not verified your email address"), ("bob", "You are not an operator here")]
    {
        browser.call(window, "Network.clearBrowserCookies", json!({})).await;
        go(browser, window, &format!("{console}/sign-in")).await;
        click(browser, window, "Sign in").await;
        sign_in_as(browser, window, name).await;
        consent(browser, window).await;
        until_text(browser, window, refusal).await;
    }
    go(browser, window, &format!("{console}/sign-in/oidc/callback?code=stolen&state=guessed")).await;
    until_text(browser, window, "began in another browser").await;
}
