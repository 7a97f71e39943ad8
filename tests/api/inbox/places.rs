//! Archived and snoozed notifications.

use std::time::Duration;

use serde_json::{Value, json};
use service_kit::clock;

use crate::realtime::live::Live;
use crate::service::{App, Service, titles};

const HOUR: Duration = Duration::from_secs(3600);
const COUNTS: &str = "GET /v3/notifications/counts";
const BULK: &str = "POST /v3/notifications/bulk";

impl Service {
    async fn ids(&self, app: &App, user: &str, query: &str) -> Vec<i64> {
        let list = self.list(app, user, query).await;
        list["data"].as_array().unwrap().iter().map(|item| item["id"].as_i64().unwrap()).collect()
    }

    /// Returns the number of all, unread and unseen notifications on the list.
    async fn counts(&self, app: &App, user: &str) -> (i64, i64, i64) {
        let counts = self.of(app, user, COUNTS).send().await.is(200);
        let count = |name: &str| counts[name].as_i64().unwrap();
        (count("totalCount"), count("unreadCount"), count("unseenCount"))
    }
}

fn at(path: &str, id: i64) -> String {
    let (method, name) = path.split_once(' ').unwrap();
    format!("{method} /v3/notifications/{id}/{name}")
}

#[tokio::test]
async fn an_archived_notification_is_only_in_the_archive() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 3).await;
    let id = service.ids(&shop, "ada", "").await[1];
    let archived = service.shown(|| service.of(&shop, "ada", &at("PUT archive", id))).await;
    assert!(archived["archivedAt"].is_string() && archived["snoozedUntil"].is_null());
    assert_eq!((&archived["seenAt"], &archived["clickedAt"]), (&Value::Null, &Value::Null));

    let list = service.list(&shop, "ada", "").await;
    assert_eq!((titles(&list), &list["pagination"]["totalCount"]), (vec!["3", "1"], &json!(2)));
    assert_eq!(service.counts(&shop, "ada").await, (2, 2, 2));
    let archive = service.list(&shop, "ada", "filter=archived").await;
    assert_eq!((&archive["data"], &archive["pagination"]["totalCount"]), (&json!([archived]), &json!(1)));
    assert!(service.ids(&shop, "ada", "filter=snoozed").await.is_empty());
    let alone = service.of(&shop, "ada", &format!("GET /v3/notifications/{id}?markSeen=false"));
    assert_eq!(alone.send().await.is(200), archived);

    // Changes of the whole inbox leave the archive alone, and single changes reach into it.
    service.change(service.of(&shop, "ada", "POST /v3/notifications/markAllNotificationsAsDeleted")).await;
    assert_eq!(service.ids(&shop, "ada", "filter=archived").await, [id]);
    let read = service.shown(|| service.of(&shop, "ada", &at("POST click", id))).await;
    assert!(read["clickedAt"].is_string() && read["archivedAt"] == archived["archivedAt"]);
    let back = service.shown(|| service.by(&shop, &at("DELETE archive", id))).await;
    assert!(back["archivedAt"].is_null() && back["clickedAt"] == read["clickedAt"]);
    assert_eq!(service.counts(&shop, "ada").await, (1, 0, 0));
    assert_eq!(service.ids(&shop, "ada", "filter=read").await, [id]);
    for call in ["PUT archive", "DELETE archive", "DELETE snooze"] {
        service.of(&shop, "bob", &at(call, id)).send().await.fails(404, "not_found");
    }
}

#[tokio::test]
async fn a_snoozed_notification_returns_unread_at_its_time_and_clients_learn_of_it() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 2).await;
    let id = service.ids(&shop, "ada", "").await[1];
    service.change(service.of(&shop, "ada", &at("POST click", id))).await;
    let mut live = Live::open(&service, &shop, "ada").await;

    let until = clock::now() + HOUR;
    let call = service.of(&shop, "ada", &at("PUT snooze", id)).json(&json!({"until": until}));
    // A second snooze could send a second event, so the call is not repeated if its answer is a 202.
    let answer = service.changed(call).await;
    let snoozed = service.list(&shop, "ada", "filter=snoozed").await["data"][0].clone();
    assert_eq!((&snoozed["id"], &snoozed["snoozedUntil"]), (&json!(id), &json!(until)));
    assert!(answer.status == 202 || answer.is(200) == snoozed);
    let left = live.expect("notification.deleted").await;
    assert_eq!((&left.data["id"], &left.data["reason"]), (&json!(id), &json!("snoozed")));
    assert_eq!(left.counts(), (1, 1));

    // Move the end of the snooze from an hour to a second from now.
    let until = clock::now() + Duration::from_secs(1);
    let moved =
        "UPDATE inbox_item SET snoozed_until = now() + interval '1 second' WHERE snoozed_until > now()";
    service.run(moved).await;
    let back = live.expect("notification.created").await;
    assert!(clock::now() >= until, "not before its time");
    let item = &back.data["notification"];
    assert_eq!((&item["id"], &item["snoozedUntil"]), (&json!(id), &Value::Null));
    assert_eq!((&item["seenAt"], &item["clickedAt"]), (&Value::Null, &Value::Null));
    assert_eq!(back.counts(), (2, 2));
    assert_eq!(service.ids(&shop, "ada", "filter=unread").await.last(), Some(&id));
    assert_eq!(service.counts(&shop, "ada").await, (2, 2, 2));
}

