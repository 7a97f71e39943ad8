//! The look of the panel in screenshots: light and dark, on a wide screen and on a phone.

use reqwest::Method;
use serde_json::{Value, json};

use crate::browser::{Browser, VIEWS, View, Window, count, demo};
use crate::running::RunningProcess;

/// Colours of the panel, which the demo page does not change.
const LIGHT: [u8; 3] = [255, 255, 255];
const DARK: [u8; 3] = [28, 29, 33];

/// Shows 120 unread notifications.
const MANY_UNREAD: &str = "
    const { inbox } = document.querySelector('tidings-inbox');
    const snapshot = { ...inbox.getSnapshot(), unreadCount: 120 };
    document.querySelector('tidings-inbox').inbox = { ...inbox, getSnapshot: () => snapshot };";

/// Returns the left edges of the title, the first tab and the first item, which has an icon, and the last, whose icon cannot be loaded.
const EDGES: &str = "
    const left = (element) => {
      const range = document.createRange();
      range.selectNodeContents(element);
      return Math.round(range.getBoundingClientRect().left);
    };
    const icon = root.querySelector('li .image').getBoundingClientRect().left;
    const texts = [root.querySelector('h2'), root.querySelector('[role=tab]'), [...root.querySelectorAll('li .title')].at(-1)];
    return [...texts.map(left), Math.round(icon)];";

/// Returns the part of the bell that its badge covers, and whether the badge is inside the window.
const BADGE: &str = "
    const [bell, badge] = [root.querySelector('.bell svg'), root.querySelector('.badge')].map((element) => element.getBoundingClientRect());
    const width = Math.min(bell.right, badge.right) - Math.max(bell.left, badge.left);
    const height = Math.min(bell.bottom, badge.bottom) - Math.max(bell.top, badge.top);
    const covered = Math.max(0, width) * Math.max(0, height) / (bell.width * bell.height);
    return { text: root.querySelector('.badge').textContent, covered, isInside: badge.right <= innerWidth && badge.top >= 0 };";

/// Returns the choices of the open menu that cannot be clicked, because the window or another element covers them.
const COVERED: &str = "
    const choices = [...root.querySelectorAll('.menu button')].filter((choice) => choice.checkVisibility());
    const isFree = (choice) => {
      const { left, right, top, bottom } = choice.getBoundingClientRect();
      const corners = [[left + 4, top + 4], [right - 4, bottom - 4]];
      return corners.every(([x, y]) => choice.contains(root.elementFromPoint(x, y)));
    };
    return { choices: choices.length, covered: choices.filter((choice) => !isFree(choice)).length };";

/// Returns the icons that show although they could not be loaded.
const BROKEN: &str = "
    const images = [...root.querySelectorAll('li .image')].filter((image) => image.checkVisibility());
    return images.filter(({ complete, naturalWidth }) => complete && !naturalWidth).length;";

/// Returns a place in the header of the panel in which there is nothing but its background.
const BACKGROUND: &str = "
    const { left, top } = root.querySelector('.panel').getBoundingClientRect();
    return [Math.round(left) + 4, Math.round(top) + 24];";

/// Keeps a screenshot, and returns the colour at a place of it.
async fn picture(browser: &mut Browser, window: &Window, name: &str, view: View) -> Value {
    let place = browser.in_inbox(window, BACKGROUND).await;
    let picture = browser.keep_picture(window, name, view).await;
    let script = format!(
        "(async () => {{
          const bytes = Uint8Array.from(atob('{picture}'), (character) => character.charCodeAt(0));
          const image = await createImageBitmap(new Blob([bytes]));
          const canvas = new OffscreenCanvas(image.width, image.height).getContext('2d');
          canvas.drawImage(image, 0, 0);
          return [...canvas.getImageData({}, {}, 1, 1).data.slice(0, 3)];
        }})()",
        place[0], place[1]
    );
    browser.evaluate(window, &script).await
}

