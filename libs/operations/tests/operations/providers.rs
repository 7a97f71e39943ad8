//! Providers and their secrets.

use std::sync::LazyLock;

use domain::{Channel, Problem};
use operations::OperationError;
use operations::providers::{self, Draft, KnownKind};
use serde_json::{Value, json};

use crate::world;

/// Reads the document of a provider whose settings need a `token`.
fn draft(settings: &Value) -> Draft {
    static KINDS: LazyLock<[KnownKind; 1]> = LazyLock::new(|| {
        let check = |settings: &Value| {
            let problem = || Problem::new("settings.token", "required", "settings.token is required");
            if settings["token"].is_string() { Ok(()) } else { Err(vec![problem()]) }
        };
        [KnownKind { channel: Channel::Sms, name: "pigeon", secrets: &["token"], check: Box::new(check) }]
    });
    let document = json!({"identifier": "main", "channel": "sms", "kind": "pigeon", "settings": settings});
    Draft::read(&*KINDS, document).unwrap()
}

#[tokio::test]
async fn a_secret_is_kept_until_it_is_replaced_or_removed_and_is_never_audited() {
    let world = world().await;
    let (operations, admin, shop) = (&world.operations, &world.admin, world.shop);
    let missing = providers::set(operations, admin, shop, &draft(&json!({}))).await.unwrap_err();
    assert!(matches!(missing, OperationError::Invalid(_)), "{missing}");

    let set = providers::set(operations, admin, shop, &draft(&json!({"token": "hunter2"}))).await.unwrap();
    assert_eq!((set.version, set.replaced, set.given, set.kept), (1, None, vec!["token"], vec![]));
    let omitted = draft(&json!({"region": "eu"}));
    assert!(providers::keeps_secrets(operations, admin, shop, &omitted).await.unwrap());
    let preview = providers::preview(operations, admin, shop, &omitted).await.unwrap();
    assert_eq!((preview.version, preview.replaced, preview.kept), (2, Some(1), vec!["token"]));
    let found = providers::find(operations, admin, shop, "main").await.unwrap().provider;
    assert_eq!((found.version, found.settings), (1, json!({})), "a preview changes nothing");

    let set = providers::set(operations, admin, shop, &omitted).await.unwrap();
    assert_eq!((set.version, set.replaced, set.given, set.kept), (2, Some(1), vec![], vec!["token"]));
    let found = providers::find(operations, admin, shop, "main").await.unwrap().provider;
    assert_eq!((found.has_secret, found.settings), (true, json!({"region": "eu"})));

    let audit = world.audit().await;
    assert_eq!(audit[0].action, "provider.set");
    assert_eq!(audit[0].before.as_ref().unwrap()["version"], 1);
    assert_eq!(audit[0].after.as_ref().unwrap()["version"], 2);
    assert!(!format!("{audit:?}").contains("hunter2"), "{audit:?}");
}

#[tokio::test]
async fn stored_secrets_are_opened_only_if_the_document_omits_one() {
    let world = world().await;
    let complete = draft(&json!({"token": "hunter2"}));
    providers::set(&world.operations, &world.admin, world.shop, &complete).await.unwrap();
    let without_key = world.without_key();
    providers::preview(&without_key, &world.admin, world.shop, &complete).await.unwrap();
    let refused = providers::preview(&without_key, &world.admin, world.shop, &draft(&json!({}))).await;
    assert!(matches!(refused, Err(OperationError::Defect(_))), "{refused:?}");
}
