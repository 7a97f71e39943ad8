//! Changes to many notifications of an inbox at once.

use serde_json::json;
use testkit::eventually;

use crate::service::{Backing, SOON, Service, titles};

const SEEN: &str = "/v3/notifications/markAllNotificationsAsSeen";
const READ: &str = "/v3/notifications/markAllNotificationsAsRead";
const DELETED: &str = "/v3/notifications/markAllNotificationsAsDeleted";

#[tokio::test]
async fn the_first_unseen_are_marked_as_seen_newest_first() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 20).await;
    service.deliver(&shop, "bob", 1).await;
    // The call, the expected number of changes, and the expected number of unseen items afterwards.
    let cases = [
        // The page has the items 20, 19, 18 and 17.
        (format!("POST {SEEN}?page=1&limit=4"), 4, 16),
        (format!("POST {SEEN}?pageNo=1&limit=5"), 1, 15),
        (format!("POST {SEEN}?limit=5"), 0, 15),
        (format!("PUT {SEEN}?page=4&pageNo=4&limit=5"), 5, 10),
        (format!("PATCH {SEEN}?page=100"), 0, 10),
        ("POST /v3/markAllNotificationsAsSeen/".to_owned(), 10, 0),
        (format!("POST {SEEN}"), 0, 0),
    ];
    for (call, updated, unseen) in cases {
        let answer = service.changed(service.of(&shop, "ada", &call).body("{", "text/plain")).await;
        assert!(answer.header("deprecation").is_some() && answer.header("link").is_some(), "{call}");
        answer.has_updated(updated);
        assert!(answer.body["message"].is_string());
        let list = service.list(&shop, "ada", "").await;
        assert_eq!((&list["unseenCount"], &list["unreadCount"]), (&json!(unseen), &json!(20)), "{call}");
    }
    service.deliver(&shop, "ada", 17).await;
    service.changed(service.of(&shop, "ada", &format!("POST {SEEN}"))).await.has_updated(15);
    assert_eq!(titles(&service.list(&shop, "ada", "filter=unseen").await), ["2", "1"]);
    assert_eq!(service.list(&shop, "bob", "").await["unseenCount"], 1);
    for (query, problems) in [
        ("page=0&limit=21", &[("page", "invalid_number"), ("limit", "invalid_number")][..]),
        ("page=1&pageNo=2", &[("page", "conflict")]),
    ] {
        service.of(&shop, "ada", &format!("POST {SEEN}?{query}")).send().await.has_problems(problems);
    }
}

#[tokio::test]
async fn all_notifications_are_marked_read_or_deleted() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 5).await;
    service.deliver(&shop, "bob", 2).await;
    let id = service.list(&shop, "ada", "").await["data"][0]["id"].as_i64().unwrap();
    service.change(service.of(&shop, "ada", &format!("POST /v3/notifications/{id}/click"))).await;
    // The call, the expected number of changes, and the expected counters afterwards: total, unread and unseen.
    let cases = [
        (format!("POST {READ}"), 4, (5, 0, 0)),
        (format!("PUT {READ}/"), 0, (5, 0, 0)),
        (format!("PATCH {DELETED}"), 5, (0, 0, 0)),
        (format!("POST {DELETED}"), 0, (0, 0, 0)),
    ];
    for (call, updated, (total, unread, unseen)) in cases {
        service.changed(service.of(&shop, "ada", &call)).await.has_updated(updated);
        let list = service.list(&shop, "ada", "").await;
        let counts = [&list["pagination"]["totalCount"], &list["unreadCount"], &list["unseenCount"]];
        assert_eq!(counts, [&json!(total), &json!(unread), &json!(unseen)], "{call}");
    }
    let by_app = format!("POST {READ}?userIdentifier=ada");
    let body = eventually(SOON, "a change of all is answered 200", async || {
        service.deliver(&shop, "ada", 1).await;
        let answer = service.changed(service.by(&shop, &by_app)).await;
        (answer.status != 202).then(|| answer.is(200))
    })
    .await;
    assert_eq!(body["updated"], 1);
    service.by(&shop, &format!("POST {READ}")).send().await.fails(401, "user_required");
    assert_eq!(service.list(&shop, "bob", "").await["unreadCount"], 2);
}

#[tokio::test]
async fn no_event_is_written_if_nothing_changes() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.by(&shop, "POST /v3/users").json(&json!({"identifier": "ada"})).send().await.is(200);
    for user in ["ada", "nobody"] {
        for path in [SEEN, READ, DELETED] {
            let body = service.of(&shop, user, &format!("POST {path}")).send().await.is(200);
            assert_eq!(body["updated"], 0, "{user} {path}");
        }
    }
    for number in 0..service.context.partitions {
        let state = service.context.log.state(domain::StreamName::Inbox(number)).await.unwrap();
        assert_eq!(state.last_seq, 0);
    }
    assert_eq!(service.context.store.directory().find_user(shop.id, "nobody").await.unwrap(), None);
}

#[tokio::test]
async fn a_change_that_is_not_projected_in_time_is_answered_202() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.context.store.directory().merge_user(shop.id, "ada", Default::default()).await.unwrap();
    service
        .run(
            "INSERT INTO inbox_item (app_id, user_number, id, send_id, created_at, content, event_id)
             SELECT app_id, number, 5, gen_random_uuid(), now(),
                    '{\"title\":\"x\",\"message\":null,\"icon\":null,\"url\":null,\"data\":{},\"blocks\":[]}',
                    gen_random_uuid()
             FROM app_user;
             INSERT INTO inbox_counter SELECT app_id, number, 1, 1, 1 FROM app_user;
             INSERT INTO checkpoint SELECT 'inbox', 'INBOX_' || number, 0 FROM generate_series(0, 9) AS number",
        )
        .await;
    for path in [SEEN, READ, DELETED] {
        let body = service.of(&shop, "ada", &format!("POST {path}")).send().await.is(202);
        assert_eq!(body["statusCode"], 202, "{path}");
    }
    let state = service.of(&shop, "ada", "PUT /v3/notifications/5/state").json(&json!({"state": "done"}));
    state.send().await.is(202);
}
