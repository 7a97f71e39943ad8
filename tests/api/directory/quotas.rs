//! Limits on the number of users, categories and devices, and paging of their lists.

use domain::Actor;
use std::num::NonZeroU32;

use domain::app_setting::AppSetting;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use testkit::eventually;

use crate::service::{App, Backing, SOON, Service};

async fn limited(service: &Service, switches: &[AppSetting]) -> App {
    let shop = service.app("shop").await;
    assert!(service.context.store.control().set_settings(shop.id, switches, &Actor::System).await.unwrap());
    shop
}

#[tokio::test]
async fn users_created_with_the_public_key_are_limited_and_the_backend_is_not() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = limited(&service, &[AppSetting::MaxUsers(NonZeroU32::new(3))]).await;
    let put = |user: &str| service.of(&shop, user, "PUT /v3/profile").json(&json!({"x": 1})).send();
    let erase = |user: &str| service.by(&shop, &format!("DELETE /v3/users/{user}")).send();
    for user in ["one", "two", "three"] {
        put(user).await.is(200);
    }
    let connect = |user: &str| {
        let call = service.of(&shop, user, "POST /v3/sdk/connect").header("X-SERVICE-DEVICE-ID", "d");
        call.json(&json!({"deviceType": "ios"})).send()
    };
    put("four").await.fails(403, "quota_reached");
    connect("five").await.fails(403, "quota_reached");
    let refused = service.of(&shop, "six", "PATCH /v3/preferences").json(&json!({"preference": []}));
    assert_ne!(refused.send().await.status, 500);
    assert_eq!(service.context.store.directory().find_user(shop.id, "four").await.unwrap(), None);
    put("one").await.is(200);
    connect("two").await.is(200);
    service.by(&shop, "PUT /v3/users/of-the-backend").json(&json!({})).send().await.is(200);
    for user in ["of-the-backend", "one"] {
        erase(user).await.is(202);
    }
    put("four").await.is(200);
    put("seven").await.fails(403, "quota_reached");
    let counted = "SELECT kind || ' ' || sum(used) FROM app_usage GROUP BY kind ORDER BY kind";
    assert_eq!(service.rows(counted).await, ["devices 1", "users 3"]);
}

/// Number of concurrent calls. The gateway lets at most this many calls of one peer wait for the database.
const AT_ONCE: usize = 4;

#[tokio::test]
async fn concurrently_created_users_are_all_counted() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = limited(&service, &[AppSetting::MaxUsers(NonZeroU32::new(64))]).await;
    let calls = (0..64).map(|number| {
        service.of(&shop, &format!("user {number}"), "PUT /v3/profile").json(&json!({"x": 1})).send()
    });
    let mut answers = stream::iter(calls).buffer_unordered(AT_ONCE);
    while let Some(answer) = answers.next().await {
        answer.is(200);
    }
    assert_eq!(service.rows("SELECT sum(used)::text FROM app_usage WHERE kind = 'users'").await, ["64"]);
    let one_more = service.of(&shop, "one more", "PUT /v3/profile").json(&json!({})).send().await;
    one_more.fails(403, "quota_reached");
}

#[tokio::test]
async fn devices_stay_within_the_quota() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = limited(&service, &[AppSetting::MaxDevices(NonZeroU32::new(2))]).await;
    let connect = |user: &str, device: &str| {
        let call = service.of(&shop, user, "POST /v3/sdk/connect").header("X-SERVICE-DEVICE-ID", device);
        call.json(&json!({"deviceType": "ios"})).send()
    };
    connect("ada", "1").await.is(200);
    connect("bob", "1").await.is(200);
    connect("bob", "2").await.fails(403, "quota_reached");
    connect("bob", "1").await.is(200);
    service.by(&shop, "DELETE /v3/users/ada").send().await.is(202);
    connect("bob", "2").await.is(200);
}

#[tokio::test]
async fn sends_create_categories_up_to_the_quota_and_lists_are_paged() {
    let service = Service::start().await;
    let shop = limited(&service, &[AppSetting::MaxCategories(NonZeroU32::new(3))]).await;
    let send = |category: &str| {
        let body =
            json!({"notification": {"title": "x"}, "sendTo": {"recipients": ["ada"]}, "category": category});
        service.by(&shop, "POST /v3/notifications").json(&body).send()
    };
    let create = |identifier: &str| {
        let body = json!({"identifier": identifier, "name": identifier});
        service.by(&shop, "POST /v3/categories").json(&body).send()
    };
    create("one").await.is(200);
    create("two").await.is(200);
    // Each of the two sends needs a new category, but the quota allows only one more. While the lock blocks the dispatcher, the
    // gateway accepts both sends. The dispatcher then creates one category.
    let mut dispatcher_waits = PgConnection::connect(service.servers.database_url()).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE category IN EXCLUSIVE MODE")
        .execute(&mut dispatcher_waits)
        .await
        .unwrap();
    for category in ["three", "four"] {
        send(category).await.is(202);
    }
    dispatcher_waits.close().await.unwrap();
    let list = |query: &str| service.by(&shop, &format!("GET /v3/categories{query}")).send();
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let planned = "SELECT count(*)::text FROM request";
    eventually(SOON, "both sends are planned", async || {
        (service.one_text(planned).await == "2").then_some(())
    })
    .await;
    let all = names(&list("").await.is(200));
    assert_eq!(all.len(), 3, "{all:?}");
    send("five").await.fails(403, "quota_reached");
    create("five").await.fails(403, "quota_reached");
    create("one").await.fails(409, "category_exists");
    send("one").await.is(202);

    let first = list("?limit=2").await;
    let link = first.header("link").unwrap().to_owned();
    assert_eq!(names(&first.is(200)), all[..2]);
    let next =
        link.strip_prefix("</v3/categories").and_then(|link| link.strip_suffix(">; rel=\"next\"")).unwrap();
    let last = list(next).await;
    assert_eq!(last.header("link"), None);
    assert_eq!(names(&last.is(200)), all[2..]);
    for wrong in ["?limit=0", "?limit=1001", "?cursor=x"] {
        assert_eq!(list(wrong).await.status, 400, "{wrong}");
    }
    let connect = service.of(&shop, "ada", "POST /v3/sdk/connect").header("X-SERVICE-DEVICE-ID", "d");
    let connected = connect.json(&json!({"deviceType": "ios"})).send().await.is(200);
    assert_eq!(names(&connected["app"]["categories"]), all);
}
