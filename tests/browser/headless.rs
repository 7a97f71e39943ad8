//! Parts of the headless client that are hard to reach through a page: the order of the loaded items, and the queue of changes.

use serde_json::json;

use crate::browser::demo;
use crate::page::Page;

/// Two items of a page, of which the older one was planned last, so it has the higher id. Returns the ids after each event.
const BOX: &str = "import('API/clients/client/box.js').then(({ newBox, addPage, applyEvent }) => {
    const item = (id, minute, clickedAt = null) => ({
      id, createdAt: `2027-01-31T09:0${minute}:00.000Z`, seenAt: clickedAt, clickedAt,
    });
    const box = newBox();
    const counts = { unreadCount: 9, unseenCount: 9 };
    addPage(box, { data: [item(7, 3), item(20, 2)], pagination: { nextCursor: 'more' }, ...counts });
    const shown = [];
    const event = (notification) => {
      applyEvent(box, { name: 'notification.updated', data: { notification, ...counts } });
      shown.push([...box.items.values()].map(({ id, clickedAt }) => [id, clickedAt !== null]));
    };
    event(item(7, 3, '2027-01-31T10:00:00.000Z'));
    event(item(21, 1));
    event(item(15, 4));
    return shown;
  })";

/// Fills the queue while nothing is sent. Returns the first waiting change and the rejections.
const QUEUE: &str = "import('API/clients/client/changes.js').then(({ createChanges }) => {
    const fill = (first) => {
      const rejected = [];
      const changes = createChanges({
        name: `queue ${first}`, prepare: async () => {}, send: async () => {}, changed: () => {},
        reject: ({ code }) => rejected.push(code),
      });
      changes.add({ change: first, ids: [1] });
      for (let id = 2; id <= 201; id++) changes.add({ change: 'deleted', ids: [id] });
      changes.add({ change: 'seen', ids: [202] });
      return [changes.pending().length, changes.pending()[0].ids, rejected];
    };
    return [fill('seen'), fill('deleted')];
  })";

#[tokio::test]
async fn items_have_the_order_of_lists_and_a_full_queue_reports_what_it_loses() {
    let (running, _files) = demo().await;
    let mut page = Page::open("/tidings-service-worker.js").await;
    let in_client = |script: &str| script.replace("API", running.dev("api"));
    assert_eq!(
        page.evaluate(&in_client(BOX)).await,
        json!([
            [[7, true], [20, false]],
            // Item 21 belongs to a page that is not loaded.
            [[7, true], [20, false]],
            [[15, false], [7, true], [20, false]],
        ])
    );
    assert_eq!(
        page.evaluate(&in_client(QUEUE)).await,
        json!([[200, [2], []], [200, [2], ["too_many_changes"]]]),
        "that an item was seen is the smallest loss"
    );
}
