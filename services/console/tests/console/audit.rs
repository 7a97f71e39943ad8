//! The audit log on its pages.

use domain::Role;

use crate::fixture::TestConsole;

/// An app `shop` with rows of the audit log, and the app `bank`.
async fn filled() -> (TestConsole, String) {
    let console = TestConsole::start(|_| {}).await;
    console.installation.app("shop").await;
    console.installation.app("bank").await;
    let admin = console.operator(Role::Admin, None).await;
    let rows = "INSERT INTO audit (app_id, at, actor, actor_kind, action, subject, before, after, ip)
         SELECT a.id, v.at, v.actor, 'cli', v.action, v.subject, v.before, v.after, v.ip FROM app a, (VALUES
           (now() - interval '3 days', 'cli:eve', 'provider.disable', 'email-main', NULL::jsonb, NULL::jsonb, NULL),
           (now(), 'operator:' || (SELECT id FROM operator), 'app.set', 'max-users', '{\"maxUsers\": 5}', '{\"maxUsers\": 9}', '192.0.2.7'))
           AS v (at, actor, action, subject, before, after, ip) WHERE name = 'shop'";
    console.installation.run(rows).await;
    (console, admin)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_filtered_by_action_actor_app_since_and_words() {
    let (console, admin) = filled().await;
    for (search, disabled, set) in [
        ("", true, true),
        ("?q=action:provider.disable", true, false),
        ("?action=app.set", false, true),
        ("?q=actor:admin-all@example.com", false, true),
        ("?q=actor:cli:eve", true, false),
        ("?q=since:2d", false, true),
        ("?q=EMAIL-main", true, false),
        ("?q=app:shop", true, true),
        ("?q=app:bank", false, false),
        ("?before=1", false, false),
    ] {
        let page = console.page(&format!("/audit{search}"), &admin).await;
        let found = (page.contains("disabled the provider"), page.contains("maxUsers: 5 → 9"));
        assert_eq!(found, (disabled, set), "{search}: {page}");
    }
    let page = console.page("/audit?q=acton:x+action:provider.disabl+app:none+since:x", &admin).await;
    for problem in [
        "Did you mean action: ?",
        "Did you mean action:provider.disable ?",
        "app:none does not exist",
        "since:x is not",
    ] {
        assert!(page.contains(problem), "{problem}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_an_app_has_its_rows_only_and_continues_after_50() {
    let (console, _) = filled().await;
    let bank: i64 = sqlx::query_scalar("SELECT id FROM app WHERE name = 'bank'")
        .fetch_one(&console.installation.pool)
        .await
        .unwrap();
    let admin = console.operator(Role::Admin, Some(domain::AppId(bank))).await;
    let many = "INSERT INTO audit (app_id, actor, action, subject)
         SELECT id, 'cli:ada', 'template.put', 'welcome-' || n FROM app, generate_series(1, 60) AS n WHERE name = 'bank'";
    console.installation.run(many).await;
    let page = console.page("/apps/bank/audit", &admin).await;
    assert!(
        page.contains("welcome-60") && page.contains("welcome-11<") && !page.contains("welcome-10<"),
        "{page}"
    );
    assert!(!page.contains("email-main"), "{page}");
    let older = page.split("rel=\"next\"").next().unwrap().rsplit("href=\"").next().unwrap();
    let older = older.split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&");
    let page = console.page(&older, &admin).await;
    assert!(
        page.contains("welcome-10<") && page.contains("created the app") && !page.contains("rel=\"next\"")
    );
}
