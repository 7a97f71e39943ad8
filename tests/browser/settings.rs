//! The settings of `clients/inbox`: a table with a switch for each category and channel.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::eventually;

use crate::browser::{Browser, SOON, VIEWS, Window, demo};
use crate::running::RunningProcess;

/// Returns the texts of the headings, of the columns and of the rows.
const HEADINGS: &str = "return [...root.querySelectorAll('th')].map(({ textContent }) => textContent)";

/// Returns the number of switches, the largest distance in pixels between the centre of a switch and that of the heading above it, and
/// by how much the table is too wide.
const PLACES: &str = "
    const centre = (element) => {
      const range = document.createRange();
      range.selectNodeContents(element);
      const { left, right } = range.getBoundingClientRect();
      return (left + right) / 2;
    };
    const headings = [...root.querySelectorAll('thead th')];
    const distances = [...root.querySelectorAll('tbody tr')].flatMap((row) =>
      [...row.querySelectorAll('label')].map((label, column) => Math.abs(centre(label) - centre(headings[column]))));
    const { scrollWidth, clientWidth } = root.querySelector('.preferences');
    return { switches: distances.length, distance: Math.max(...distances), surplus: scrollWidth - clientWidth };";

/// Opens the settings, and waits for the table.
async fn open_settings(browser: &mut Browser, window: &Window) {
    browser.in_inbox(window, "root.querySelector('.bell').click()").await;
    let button = "document.querySelector('tidings-inbox').shadowRoot.querySelector('.bar .settings')";
    browser.until_true(window, "the panel is loaded", &format!("{button} !== null")).await;
    browser.evaluate(window, &format!("{button}.click()")).await;
    let table = "document.querySelector('tidings-inbox').shadowRoot.querySelector('table') !== null";
    browser.until_true(window, "the settings are loaded", table).await;
}

