//! The panel of `clients/inbox`: keyboard, accessibility, archive, and long lists.

use serde_json::json;
use testkit::eventually;

use crate::browser::{Browser, SOON, Window, count, demo};

#[tokio::test]
async fn the_inbox_is_usable_by_keyboard_and_axe_finds_nothing() {
    let (running, _files) = demo().await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open("ada").await;
    for (number, title) in (1..).zip(["One", "Two", "Three"]) {
        browser.send(&running, &window, title, number).await;
    }
    let bell = "document.querySelector('tidings-inbox').shadowRoot.querySelector('.bell')";
    assert_eq!(browser.evaluate(&window, &format!("{bell}.getAttribute('aria-expanded')")).await, "false");
    let label = browser.evaluate(&window, &format!("{bell}.getAttribute('aria-label')")).await;
    assert_eq!(label, "Notifications, 3 unread");
    browser.evaluate(&window, &format!("{bell}.focus()")).await;
    browser.press(&window, "Enter").await;
    browser
        .until_true(&window, "the panel opens", &format!("{bell}.getAttribute('aria-expanded') === 'true'"))
        .await;
    let focused = "document.querySelector('tidings-inbox').shadowRoot.activeElement";
    let items = "return root.querySelectorAll('li.item').length";
    eventually(SOON, "the panel shows the list", async || {
        (browser.in_inbox(&window, items).await == 3).then_some(())
    })
    .await;
    for title in ["Three", "Two"] {
        browser.press(&window, "ArrowDown").await;
        let has_focus =
            format!("{focused}?.closest('li.item')?.querySelector('.title').textContent === '{title}'");
        browser.until_true(&window, "the next item has the focus", &has_focus).await;
    }
    browser.press(&window, "r").await;
    browser.until(&window, "the item is read", |snapshot| snapshot["unreadCount"] == 2).await;
    browser.press(&window, "ArrowDown").await;
    browser.press(&window, "Enter").await;
    browser.until(&window, "the next item is opened", |snapshot| snapshot["unreadCount"] == 1).await;
    browser.press(&window, "Delete").await;
    browser.until(&window, "it is deleted", |snapshot| count(snapshot) == 2).await;

    browser.has_no_findings_of_axe(&window).await;

    // Arabic is laid out from right to left.
    browser.evaluate(&window, "document.querySelector('tidings-inbox').setAttribute('locale', 'ar')").await;
    let panel =
        "getComputedStyle(document.querySelector('tidings-inbox').shadowRoot.querySelector('.panel'))";
    browser.until_true(&window, "the panel is mirrored", &format!("{panel}.direction === 'rtl'")).await;
    let title =
        "document.querySelector('tidings-inbox').shadowRoot.querySelector('h2').textContent === 'الإشعارات'";
    browser.until_true(&window, "the strings are Arabic", title).await;
    browser.has_no_findings_of_axe(&window).await;
    browser.press(&window, "Escape").await;
    browser.until_true(&window, "the bell has the focus again", &format!("{focused} === {bell}")).await;
}

#[tokio::test]
async fn archived_and_snoozed_notifications_leave_every_list_and_come_back() {
    let (running, _files) = demo().await;
    let (mut first, mut second) = (Browser::start(&running).await, Browser::start(&running).await);
    let (ada, same) = (first.open("ada").await, second.open("ada").await);
    second.in_inbox(&same, LISTEN).await;
    for (number, title) in (1..).zip(["One", "Two", "Three"]) {
        first.send(&running, &ada, title, number).await;
    }
    second.until_true(&same, "all are announced", "announced() === 3").await;
    first.in_inbox(&ada, "root.querySelector('.bell').click()").await;
    let has_rows = |number: usize| {
        format!(
            "document.querySelector('tidings-inbox').shadowRoot.querySelectorAll('div.list li.item').length === {number}"
        )
    };
    first.until_true(&ada, "the panel shows the list", &has_rows(3)).await;
    first.in_inbox(&ada, "[...root.querySelectorAll('li.item a.open')].at(-1).focus()").await;

    // "e" archives the oldest, and the undo brings it back. Nothing is sent before the time for undoing has ended.
    first.in_inbox(&ada, UNDO).await;
    first.press(&ada, "e").await;
    first.until_true(&ada, "the item is back", &format!("window.undone === true && {}", has_rows(3))).await;
    first.press(&ada, "e").await;
    first.until_true(&ada, "the item is hidden again", &has_rows(2)).await;

    // "h" opens the times of a snooze, and Escape closes only the menu.
    let menu = "document.querySelector('tidings-inbox').shadowRoot.querySelector('.menu')";
    for _ in 0..2 {
        first.press(&ada, "h").await;
        first.until_true(&ada, "the menu opens", &format!("{menu} !== null")).await;
        first.press(&ada, "Escape").await;
        first.until_true(&ada, "the menu closes", &format!("{menu} === null")).await;
    }
    first.press(&ada, "h").await;
    first
        .until_true(
            &ada,
            "the first time has the focus",
            &format!("{menu}?.querySelector('button')?.matches(':focus')"),
        )
        .await;
    first.press(&ada, "Enter").await;
    first.until_true(&ada, "one item is left", &has_rows(1)).await;
    second
        .until(&same, "both leave the other list", |snapshot| {
            (count(snapshot), &snapshot["unreadCount"]) == (1, &json!(1))
        })
        .await;
    let (_, snoozed) = running.get_as("ada", "/notifications?filter=snoozed").await;
    let (_, archived) = running.get_as("ada", "/notifications?filter=archived").await;
    assert_eq!((&snoozed["data"][0]["title"], &archived["data"][0]["title"]), (&json!("Two"), &json!("One")));

    returns_from_the_archive(&mut first, &ada).await;
    second
        .until(&same, "both return", |snapshot| (count(snapshot), &snapshot["unreadCount"]) == (3, &json!(3)))
        .await;
    second.until_true(&same, "both are announced again", "announced() === 5").await;
    first.in_inbox(&ada, "root.querySelector('.back').click()").await;
    first.until_true(&ada, "the list shows them again", &has_rows(3)).await;
}