#[tokio::test]
async fn a_notification_moves_between_list_archive_and_snooze() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let id = service.ids(&shop, "ada", "").await[0];
    let body = json!({"until": clock::now() + HOUR});
    // The call, and the list in which the notification is afterwards.
    let cases = [
        ("PUT snooze", "filter=snoozed"),
        ("PUT archive", "filter=archived"),
        ("PUT archive", "filter=archived"),
        ("DELETE snooze", "filter=archived"),
        ("PUT snooze", "filter=snoozed"),
        ("DELETE archive", "filter=snoozed"),
        ("DELETE snooze", "filter=unread"),
        ("DELETE snooze", "filter=unread"),
        ("DELETE archive", "filter=unread"),
    ];
    for (call, place) in cases {
        service.change(service.of(&shop, "ada", &at(call, id)).json(&body)).await;
        for filter in ["filter=snoozed", "filter=archived", "filter=unread"] {
            let expected = if filter == place { vec![id] } else { vec![] };
            assert_eq!(service.ids(&shop, "ada", filter).await, expected, "{call}: {filter}");
        }
    }
}

#[tokio::test]
async fn several_notifications_are_archived_and_snoozed_at_once() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 4).await;
    let ids = service.ids(&shop, "ada", "").await;
    let mut live = Live::open(&service, &shop, "ada").await;
    let until = clock::now() + HOUR;
    // The change, the number of notifications on the list afterwards, and the event that clients get.
    let cases = [
        (json!({"change": "archived"}), 2, "notification.deleted"),
        (json!({"change": "unarchived"}), 4, "notification.created"),
        (json!({"change": "snoozed", "until": until}), 2, "notification.deleted"),
        (json!({"change": "unsnoozed"}), 4, "notification.created"),
    ];
    for (mut body, total, event) in cases {
        body["ids"] = json!(ids[..2]);
        service.changed(service.of(&shop, "ada", BULK).json(&body)).await.has_updated(2);
        assert_eq!(service.counts(&shop, "ada").await.0, total, "{body}");
        for _ in 0..2 {
            live.expect(event).await;
        }
    }
}

#[tokio::test]
async fn every_problem_of_a_snooze_is_named() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let id = service.ids(&shop, "ada", "").await[0];
    let path = at("PUT snooze", id);
    let days = |days: u32| clock::now() + HOUR * 24 * days;
    let cases = [
        (json!({}), ("until", "required")),
        (json!({"until": null}), ("until", "required")),
        (json!({"until": "tomorrow"}), ("until", "invalid_time")),
        (json!({"until": 1}), ("until", "invalid_time")),
        (json!({"until": "2020-01-01T00:00:00Z"}), ("until", "past")),
        (json!({"until": days(366)}), ("until", "too_far")),
        (json!([]), ("until", "required")),
        (json!(1), ("", "invalid_type")),
    ];
    for (body, problem) in cases {
        service.of(&shop, "ada", &path).json(&body).send().await.has_problems(&[problem]);
        if let Value::Object(mut body) = body {
            body.extend([("ids".to_owned(), json!([id])), ("change".to_owned(), json!("snoozed"))]);
            service.of(&shop, "ada", BULK).json(&body.into()).send().await.has_problems(&[problem]);
        }
    }
    let strict = service.of(&shop, "ada", &path).header("Prefer", "handling=strict");
    let answer = strict.json(&json!({"until": days(1), "note": 1})).send().await;
    answer.has_problems(&[("note", "unknown_member")]);
    let strict = service.of(&shop, "ada", BULK).header("Prefer", "handling=strict");
    let answer = strict.json(&json!({"ids": [id], "change": "read", "until": days(1)})).send().await;
    answer.has_problems(&[("until", "unknown_member")]);
    let body = json!({"until": days(364)});
    let snoozed = service.shown(|| service.of(&shop, "ada", &path).json(&body)).await;
    assert_eq!(snoozed["snoozedUntil"], body["until"]);
}