/// Sends three notifications: the first and oldest with an icon that does not exist, the last with one that does.
async fn fill(browser: &mut Browser, running: &RunningProcess, window: &Window) {
    for (number, icon) in [(1, "/nothing.png"), (2, "/nothing.png"), (3, "/icon.svg")] {
        let send = json!({
            "notification": {"title": format!("Order {number} is on its way"), "message": "It arrives on Friday.", "icon": icon},
            "override": {"channels": ["inApp"]},
            "sendTo": {"recipients": ["ada"]},
        });
        let (status, sent) = running.call(Method::POST, "/notifications", Some(&send)).await;
        assert_eq!(status, 202, "{sent}");
        browser.until(window, "the notification arrives", |snapshot| count(snapshot) == number).await;
    }
}

async fn open(browser: &mut Browser, window: &Window) {
    browser.evaluate(window, "document.querySelector('tidings-inbox').show()").await;
    let root = "document.querySelector('tidings-inbox').shadowRoot";
    let shown = format!(
        "{root}.querySelectorAll('li .image').length === 3
          && [...{root}.querySelectorAll('li .image')].filter((image) => !image.hidden && image.naturalWidth).length === 1
          && [...{root}.querySelectorAll('li .image')].filter((image) => image.hidden).length === 2
          && {root}.querySelector('.panel').getAnimations().length === 0"
    );
    browser.until_true(window, "the list shows", &shown).await;
}

#[tokio::test]
async fn the_panel_has_one_left_edge_whole_menus_no_broken_icons_and_the_colours_of_its_page() {
    let (running, _files) = demo().await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open("ada").await;
    fill(&mut browser, &running, &window).await;
    for view in VIEWS {
        browser.look(&window, view).await;
        open(&mut browser, &window).await;
        let expected = json!(if view.1 == "dark" { DARK } else { LIGHT });
        assert_eq!(picture(&mut browser, &window, "list", view).await, expected, "{view:?}");
        let edges = browser.in_inbox(&window, EDGES).await;
        let edges = edges.as_array().unwrap();
        assert!(edges.iter().all(|edge| *edge == edges[0]), "{view:?}: {edges:?}");

        // An icon that could not be loaded stays hidden when its item changes.
        let toggle = "[...root.querySelectorAll('li .toggle')].at(-1).click()";
        let is_read = browser.evaluate(&window, crate::browser::SNAPSHOT).await["unreadCount"] == 2;
        browser.in_inbox(&window, toggle).await;
        let unread = if is_read { 3 } else { 2 };
        browser.until(&window, "the item changes", |snapshot| snapshot["unreadCount"] == unread).await;
        assert_eq!(browser.in_inbox(&window, BROKEN).await, 0, "{view:?}");

        browser.in_inbox(&window, "[...root.querySelectorAll('li .hide')].at(-1).click()").await;
        let menu =
            "document.querySelector('tidings-inbox').shadowRoot.querySelector('.menu button:focus') !== null";
        browser.until_true(&window, "the menu opens", menu).await;
        let choices = if view.0 < 500 { 6 } else { 4 };
        assert_eq!(
            browser.in_inbox(&window, COVERED).await,
            json!({"choices": choices, "covered": 0}),
            "{view:?}"
        );
        picture(&mut browser, &window, "menu", view).await;
        browser.press(&window, "Escape").await;
    }
}

#[tokio::test]
async fn a_page_without_dark_mode_has_a_light_panel_and_many_unread_items_leave_the_bell_visible() {
    let (running, _files) = demo().await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open("ada").await;
    fill(&mut browser, &running, &window).await;
    browser.evaluate(&window, "document.documentElement.style.colorScheme = 'normal'").await;
    for view in VIEWS {
        browser.look(&window, view).await;
        open(&mut browser, &window).await;
        assert_eq!(picture(&mut browser, &window, "light-page", view).await, json!(LIGHT), "{view:?}");
    }
    browser.in_inbox(&window, MANY_UNREAD).await;
    for view in VIEWS {
        browser.look(&window, view).await;
        let badge = browser.in_inbox(&window, BADGE).await;
        let covered = badge["covered"].as_f64().unwrap();
        assert_eq!((&badge["text"], &badge["isInside"]), (&json!("99+"), &json!(true)), "{view:?}");
        assert!(covered < 0.25, "{view:?}: the badge covers {covered} of the bell");
    }
}
