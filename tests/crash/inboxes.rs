//! What the people see.

use std::collections::BTreeMap;

use crate::api::Api;
use crate::send::{SENDS, USERS, recipients, title, user};

/// Every inbox shows what was sent to its user, each once, and nothing else; its counters agree.
pub(crate) async fn hold_what_was_sent(api: &Api) {
    let mut expected = vec![BTreeMap::new(); USERS];
    for send in 0..SENDS {
        for user in recipients(send) {
            expected[user].insert(title(send), 1);
        }
    }
    for (number, expected) in expected.iter().enumerate() {
        let (shown, unread) = titles(api, &user(number)).await;
        assert_eq!(&shown, expected, "the inbox of {}", user(number));
        assert_eq!(unread, expected.len() as u64, "what is unread of {}", user(number));
    }
}

/// How often each title is in the inbox, page by page; and the counter of the unread.
async fn titles(api: &Api, user: &str) -> (BTreeMap<String, u32>, u64) {
    let mut titles = BTreeMap::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = api.inbox(user, cursor.as_deref()).await;
        for item in page["data"].as_array().unwrap() {
            *titles.entry(item["title"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        cursor = page["pagination"]["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            assert_eq!(page["unreadCount"], page["pagination"]["totalCount"]);
            return (titles, page["unreadCount"].as_u64().unwrap());
        }
    }
}
