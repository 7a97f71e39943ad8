//! `tidings users`: lists and finds users, with their addresses masked.

use serde_json::{Value, json};

use crate::installation::Installation;

#[tokio::test]
async fn users_are_found_and_their_addresses_are_masked_unless_revealed() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let app = installation.store.control().app_by_name_or_id("shop").await.unwrap().unwrap().id;
    for (user, profile) in [
        ("ada", json!({"email": "ada@example.com", "phoneNumber": "+49 151 12345678"})),
        ("bob", json!({"name": "Adam"})),
        ("cyd", json!({})),
    ] {
        let Value::Object(pairs) = profile else { panic!() };
        installation.store.directory().merge_user(app, user, pairs).await.unwrap();
    }
    let found = |arguments: &[&str]| {
        let listed = installation.run(&[&["users", "shop", "--json"], arguments].concat()).json();
        let users = listed["data"].as_array().unwrap().iter();
        users.map(|user| user["identifier"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(&[]), ["ada", "bob", "cyd"]);
    assert_eq!(found(&["--email", "ADA@example.com"]), ["ada"]);
    assert_eq!(found(&["--phone", "+49 (151) 1234-5678"]), ["ada"]);
    assert_eq!(found(&["--q", "Ada"]), ["ada", "bob"]);
    assert!(found(&["--q", "x"]).is_empty());

    let masked = installation.run(&["users", "shop", "--limit", "1"]);
    assert!(masked.output.contains("a***@example.com  +***78"), "{}", masked.output);
    assert!(masked.output.contains("There may be more: --after 1 continues."), "{}", masked.output);
    for search in [&[][..], &["--q", "ada"]] {
        let page = [&["users", "shop", "--limit", "1", "--json"], search].concat();
        let first = installation.run(&page).json();
        let next = first["next"].as_str().unwrap();
        let second = installation.run(&[&page[..], &["--after", next]].concat()).json();
        assert_eq!(second["data"][0]["identifier"], "bob", "{search:?}");
    }
    assert_eq!(installation.run(&["users", "shop", "--after", "x"]).code, 2);
    let revealed = installation.run(&["users", "shop", "--q", "ada", "--reveal"]);
    assert!(revealed.output.contains("ada@example.com  +49 151 12345678"), "{}", revealed.output);
    assert_eq!(installation.run(&["users", "shop", "--q", "a", "--email", "b"]).code, 2);
    assert_eq!(installation.run(&["users", "bank"]).code, 1);
}
