//! The pages of `/docs` and `/guide`: accessibility, search, and credentials in examples.

use serde_json::json;

use crate::browser::{Browser, VIEWS, demo};

const LOADED: &str =
    "document.readyState === 'complete' && document.documentElement.classList.contains('js')";

#[tokio::test]
async fn axe_finds_nothing_in_the_documentation() {
    let (running, _files) = demo().await;
    let mut browser = Browser::start(&running).await;
    for path in ["/docs", "/guide", "/guide/api", "/guide/inbox", "/guide/operating"] {
        let window = browser.open_url(&format!("{}{path}", running.dev("api"))).await;
        browser.until_true(&window, "the page is open", LOADED).await;
        browser.has_no_findings_of_axe(&window).await;
        for width in [1280, 390] {
            browser.look(&window, (width, "light")).await;
            let overflows = "document.documentElement.scrollWidth > innerWidth";
            assert_eq!(browser.evaluate(&window, overflows).await, false, "{path} at {width} px");
        }
        let blocked = browser.evaluate(&window, "violations").await;
        assert_eq!(blocked, json!([]), "{path}: the content security policy blocks nothing");
    }
}

#[tokio::test]
async fn tables_and_pictures_fit_on_a_phone() {
    let (running, _files) = demo().await;
    let mut browser = Browser::start(&running).await;
    for path in ["/guide/statuses", "/guide", "/guide/limits", "/guide/app-settings"] {
        let window = browser.open_url(&format!("{}{path}", running.dev("api"))).await;
        browser.until_true(&window, "the page is open", LOADED).await;
        for view in VIEWS {
            browser.look(&window, view).await;
            let cut = "[...document.querySelectorAll('.stacked')].filter((table) => table.scrollWidth > table.clientWidth)
                .map((table) => table.textContent.trim().slice(0, 60))";
            // A wide window shows all but the widest tables, which scroll.
            if view.0 == 390 || path == "/guide/statuses" {
                assert_eq!(browser.evaluate(&window, cut).await, json!([]), "{path} {view:?}");
            }
            browser.keep_picture(&window, &path.trim_start_matches('/').replace('/', "-"), view).await;
        }
        browser.look(&window, (390, "light")).await;
        let widths =
            "Math.min(390, ...[...document.querySelectorAll('main img')].map((image) => image.clientWidth))";
        assert!(browser.evaluate(&window, widths).await.as_f64().unwrap() > 300.0, "{path}");
    }
}

#[tokio::test]
async fn the_search_shows_as_many_results_as_it_says() {
    let (running, _files) = demo().await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open_url(&format!("{}/guide", running.dev("api"))).await;
    browser.until_true(&window, "the page is open", LOADED).await;
    browser.press(&window, "/").await;
    browser.until_true(&window, "the search has the focus", "document.activeElement.type === 'search'").await;
    for letter in ["u", "s", "e", "r"] {
        browser.press(&window, letter).await;
    }
    browser
        .until_true(&window, "the results show", "document.querySelectorAll('.found a').length === 12")
        .await;
    let status = browser.evaluate(&window, "document.querySelector('.found p').textContent").await;
    assert!(status.as_str().unwrap().starts_with("The first 12 of "), "{status}");
    for view in VIEWS {
        browser.look(&window, view).await;
        let shown = "[...document.querySelectorAll('.found a')]
            .filter((link) => link.getBoundingClientRect().bottom <= innerHeight).length";
        assert_eq!(browser.evaluate(&window, shown).await, 12, "{view:?}");
        browser.keep_picture(&window, "search", view).await;
    }
    browser.has_no_findings_of_axe(&window).await;
}

#[tokio::test]
async fn the_search_finds_an_operation_and_opens_it_by_keyboard() {
    let (running, _files) = demo().await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open_url(&format!("{}/guide", running.dev("api"))).await;
    browser.until_true(&window, "the page is open", LOADED).await;
    browser.press(&window, "/").await;
    browser.until_true(&window, "the search has the focus", "document.activeElement.type === 'search'").await;
    for letter in ["c", "a", "n", "c", "e", "l"] {
        browser.press(&window, letter).await;
    }
    let first = "document.querySelector('.found a')?.getAttribute('href').startsWith('/docs#cancelRequest')";
    browser.until_true(&window, "the operation is the first result", first).await;
    browser.has_no_findings_of_axe(&window).await;
    // The page stays, because a script cannot run while it is replaced.
    let stay = "addEventListener('click', (event) => { window.clicked = event.target.closest('a')?.href; event.preventDefault(); }, true)";
    browser.evaluate(&window, stay).await;
    browser.press(&window, "ArrowDown").await;
    browser.press(&window, "Enter").await;
    let opened = "window.clicked?.includes('/docs#cancelRequest')";
    browser.until_true(&window, "the operation is opened", opened).await;
}

#[tokio::test]
async fn examples_have_the_credentials_of_the_link_and_the_address_does_not() {
    let (running, _files) = demo().await;
    let mut browser = Browser::start(&running).await;
    let docs = format!("{}/docs", running.dev("api"));
    let window = browser.open_url(&format!("{docs}#KEY=ak_1&SECRET=as_2&USER=ada")).await;
    browser.until_true(&window, "the page is open", LOADED).await;
    assert_eq!(browser.evaluate(&window, "location.href").await, docs);
    let command = "document.querySelector('#cancelRequest pre').textContent";
    let shown = browser.evaluate(&window, command).await;
    let shown = shown.as_str().unwrap();
    assert!(shown.contains("API-KEY: ak_1\"") && shown.contains("API-SECRET: as_2\""), "{shown}");
    assert!(shown.starts_with(&format!("curl -X DELETE \"{}/v3/requests/", running.dev("api"))), "{shown}");
    let other = browser.open_url(&docs).await;
    browser.until_true(&other, "the page is open", LOADED).await;
    let shown = browser.evaluate(&other, command).await;
    assert!(shown.as_str().unwrap().contains("$SECRET"), "another tab does not know them: {shown}");
}
