//! The hands of a person at a window: clicks with the mouse, and presses of keys.

use reqwest::Url;
use serde_json::{Value, json};
use testkit::eventually;

use crate::browser::{Browser, SOON, Window};

/// Presses of Tab after which a page counts as one without the element.
const MOST_TABS: usize = 120;
/// Script that returns the middle of the first visible element of a list, or null if something else is in front of it.
const MIDDLE: &str = "((found) => {
    const it = found.find((it) => it.checkVisibility());
    if (!it || document.readyState !== 'complete') return null;
    it.scrollIntoView({block: 'center', behavior: 'instant'});
    const box = it.getClientRects()[0];
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    return it.contains(document.elementFromPoint(x, y)) ? [x, y] : null;
  })";

impl Browser {
    /// Opens a window without the cookies of the others, as if it were the browser of another person.
    pub(crate) async fn open_apart(&mut self) -> Window {
        let context = self.chromium.call("Target.createBrowserContext", json!({}), None).await;
        let place = json!({"url": "about:blank", "browserContextId": context["browserContextId"]});
        let target = self.chromium.call("Target.createTarget", place, None).await["targetId"].clone();
        let target = target.as_str().unwrap().to_owned();
        let session = self.chromium.attach(&target).await;
        self.chromium.call("Page.enable", json!({}), Some(&session)).await;
        Window { target, session }
    }

    /// Turns scripts of pages on or off. Those of the test run anyway.
    pub(crate) async fn run_scripts(&mut self, window: &Window, run: bool) {
        self.call(window, "Emulation.setScriptExecutionDisabled", json!({"value": !run})).await;
    }

    async fn click_middle(&mut self, window: &Window, what: &str, found: &str) {
        let middle = format!("{MIDDLE}({found})");
        let chromium = &mut self.chromium;
        let place = eventually(SOON, what, async || {
            Some(chromium.evaluate(&window.session, &middle).await).filter(|place| !place.is_null())
        })
        .await;
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.call(window, "Input.dispatchMouseEvent", event).await;
        }
    }

    /// Clicks the first link or button whose text begins with these words, apart from signs that only repeat a status.
    pub(crate) async fn click(&mut self, window: &Window, text: &str) {
        let words = "(it) => { const copy = it.cloneNode(true); copy.querySelectorAll('[aria-hidden]').forEach((sign) => sign.remove()); return copy.textContent.trim(); }";
        let found = format!(
            "[...document.querySelectorAll('a, button, summary')].filter((it) => ({words})(it).startsWith({}))",
            json!(text)
        );
        self.click_middle(window, text, &found).await;
    }

    /// Clicks the first element that matches a selector.
    pub(crate) async fn click_on(&mut self, window: &Window, selector: &str) {
        let found = format!("[...document.querySelectorAll({})]", json!(selector));
        self.click_middle(window, selector, &found).await;
    }

    /// Clicks a field, and types a text in place of its own.
    pub(crate) async fn write(&mut self, window: &Window, name: &str, text: &str) {
        self.click_on(window, &format!("[name=\"{name}\"]")).await;
        for kind in ["keyDown", "keyUp"] {
            let all =
                json!({"type": kind, "key": "a", "code": "KeyA", "modifiers": 2, "commands": ["selectAll"]});
            self.call(window, "Input.dispatchKeyEvent", all).await;
        }
        self.type_text(window, text).await;
    }

    pub(crate) async fn type_text(&mut self, window: &Window, text: &str) {
        self.call(window, "Input.insertText", json!({"text": text})).await;
    }

    /// Goes to a list of options with Tab, and chooses the one that begins with these letters.
    pub(crate) async fn choose(&mut self, window: &Window, name: &str, letters: &str) {
        self.tab_to(window, &format!("select[name=\"{name}\"]")).await;
        for letter in letters.chars() {
            self.press(window, &letter.to_string()).await;
        }
        let chosen = "document.activeElement.selectedOptions[0].textContent.trim()";
        let chosen = self.evaluate(window, chosen).await;
        assert!(chosen.as_str().unwrap().starts_with(letters), "{name}: {chosen}");
    }

    /// Presses Tab until an element that matches the selector has the focus.
    pub(crate) async fn tab_to(&mut self, window: &Window, selector: &str) {
        self.tab_until(window, selector, &format!("it.matches({})", json!(selector))).await;
    }

    /// Goes to a link or button with Tab, and presses Enter.
    pub(crate) async fn follow(&mut self, window: &Window, text: &str) {
        let is_it =
            format!("it.matches('a, button, summary') && it.textContent.trim().startsWith({})", json!(text));
        self.tab_until(window, text, &is_it).await;
        self.press(window, "Enter").await;
    }

    /// Presses Tab until the element with the focus, which must be visible, fulfils a condition.
    async fn tab_until(&mut self, window: &Window, what: &str, is_it: &str) {
        let is_there = format!("((it) => {is_it})(document.activeElement)");
        for _ in 0..MOST_TABS {
            if self.evaluate(window, &is_there).await == true {
                let outline = "getComputedStyle(document.activeElement).outlineStyle !== 'none'";
                let is_visible = self.evaluate(window, outline).await;
                assert_eq!(is_visible, true, "the focus on {what} is invisible");
                return;
            }
            self.press(window, "Tab").await;
        }
        let focused = self.evaluate(window, "document.activeElement.textContent.trim()").await;
        panic!("no {what} within {MOST_TABS} presses of Tab; the last is {focused}");
    }

    /// Waits until the page is loaded and contains a text.
    pub(crate) async fn until_reads(&mut self, window: &Window, text: &str) {
        let shown = reads(text);
        self.until_true(window, text, &shown).await;
    }

    /// Loads the page again until it contains a text. No other page may be on its way.
    pub(crate) async fn reload_until_reads(&mut self, window: &Window, text: &str) {
        let (chromium, shown) = (&mut self.chromium, reads(text));
        eventually(SOON, text, async || {
            if chromium.evaluate(&window.session, &shown).await == true {
                return Some(());
            }
            // A reload before the page is loaded would begin again and again on a busy machine.
            if chromium.evaluate(&window.session, "document.readyState").await == "complete" {
                chromium.call("Page.reload", json!({}), Some(&window.session)).await;
            }
            None
        })
        .await;
    }

    /// Returns the texts of all elements that match a selector.
    pub(crate) async fn texts(&mut self, window: &Window, selector: &str) -> Vec<String> {
        let texts =
            format!("[...document.querySelectorAll({})].map((it) => it.textContent.trim())", json!(selector));
        let texts = self.evaluate(window, &texts).await;
        texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    }

    pub(crate) async fn path(&mut self, window: &Window) -> String {
        let address: Value = self.evaluate(window, "location.href").await;
        Url::parse(address.as_str().unwrap()).unwrap().path().to_owned()
    }
}

fn reads(text: &str) -> String {
    format!(
        "document.readyState === 'complete' && (document.querySelector('main, body')?.textContent ?? '').replace(/\\s+/g, ' ').includes({})",
        json!(text)
    )
}