/// Clicks on undo as soon as one of three items is hidden. The page does this itself, because an undo must be quick.
const UNDO: &str = "
    const observer = new MutationObserver(() => {
      if (root.querySelectorAll('div.list li.item').length !== 2) return;
      observer.disconnect();
      root.querySelector('.undo-button').click();
      window.undone = true;
    });
    observer.observe(root, { childList: true, subtree: true });";

/// Collects what a screen reader announces. The function `announced` returns the number of new items in it.
const LISTEN: &str = "
    const said = [];
    const status = root.querySelector('[role=status]');
    new MutationObserver(() => said.push(status.textContent)).observe(status, { childList: true });
    window.announced = () => said.reduce((sum, text) => sum + Number(text.match(/(\\d+) new/)?.[1] ?? 0), 0);";

/// Moves the two hidden items back to the list.
async fn returns_from_the_archive(browser: &mut Browser, window: &Window) {
    browser.in_inbox(window, "root.querySelector('.bar .archive').click()").await;
    let hidden =
        "[...document.querySelector('tidings-inbox').shadowRoot.querySelectorAll('.preferences .title')]
        .map(({ textContent }) => textContent).join() === 'Two,One'";
    browser.until_true(window, "the archive shows both", hidden).await;
    browser.has_no_findings_of_axe(window).await;
    for left in [1, 0] {
        browser.in_inbox(window, "root.querySelector('.preferences .unhide').click()").await;
        let rows = "return root.querySelectorAll('.preferences li').length";
        assert_eq!(browser.in_inbox(window, rows).await, left);
    }
}

/// Replaces the inbox of the element by one with 10,000 read items.
const MANY_ITEMS: &str = "
    const read = '2027-01-31T09:00:00.000Z';
    const items = Array.from({ length: 10_000 }, (_, index) => ({
      id: 10_000 - index, title: `Item ${10_000 - index}`, message: 'Your order is on its way.', icon: null, url: null,
      data: {}, blocks: [], createdAt: read, seenAt: read, clickedAt: read, category: null, state: null,
      archivedAt: null, snoozedUntil: null,
    }));
    const snapshot = {
      items, unreadCount: 0, unseenCount: 0, hasMore: false, loaded: true, connection: 'live', error: null,
      push: 'unsupported',
    };
    document.querySelector('tidings-inbox').inbox = {
      getSnapshot: () => snapshot, subscribe: () => () => {}, start: () => {}, stop: () => {},
    };
    root.querySelector('.bell').click();";

/// Replaces the inbox by one with two items, of which the older one was planned last.
const LATE_ITEM: &str = "
    const { inbox } = document.querySelector('tidings-inbox');
    const [first] = inbox.getSnapshot().items;
    const item = (id, minute) => ({ ...first, id, title: `Item ${id}`, createdAt: `2027-01-31T09:0${minute}:00.000Z` });
    const snapshot = { ...inbox.getSnapshot(), items: [item(7, 3), item(20, 2)] };
    document.querySelector('tidings-inbox').inbox = { ...inbox, getSnapshot: () => snapshot };";

/// Scrolls to the end in 120 frames. Returns the longest time between two frames in milliseconds.
const SCROLL: &str = "(async () => {
    const root = document.querySelector('tidings-inbox').shadowRoot;
    const scroll = root.querySelector('.scroll');
    let [last, longest] = [await new Promise(requestAnimationFrame), 0];
    for (let frame = 1; frame <= 120; frame++) {
      scroll.scrollTop = (scroll.scrollHeight * frame) / 120;
      const now = await new Promise(requestAnimationFrame);
      [last, longest] = [now, Math.max(longest, now - last)];
    }
    return longest;
})()";

#[tokio::test]
async fn ten_thousand_items_can_be_scrolled() {
    let (running, _files) = demo().await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open("ada").await;
    browser.until(&window, "the inbox is loaded", |snapshot| snapshot["loaded"] == true).await;
    browser.in_inbox(&window, MANY_ITEMS).await;
    let rows =
        "document.querySelector('tidings-inbox').shadowRoot.querySelectorAll('li.item').length === 10000";
    browser.until_true(&window, "all items are on the list", rows).await;
    let longest = browser.evaluate(&window, SCROLL).await;
    println!("longest time between two frames while scrolling: {longest} ms");
    let last = "
        const item = [...root.querySelectorAll('li.item')].at(-1);
        const [place, view] = [item.getBoundingClientRect(), root.querySelector('.scroll').getBoundingClientRect()];
        return item.querySelector('.title').textContent === 'Item 1' && place.top < view.bottom && place.bottom > view.top;";
    assert_eq!(browser.in_inbox(&window, last).await, true, "the last item is visible");
    browser.in_inbox(&window, LATE_ITEM).await;
    let rows = "[...document.querySelector('tidings-inbox').shadowRoot.querySelectorAll('li.item .title')]
        .map(({ textContent }) => textContent).join()";
    browser
        .until_true(
            &window,
            "an item with a high id is in its place",
            &format!("{rows} === 'Item 7,Item 20'"),
        )
        .await;
    let pill = "return root.querySelector('.pill').hidden";
    assert_eq!(browser.in_inbox(&window, pill).await, true, "no item waits");
}
