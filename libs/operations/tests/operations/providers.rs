//! Providers and their secrets.

use std::sync::LazyLock;

use domain::{Channel, Problem};
use operations::providers::{self, Draft, Expected, KnownKind};
use operations::{Conflict, OperationError};
use serde_json::{Value, json};

use crate::world;

/// Reads the document of a provider whose settings need a `token`.
fn draft(settings: &Value) -> Draft {
    static KINDS: LazyLock<[KnownKind; 1]> = LazyLock::new(|| {
        let check = |settings: &Value| {
            let problem = || Problem::new("settings.token", "required", "settings.token is required");
            if settings["token"].is_string() { Ok(()) } else { Err(vec![problem()]) }
        };
        [KnownKind {
            channel: Channel::Sms,
            name: "pigeon",
            example: "{}",
            secrets: &["token"],
            check: Box::new(check),
        }]
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

#[tokio::test]
async fn a_change_of_another_version_is_refused_and_a_reason_is_kept() {
    let world = world().await;
    let (operations, admin, shop) = (&world.operations, &world.admin, world.shop);
    let complete = draft(&json!({"token": "hunter2"}));
    let set = async |expected| providers::set_version(operations, admin, shop, &complete, expected).await;
    set(Expected::New).await.unwrap();
    assert!(matches!(set(Expected::New).await, Err(OperationError::Conflict(Conflict::NameTaken))));
    assert!(matches!(set(Expected::Version(2)).await, Err(OperationError::Conflict(Conflict::Changed))));
    assert_eq!(set(Expected::Version(1)).await.unwrap().version, 2);
    let switch = async |version, reason: &str| {
        providers::switch(operations, admin, shop, ("main", version), false, reason).await
    };
    assert!(matches!(switch(1, "maintenance").await, Err(OperationError::Conflict(Conflict::Changed))));
    for reason in [" ", "two\nlines", &"x".repeat(201)] {
        assert!(matches!(switch(2, reason).await, Err(OperationError::Invalid(_))), "{reason:?}");
    }
    assert_eq!(switch(2, " maintenance ").await.unwrap(), 3);
    let history = providers::history(operations, admin, shop, "main").await.unwrap();
    let actions: Vec<_> = history.iter().map(|change| change.action.as_str()).collect();
    assert_eq!(actions, ["provider.disable", "provider.set", "provider.set"]);
    assert_eq!((history[0].reason.as_deref(), history[0].by.as_str()), (Some("maintenance"), "cli:ada"));
    let removed = providers::remove_version(operations, admin, shop, "main", 2).await;
    assert!(matches!(removed, Err(OperationError::Conflict(Conflict::Changed))));
    providers::remove_version(operations, admin, shop, "main", 3).await.unwrap();
}
