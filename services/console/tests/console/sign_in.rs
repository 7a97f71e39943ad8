use reqwest::header::LOCATION;
use reqwest::{Method, StatusCode};
use service_kit::config::Oidc;

use crate::fixture::{TestConsole, token_of};

const PASSWORD: &str = "vier alte Katzen am Fluss";

/// Returns the code of a new link for the first operator.
async fn first_code(console: &TestConsole) -> String {
    let sign_ins = operations::operators::SignIns::new(console.installation.context.store.clone()).unwrap();
    sign_ins.first_code().await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_link_creates_one_administrator_who_signs_in_with_a_password() {
    let console = TestConsole::start(|_| {}).await;
    console.installation.app("shop").await;
    let code = first_code(&console).await;
    let page = console.page(&format!("/welcome?code={code}"), "").await;
    assert!(page.contains("Create the first operator"), "{page}");
    let weak = console
        .form("/welcome", &[("code", &code), ("email", "ada@example.com"), ("password", "password1234")])
        .await;
    assert_eq!(weak.status(), StatusCode::BAD_REQUEST);
    assert!(weak.text().await.unwrap().contains("easy to guess"));

    let fields = [("code", code.as_str()), ("email", "Ada@Example.com"), ("password", PASSWORD)];
    let created = console.form("/welcome", &fields).await;
    assert_eq!(created.status(), StatusCode::SEE_OTHER);
    let cookie = created.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Lax; Max-Age=604800"), "{cookie}");
    assert!(console.page("/apps", &token_of(&created)).await.contains("ada@example.com"));
    let again = console.form("/welcome", &fields).await;
    assert_eq!(again.status(), StatusCode::NOT_FOUND, "a code is used once");

    let signed_in = console
        .form("/sign-in", &[("email", "ada@example.com"), ("password", PASSWORD), ("next", "/apps/shop")])
        .await;
    assert_eq!(
        (signed_in.status(), &signed_in.headers()[LOCATION]),
        (StatusCode::SEE_OTHER, &"/apps/shop".parse().unwrap())
    );
    let token = token_of(&signed_in);
    assert!(console.page("/apps/shop", &token).await.contains("All apps"));
    let out = console.call(Method::POST, "/sign-out").header("cookie", format!("tidings-console={token}"));
    assert_eq!(out.send().await.unwrap().status(), StatusCode::SEE_OTHER);
    assert_eq!(console.get("/apps", &token).await.status(), StatusCode::SEE_OTHER);
    let stored = console
        .installation
        .count("SELECT count(*) FROM operator WHERE password LIKE '$argon2id$v=19$m=19456,t=2,p=1$%'");
    assert_eq!(stored.await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_uses_of_a_link_at_the_same_time_create_one_operator() {
    let console = TestConsole::start(|_| {}).await;
    let code = first_code(&console).await;
    let other = first_code(&console).await;
    let fields = |code: &str, email: &str| {
        [("code", code.to_owned()), ("email", email.to_owned()), ("password", PASSWORD.to_owned())]
    };
    let use_link = async |code: &str, email: &str| {
        let fields = fields(code, email);
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        console.form("/welcome", &fields).await.status()
    };
    let (one, two, three) = tokio::join!(
        use_link(&code, "ada@example.com"),
        use_link(&code, "bob@example.com"),
        use_link(&other, "eve@example.com"),
    );
    let created = [one, two, three].iter().filter(|status| **status == StatusCode::SEE_OTHER).count();
    assert_eq!(
        (created, console.installation.count("SELECT count(*) FROM operator").await),
        (1, 1),
        "{one} {two} {three}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_an_unknown_account_get_the_same_answer_until_the_tries_are_used_up() {
    let console = TestConsole::start(|_| {}).await;
    let code = first_code(&console).await;
    console.form("/welcome", &[("code", &code), ("email", "ada@example.com"), ("password", PASSWORD)]).await;
    let mut texts = Vec::new();
    for email in ["ada@example.com", "eve@example.com"] {
        for _ in 0..5 {
            let answer =
                console.form("/sign-in", &[("email", email), ("password", "wrong password 1")]).await;
            assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{email}");
            texts.push(answer.text().await.unwrap().replace(email, "EMAIL"));
        }
        let answer = console.form("/sign-in", &[("email", email), ("password", PASSWORD)]).await;
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS, "{email}");
        assert_eq!(answer.headers()["retry-after"], "60");
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");
    let mut last = StatusCode::OK;
    for number in 0..20 {
        let email = format!("user{number}@example.com");
        // A password that is too long is refused without hashing it.
        last = console.form("/sign-in", &[("email", &email), ("password", &"x".repeat(200))]).await.status();
    }
    assert_eq!(last, StatusCode::TOO_MANY_REQUESTS, "an address has 20 tries a minute");
}

fn provider() -> Oidc {
    Oidc {
        issuer: "http://127.0.0.1:1".to_owned(),
        client_id: "tidings".to_owned(),
        client_secret_file: None,
        scopes: vec!["openid".to_owned()],
        role_claim: None,
        role_map: Vec::new(),
        allowed_domains: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_passwords_links_sign_in_and_the_form_is_refused() {
    let console = TestConsole::start(|config| {
        config.console.passwords = false;
        config.console.oidc = Some(provider());
    })
    .await;
    let page = console.page("/sign-in?next=/apps", "").await;
    assert!(page.contains("/sign-in/oidc?next=%2Fapps") && !page.contains("type=\"password\""), "{page}");
    let code = first_code(&console).await;
    let page = console.page(&format!("/welcome?code={code}"), "").await;
    assert!(!page.contains("type=\"password\""), "{page}");
    let created = console.form("/welcome", &[("code", &code), ("email", "ada@example.com")]).await;
    let token = token_of(&created);
    assert!(console.page("/account", &token).await.contains("by link"));
    let page = console.page("/account", &token).await;
    assert!(!page.contains("New password"), "{page}");
    let refused = console.form("/sign-in", &[("email", "ada@example.com"), ("password", PASSWORD)]).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    assert!(refused.text().await.unwrap().contains("is turned off here"));
    let changed = console.change("/account/password", &token, &[("new", PASSWORD)]).await;
    assert_eq!(changed.status(), StatusCode::FORBIDDEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_sites_use_up_no_tries_and_sign_ins_by_a_provider_none_of_passwords() {
    let console = TestConsole::start(|config| config.console.oidc = Some(provider())).await;
    let open = async |site: &str, path: &str| {
        console.call(Method::GET, path).header("sec-fetch-site", site).send().await.unwrap()
    };
    for _ in 0..21 {
        let answer = open("cross-site", "/sign-in/oidc?next=%2Fapps").await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(!answer.headers().contains_key("set-cookie"), "no sign-in begins");
        let page = answer.text().await.unwrap();
        assert!(
            page.contains("Sign in to the console") && page.contains("/sign-in/oidc?next=%2Fapps"),
            "{page}"
        );
        let answer = open("cross-site", "/sign-in/oidc/callback?code=x&state=y").await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    }
    for _ in 0..20 {
        assert_eq!(open("same-origin", "/sign-in/oidc").await.status(), StatusCode::BAD_GATEWAY);
    }
    assert_eq!(open("same-origin", "/sign-in/oidc").await.status(), StatusCode::TOO_MANY_REQUESTS);
    let wrong = [("email", "ada@example.com"), ("password", "wrong password 1")];
    assert_eq!(console.form("/sign-in", &wrong).await.status(), StatusCode::FORBIDDEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_by_a_provider_fails_with_its_cause_and_begins_in_this_browser_only() {
    let console = TestConsole::start(|config| config.console.oidc = Some(provider())).await;
    let page = console.page("/sign-in", "").await;
    assert!(page.contains("Sign in with your identity provider") && page.contains("type=\"password\""));
    for (path, cookie, status, cause) in [
        ("/sign-in/oidc", "", StatusCode::BAD_GATEWAY, "cannot be reached"),
        ("/sign-in/oidc/callback?code=x&state=y", "", StatusCode::BAD_REQUEST, "began in another browser"),
        (
            "/sign-in/oidc/callback?code=x&state=y",
            "tidings-console-oidc=0123456789012345678901234567890123456789012.0.x",
            StatusCode::BAD_REQUEST,
            "began in another browser",
        ),
    ] {
        let answer = console.call(Method::GET, path).header("cookie", cookie).send().await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
        let text = answer.text().await.unwrap();
        assert!(text.contains(cause) && text.contains("Sign in to the console"), "{path}: {text}");
    }
    let without = TestConsole::start(|_| {}).await;
    assert_eq!(without.get("/sign-in/oidc", "").await.status(), StatusCode::NOT_FOUND);
    assert!(!without.page("/sign-in", "").await.contains("identity provider"));
}
