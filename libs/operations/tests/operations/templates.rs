//! Templates.

use domain::TemplateProfile;
use operations::templates::{self, TemplateDocument};
use operations::{Object, OperationError};
use serde_json::json;

use crate::world;

#[tokio::test]
async fn versions_of_templates_are_recorded() {
    let world = world().await;
    let document = json!({"identifier": "hi", "channels": {"sms": {"text": "Hi"}}});
    let document = TemplateDocument::read(document, TemplateProfile::All).unwrap();
    for version in 1..=2 {
        let put = templates::put(&world.operations, &world.admin, world.shop, &document).await.unwrap();
        assert_eq!(put.1, version);
    }
    let audit = world.audit().await;
    assert_eq!((audit[1].before.clone(), audit[1].after.clone()), (None, Some(json!({"version": 1}))));
    let (before, after) = (json!({"version": 1}), json!({"version": 2}));
    assert_eq!((audit[0].before.clone(), audit[0].after.clone()), (Some(before), Some(after)));
}

#[tokio::test]
async fn an_earlier_version_is_restored_as_a_new_one() {
    let world = world().await;
    let (operations, admin, shop) = (&world.operations, &world.admin, world.shop);
    for text in ["one", "two"] {
        let document = json!({"identifier": "hi", "channels": {"sms": {"text": text}}});
        let document = TemplateDocument::read(document, TemplateProfile::App).unwrap();
        templates::put(operations, admin, shop, &document).await.unwrap();
    }
    assert_eq!(templates::restore(operations, admin, shop, "hi", 1).await.unwrap(), 3);
    let newest = templates::find(operations, admin, shop, "hi", None).await.unwrap();
    assert_eq!((newest.version, &newest.channels), (3, &json!({"sms": {"text": "one"}})));
    let second = templates::find(operations, admin, shop, "hi", Some(2)).await.unwrap();
    assert_eq!(second.channels, json!({"sms": {"text": "two"}}));
    let versions = templates::versions(operations, admin, shop, "hi", 2).await.unwrap();
    assert_eq!(versions.iter().map(|version| version.version).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(world.audit().await[0].after, Some(json!({"version": 3})));

    for (identifier, version, missing) in
        [("ho", None, Object::Template), ("hi", Some(9), Object::TemplateVersion)]
    {
        let error = templates::find(operations, admin, shop, identifier, version).await.unwrap_err();
        assert!(matches!(error, OperationError::NotFound(object) if object == missing), "{error}");
    }
}
