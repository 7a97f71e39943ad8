//! `tidings parked`: lists, shows and redrives parked messages.

use domain::{Lane, SendId, StreamName};
use store::database::failure::ParkRequest;
use uuid::Uuid;

use crate::installation::Installation;

#[tokio::test]
async fn parked_messages_are_listed_shown_and_redriven_once() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let app = installation.store.control().app_by_name_or_id("shop").await.unwrap().unwrap().id;
    let (id, send_id) = (Uuid::from_u128(5), SendId(Uuid::from_u128(7)));
    let stream = StreamName::Send(Lane::Bulk);
    let aside = ParkRequest {
        id,
        app: Some(app),
        send_id: Some(send_id),
        stream,
        seq: 1,
        message: b"{",
        cause: "malformed",
    };
    installation.store.database().park_message(&aside).await.unwrap();

    let people = installation.run(&["parked", "list"]);
    assert_eq!(people.code, 0, "{}", people.errors);
    assert!(people.output.contains("malformed") && people.output.contains("shop"), "{}", people.output);
    let shown = installation.run(&["parked", "show", &id.to_string(), "--json"]).json();
    assert_eq!(
        (shown["what"].as_str(), shown["requestId"].as_str()),
        (Some("send"), Some(&*send_id.to_string()))
    );

    let found = |arguments: &[&str]| {
        let listed = installation.run(&[&["parked", "list", "--json"], arguments].concat()).json();
        listed.as_array().unwrap().len()
    };
    assert_eq!(found(&["--cause", "malformed", "--since", "1h"]), 1);
    for other in [["--cause", "535"], ["--provider", "main"], ["--category", "orders"], ["--before", "1h"]] {
        assert_eq!(found(&other), 0, "{other:?}");
    }
    let none = installation.run(&["parked", "redrive", "--app", "shop", "--before", "1h"]);
    assert_eq!((none.code, none.output.as_str()), (0, "Redrove 0 of 0.\n"));
    let dry = installation.run(&["parked", "redrive", "--app", "shop", "--dry-run"]);
    assert!(dry.output.starts_with("Would redrive 1 of 1.\n"), "{}", dry.output);
    let done = installation.run(&["parked", "redrive", "--app", "shop", "--json"]).json();
    assert_eq!((&done["redriven"], &done["dryRun"]), (&1.into(), &false.into()));
    assert_eq!(installation.store.deliveries().due_timers(10).await.unwrap().timers.len(), 1);
    let again = installation.run(&["parked", "redrive", "--all"]);
    assert_eq!((again.code, again.output.as_str()), (0, "Redrove 0 of 0.\n"));
}

#[tokio::test]
async fn a_redrive_requires_a_selection() {
    let installation = Installation::create().await;
    assert_eq!(installation.run(&["parked", "redrive"]).code, 2);
    assert_eq!(installation.run(&["parked", "redrive", "--channel", "fax"]).code, 2);
    assert_eq!(installation.run(&["parked", "redrive", "--all", "--app", "shop"]).code, 2);
    assert_eq!(installation.run(&["parked", "redrive", "--all", "--cause", "535"]).code, 2);
    assert_eq!(installation.run(&["parked", "list", "--since", "yesterday"]).code, 2);
    assert_eq!(installation.run(&["parked", "list", "--app", "nobody"]).code, 1);
    assert_eq!(installation.run(&["parked", "show", &Uuid::nil().to_string()]).code, 1);
}
