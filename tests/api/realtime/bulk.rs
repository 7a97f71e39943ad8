//! `POST /v3/notifications/bulk` and `GET /v3/notifications/counts`.

use serde_json::json;

use crate::service::Service;

const BULK: &str = "POST /v3/notifications/bulk";

#[tokio::test]
async fn several_notifications_change_at_once_and_foreign_ids_are_ignored() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 4).await;
    service.deliver(&shop, "bob", 1).await;
    let ids = |list: &serde_json::Value| -> Vec<i64> {
        list["data"].as_array().unwrap().iter().map(|item| item["id"].as_i64().unwrap()).collect()
    };
    let own = ids(&service.list(&shop, "ada", "").await);
    let foreign = ids(&service.list(&shop, "bob", "").await)[0];
    // The change, the expected number of changes, and the counters afterwards: unread, unseen and total.
    let cases = [
        ("seen", &own[..3], 3, (4, 1, 4)),
        ("read", &own[2..], 2, (2, 0, 4)),
        ("unread", &own[3..], 1, (3, 0, 4)),
        ("unseen", &own[..1], 1, (3, 1, 4)),
        ("deleted", &own[..2], 2, (1, 0, 2)),
        ("read", &own[..2], 0, (1, 0, 2)),
    ];
    for (change, some, updated, (unread, unseen, total)) in cases {
        let all = [some, &[foreign, 7, some[0]]].concat();
        let body = json!({"ids": all, "change": change});
        service.changed(service.of(&shop, "ada", BULK).json(&body)).await.has_updated(updated);
        let counts = service.of(&shop, "ada", "GET /v3/notifications/counts").send().await.is(200);
        let expected = json!({"unreadCount": unread, "unseenCount": unseen, "totalCount": total});
        assert_eq!(counts, expected, "{change}");
    }
    assert_eq!(service.list(&shop, "bob", "").await["unreadCount"], 1);
    let by_app = "POST /v3/notifications/bulk?userIdentifier=bob";
    let body = json!({"ids": [foreign], "change": "read"});
    assert_eq!(service.shown(|| service.by(&shop, by_app).json(&body)).await["updated"], 1);
    let unknown = service.of(&shop, "zoe", BULK).json(&body).send().await.is(200);
    assert_eq!(unknown["updated"], 0);
    let unknown = service.of(&shop, "zoe", "GET /v3/notifications/counts").send().await.is(200);
    assert_eq!(unknown, json!({"unreadCount": 0, "unseenCount": 0, "totalCount": 0}));
}

#[tokio::test]
async fn invalid_changes_name_the_member_and_change_nothing() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let id = service.list(&shop, "ada", "").await["data"][0]["id"].clone();
    let many: Vec<i64> = (0..101).collect();
    let cases = [
        (json!([1]), &[("", "invalid_type")][..]),
        (json!({}), &[("ids", "required"), ("change", "required")]),
        (json!({"ids": [], "change": "read"}), &[("ids", "invalid_length")]),
        (json!({"ids": many, "change": "read"}), &[("ids", "invalid_length")]),
        (json!({"ids": "1", "change": "read"}), &[("ids", "invalid_type")]),
        (
            json!({"ids": [id, "1", -1, 1.5], "change": "read"}),
            &[("ids[1]", "invalid_type"), ("ids[2]", "invalid_type"), ("ids[3]", "invalid_type")],
        ),
        (json!({"ids": [id], "change": "hidden"}), &[("change", "unknown_value")]),
        (json!({"ids": [id], "change": 1}), &[("change", "invalid_type")]),
    ];
    for (body, problems) in cases {
        service.of(&shop, "ada", BULK).json(&body).send().await.has_problems(problems);
    }
    let strict = service.of(&shop, "ada", BULK).header("Prefer", "handling=strict");
    let body = json!({"ids": [id], "change": "read", "state": 1});
    strict.json(&body).send().await.has_problems(&[("state", "unknown_member")]);
    assert_eq!(service.list(&shop, "ada", "").await["unreadCount"], 1);
}
