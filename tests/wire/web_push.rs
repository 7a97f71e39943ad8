#[path = "../../services/web-push/tests/web_push/fixture.rs"]
#[allow(dead_code, reason = "the tests of the channel use all of it")]
mod fixture;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::content::PushContent;
use serde_json::{Value, json};

use crate::python::ask;
use fixture::{World, assert_sent};

#[tokio::test]
async fn mozillas_libraries_read_the_message_and_its_token() {
    let world = World::start().await;
    let key = world.context.store.control().vapid_public_key(world.app).await.unwrap().unwrap();
    let browser = world.browser().await;
    for title in ["Grüße aus 東京", &"a".repeat(3_000)] {
        let content = PushContent { title: Some(title.to_owned()), ..PushContent::default() };
        let job = world.job(browser.endpoint(), content).await;
        assert_sent(&world.send_job(&job).await);
        let capture = world.push_service.outbox().captures().remove(0);
        let question = json!({
            "body": STANDARD.encode(&capture.raw),
            "privateKey": STANDARD.encode(browser.private_key().unwrap()),
            "auth": STANDARD.encode(browser.auth()),
            "authorization": capture.summary.headers["authorization"][0],
        });
        let seen = ask("web_push.py", &question).await;
        let message: Value = serde_json::from_str(seen["message"].as_str().unwrap()).unwrap();
        assert_eq!((&message["title"], &message["deliveryId"]), (&json!(title), &json!(job.delivery_id)));
        assert_eq!((&seen["valid"], &seen["key"]), (&json!(true), &json!(key)));
        let claims = &seen["claims"];
        let origin = world.push_service.url();
        assert_eq!((&claims["aud"], &claims["sub"]), (&json!(origin), &json!("mailto:push@example.com")));
    }
}
