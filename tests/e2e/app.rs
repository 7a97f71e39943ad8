//! `tidings app`: creates apps, and shows and rotates their credentials.

use credentials::secrets::sha256;

use crate::installation::Installation;

#[tokio::test]
async fn a_created_app_has_the_printed_credentials() {
    let installation = Installation::create().await;
    let created = installation.run(&["app", "create", "shop", "--json"]).json();
    let key = created["apiKey"].as_str().unwrap();
    let secret = created["apiSecret"].as_str().unwrap();
    let app = installation.store.control().app_by_key(key).await.unwrap().unwrap();
    assert_eq!((app.name.as_str(), app.development), ("shop", false));
    assert_eq!(created["id"], app.id.to_string());
    assert_eq!(app.secrets.len(), 1);
    assert!(installation.store.control().vapid_public_key(app.id).await.unwrap().is_some());
    assert!(installation.store.control().link_key(app.id).await.unwrap().is_some());
    assert_eq!(app.secrets[0].digest, sha256(secret.as_bytes()));

    let people = installation.run(&["app", "create", "test-shop", "--development"]);
    assert_eq!(people.code, 0, "{}", people.errors);
    assert!(
        people.output.contains("API secret") && people.output.contains("not shown again"),
        "{}",
        people.output
    );
    assert!(installation.store.control().app_by_name_or_id("test-shop").await.unwrap().unwrap().development);

    let listed = installation.run(&["app", "list", "--json"]);
    assert!(!listed.output.contains(secret));
    assert_eq!(listed.json()[0]["apiKey"], key);
    assert!(installation.run(&["app", "list"]).output.contains(key));
}

#[tokio::test]
async fn a_taken_name_exits_1_and_an_invalid_name_exits_2() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let taken = installation.run(&["app", "create", "shop"]);
    assert_eq!(taken.code, 1);
    assert!(taken.errors.contains("rotate-secret"), "{}", taken.errors);
    for bad in ["", "a\nb", &"x".repeat(256)] {
        assert_eq!(installation.run(&["app", "create", bad]).code, 2, "{bad:?}");
    }
    assert_eq!(installation.store.control().list_apps().await.unwrap().len(), 1);
}

#[tokio::test]
async fn rotated_credentials_are_printed_with_their_grace() {
    let installation = Installation::create().await;
    let created = installation.run(&["app", "create", "shop", "--json"]).json();
    let rotated = installation.run(&["app", "rotate-secret", "shop", "--grace", "1h", "--json"]).json();
    assert_eq!(rotated["apiKey"], created["apiKey"]);
    assert_ne!(rotated["apiSecret"], created["apiSecret"]);
    let unknown = installation.run(&["app", "rotate-secret", "shoe"]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.errors.contains("tidings app list"), "{}", unknown.errors);
    assert_eq!(installation.run(&["app", "rotate-secret", "shop", "--grace", "91days"]).code, 2);

    let link_key = installation.run(&["app", "link-key", "rotate", "shop", "--json"]).json();
    assert_eq!((&link_key["name"], &link_key["version"]), (&"shop".into(), &2.into()));
    let at_once = installation.run(&["app", "link-key", "rotate", "shop", "--grace", "0s"]);
    assert!(at_once.output.contains("become invalid within five seconds"), "{}", at_once.output);
    assert_eq!(installation.run(&["app", "link-key", "rotate", "shop", "--grace", "500d"]).code, 2);
}

#[tokio::test]
async fn the_credentials_that_calls_need_are_printed() {
    let installation = Installation::create().await;
    let created = installation.run(&["app", "create", "shop"]);
    for part in ["bearer token", "--open", "secure-mode=off"] {
        assert!(created.output.contains(part), "{part} is missing in {}", created.output);
    }
    let opened = installation.run(&["app", "create", "kiosk", "--open"]);
    assert!(opened.output.contains("secure-mode=on"), "{}", opened.output);
    let play = installation.run(&["app", "create", "play", "--development"]);
    assert!(play.output.contains("For development only"), "{}", play.output);
}
