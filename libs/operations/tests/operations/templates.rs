//! Templates.

use operations::templates::{self, TemplateDocument};
use serde_json::json;

use crate::world;

#[tokio::test]
async fn versions_of_templates_are_recorded() {
    let world = world().await;
    let document = json!({"identifier": "hi", "channels": {"sms": {"text": "Hi"}}});
    let document = TemplateDocument::read(document).unwrap();
    for version in 1..=2 {
        let put = templates::put(&world.operations, &world.admin, world.shop, &document).await.unwrap();
        assert_eq!(put.1, version);
    }
    let audit = world.audit().await;
    assert_eq!((audit[1].before.clone(), audit[1].after.clone()), (None, Some(json!({"version": 1}))));
    let (before, after) = (json!({"version": 1}), json!({"version": 2}));
    assert_eq!((audit[0].before.clone(), audit[0].after.clone()), (Some(before), Some(after)));
}