/// Waits until the user has these preferences for emails: pairs of a category and whether it sends emails.
async fn has_choices(running: &RunningProcess, expected: &[(&str, bool)]) {
    eventually(SOON, "the choices are stored", async || {
        let (_, preferences) = running.get_as("ada", "/preferences").await;
        let choices = preferences.as_array().unwrap().iter().flat_map(|preference| {
            let category = preference["category"]["identifier"].as_str().unwrap();
            let channels = preference["channels"].as_array().unwrap().iter();
            channels
                .filter(|choice| choice["channel"] == "email")
                .map(move |choice| (category, choice["enabled"].as_bool().unwrap()))
        });
        (choices.collect::<Vec<_>>() == expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn settings_are_a_table_with_names_and_turn_off_all_emails() {
    let (running, _files) = demo().await;
    let named = json!({"identifier": "orders", "name": "Orders & <b>returns</b>"});
    assert_eq!(running.call(Method::POST, "/categories", Some(&named)).await.0, 200);
    // A category that only has an identifier is shown as words.
    let plain = json!({"identifier": "comments-and-mentions", "name": "comments-and-mentions"});
    assert_eq!(running.call(Method::POST, "/categories", Some(&plain)).await.0, 200);
    let mut browser = Browser::start(&running).await;
    let window = browser.open("ada").await;
    open_settings(&mut browser, &window).await;

    let headings = json!([
        "Inbox",
        "Email",
        "Browser push",
        "Mobile push",
        "SMS",
        "All categories",
        "Orders & <b>returns</b>",
        "Comments and mentions",
    ]);
    assert_eq!(browser.in_inbox(&window, HEADINGS).await, headings);
    for view in VIEWS {
        browser.look(&window, view).await;
        let places = browser.in_inbox(&window, PLACES).await;
        let off = places["distance"].as_f64().unwrap();
        assert_eq!((&places["switches"], &places["surplus"]), (&json!(15), &json!(0)), "{view:?}");
        assert!(off < 1.0, "{view:?}: a switch is {off} px beside its heading");
    }
    browser.has_no_findings_of_axe(&window).await;

    let emails = "[...root.querySelectorAll('tbody tr')].map((row) => row.querySelectorAll('input')[1])";
    let states = format!("return {emails}.map((box) => box.indeterminate ? 'some' : box.checked)");
    let click = |row: usize| format!("{emails}[{row}].click()");
    browser.in_inbox(&window, &click(0)).await;
    assert_eq!(browser.in_inbox(&window, &states).await, json!([false, false, false]));
    has_choices(&running, &[("orders", false), ("comments-and-mentions", false)]).await;
    browser.in_inbox(&window, &click(2)).await;
    assert_eq!(browser.in_inbox(&window, &states).await, json!(["some", false, true]));
    has_choices(&running, &[("orders", false), ("comments-and-mentions", true)]).await;

    reverts_when_the_server_refuses(&mut browser, &window, &click(0), &states).await;
    has_choices(&running, &[("orders", false), ("comments-and-mentions", true)]).await;
}

/// Checks that a choice shows its old state again if its call fails.
async fn reverts_when_the_server_refuses(browser: &mut Browser, window: &Window, click: &str, states: &str) {
    browser.call(window, "Network.enable", json!({})).await;
    browser.call(window, "Network.setBlockedURLs", json!({"urls": ["*/v3/preferences"]})).await;
    browser.in_inbox(window, click).await;
    let chromium = &mut browser.chromium;
    let note = "document.querySelector('tidings-inbox').shadowRoot.querySelector('.note')";
    let script = format!("!{note}.hidden && {note}.textContent === 'The change could not be saved'");
    eventually(SOON, "the failure shows", async || {
        (chromium.evaluate(&window.session, &script).await == Value::Bool(true)).then_some(())
    })
    .await;
    assert_eq!(browser.in_inbox(window, states).await, json!(["some", false, true]));
    browser.call(window, "Network.setBlockedURLs", json!({"urls": []})).await;
}

#[tokio::test]
async fn a_critical_category_is_shown_as_locked() {
    let (running, _files) = demo().await;
    for (identifier, critical) in [("codes", true), ("news", false)] {
        let category = json!({"identifier": identifier, "name": identifier, "critical": critical});
        assert_eq!(running.call(Method::POST, "/categories", Some(&category)).await.0, 200);
    }
    let mut browser = Browser::start(&running).await;
    let window = browser.open("ada").await;
    open_settings(&mut browser, &window).await;
    let rows = "return [...root.querySelectorAll('tbody tr')].map((row) => [row.querySelector('th').textContent,
      ...new Set([...row.querySelectorAll('input')].map(({ checked, disabled }) => `${checked} ${disabled}`))])";
    let expected = json!([["CodesAlways on", "true true"], ["News", "true false"]]);
    assert_eq!(browser.in_inbox(&window, rows).await, expected);
    browser.has_no_findings_of_axe(&window).await;
}

#[tokio::test]
async fn settings_mute_a_topic_on_one_channel() {
    let (running, _files) = demo().await;
    for topic in ["news", "offers"] {
        let open = json!({"name": topic, "open": true});
        assert_eq!(running.call(Method::PUT, &format!("/topics/{topic}"), Some(&open)).await.0, 200);
    }
    let subscribed = json!({"users": [{"identifier": "ada", "channels": ["inApp", "email", "push"]}]});
    assert_eq!(running.call(Method::POST, "/topics/news/users", Some(&subscribed)).await.0, 200);
    let mut browser = Browser::start(&running).await;
    let window = browser.open("ada").await;
    open_settings(&mut browser, &window).await;
    assert_eq!(
        browser.in_inbox(&window, "return root.querySelector('.preferences h3').textContent").await,
        "Topics"
    );
    let rows = "[...root.querySelectorAll('table.topics tbody:last-child tr')].map((row) => [...row.querySelectorAll('input')])";
    let states = format!("return {rows}.map((row) => row.map(({{ checked }}) => checked))");
    let none = [false; 5];
    assert_eq!(browser.in_inbox(&window, &states).await, json!([[true, true, true, true, false], none]));
    browser.has_no_findings_of_axe(&window).await;

    // The second switch is that of emails. The second topic gets its first channel, which subscribes the user.
    browser.in_inbox(&window, &format!("{rows}[0][1].click(); {rows}[1][0].click()")).await;
    let shown = json!([[true, false, true, true, false], [true, false, false, false, false]]);
    assert_eq!(browser.in_inbox(&window, &states).await, shown);
    for (topic, channels) in
        [("news", json!(["inApp", "webPush", "mobilePush"])), ("offers", json!(["inApp"]))]
    {
        eventually(SOON, "the channels are stored", async || {
            let (_, own) = running.get_as("ada", &format!("/topics/{topic}/subscription")).await;
            (own["channels"] == channels).then_some(())
        })
        .await;
    }
}
