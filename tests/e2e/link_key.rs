//! `tidings app link-key`: revokes the links of one app.

use credentials::link::{Link, Links, Purpose};
use domain::{CategoryId, UserNumber};
use service_kit::clock;

use crate::installation::Installation;

#[tokio::test]
async fn rotating_the_link_key_revokes_links_after_its_grace() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let app = installation.store.control().app_by_name_or_id("shop").await.unwrap().unwrap().id;
    // Each call creates a new instance with an empty key cache, like a process that has just started.
    let links = || Links::new(installation.store.clone(), installation.master_key.clone(), clock::now);
    let link = Link { app, user: UserNumber(7), purpose: Purpose::Unsubscribe(CategoryId(3)) };
    let token = links().sign(&link).await.unwrap();

    let printed = installation.run(&["app", "link-key", "rotate", "shop", "--json"]).json();
    assert_eq!((&printed["name"], &printed["version"]), (&"shop".into(), &2.into()));
    assert_eq!(links().verify(&token).await.unwrap(), Some(link), "the link is valid for 60 more days");
    let printed = installation.run(&["app", "link-key", "rotate", "shop", "--grace", "0s"]);
    assert!(printed.output.contains("become invalid within five seconds"), "{}", printed.output);
    assert_eq!(links().verify(&token).await.unwrap(), None);
    let renewed = links().sign(&link).await.unwrap();
    assert_eq!(links().verify(&renewed).await.unwrap(), Some(link));

    let refused = installation.run(&["app", "link-key", "rotate", "shop", "--grace", "500d"]);
    assert_eq!(refused.code, 2, "{}", refused.errors);
    assert_eq!(installation.run(&["app", "link-key", "rotate", "nobody"]).code, 1);
}
