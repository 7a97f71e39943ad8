//! Another release beside this one, with its own programs, under load. `side_by_side` simulates a newer release instead, and is part of the
//! normal tests.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use suite::retrying_client::{Call, RetryingClient};
use suite::{Name, Person, Role};
use testkit::eventually;

use crate::audience::{Audience, PEOPLE};
use crate::completeness;
use crate::load::Load;
use crate::system::System;

/// Environment variable with the directory of the other release's programs. `cargo xtask upgrade --beside` builds them.
const PROGRAMS: &str = "TIDINGS_TEST_OTHER_PROGRAMS";
const SOON: Duration = Duration::from_secs(60);
/// Number of sends between two replacements.
const SENDS: usize = 10;
/// Number of users who archive a notification while two releases run. Their inboxes are in different partitions.
const ARCHIVING: usize = 20;

/// The database is set up by the other release and then upgraded. The first process of each service becomes one of this release, then
/// the processes change places, and in the end all are of this release.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the programs of another release: cargo xtask upgrade --beside REVISION"]
async fn two_releases_beside_each_other_lose_nothing_and_send_nothing_twice() {
    let programs = env::var_os(PROGRAMS).expect("cargo xtask upgrade --beside REVISION sets the directory");
    let other = PathBuf::from(programs);
    let mut system = System::start_with(Some(&other), &[]).await;
    let client = RetryingClient::new(&system.origins(), &system.app);
    let audience = Audience::create(&client, &system.providers).await;
    let mut load = Load::begin(&client);
    load.await_sends(SENDS).await;

    print!("{}", system.environment.of_programs(None).tidings(&["migrate"]));
    load.await_sends(SENDS).await;
    replace_each(&mut system, &mut load, &[(1, None)]).await;
    let mut archived = archive(&system, 1, PEOPLE).await;
    load.await_sends(SENDS).await;
    replace_each(&mut system, &mut load, &[(1, Some(&other)), (2, None)]).await;
    archived.extend(archive(&system, 2, PEOPLE + ARCHIVING).await);
    load.await_sends(SENDS).await;
    replace_each(&mut system, &mut load, &[(1, None)]).await;

    let journal = load.end().await;
    system.assert_running();
    completeness::check(&system, &audience, &journal).await;
    let kept: Vec<String> =
        sqlx::query_scalar("SELECT id::text FROM inbox_item WHERE archived_at IS NOT NULL")
            .fetch_all(&system.database)
            .await
            .unwrap();
    assert_eq!(BTreeSet::from_iter(kept), archived, "archived notifications");
}

/// Replaces the processes with these numbers, for each service. None stands for the programs of this release.
async fn replace_each(system: &mut System, load: &mut Load, replacements: &[(usize, Option<&Path>)]) {
    for role in Role::ALL {
        for &(number, programs) in replacements {
            system.replace(Name { role, number }, programs).await;
            load.await_sends(SENDS).await;
        }
    }
}

/// Lets some users archive their newest notification. The first of them is `first`. They call the gateway with this number, which is of
/// this release. Checks that the gateway of the other release no longer lists the notifications. Returns their ids.
async fn archive(system: &System, number: usize, first: usize) -> BTreeSet<String> {
    let origins = system.origins();
    let of_gateway = |number: usize| RetryingClient::new(&origins[number - 1..number], &system.app);
    let (ours, theirs) = (of_gateway(number), of_gateway(3 - number));
    let mut archived = BTreeSet::new();
    for person in (first..first + ARCHIVING).map(Person) {
        let user = person.identifier();
        let id = eventually(SOON, "both gateways list the newest notification", async || {
            let (id, newest) = (listed(&ours, &user).await.into_iter().next()?, listed(&theirs, &user).await);
            (newest.first() == Some(&id)).then_some(id)
        })
        .await;
        let (status, answer) = call(&ours, "PUT", &format!("/v3/notifications/{id}/archive"), &user).await;
        assert!(status == 200 || status == 202, "{status}: {answer}");
        eventually(SOON, "the other gateway does not list the notification", async || {
            (!listed(&theirs, &user).await.contains(&id)).then_some(())
        })
        .await;
        archived.insert(id);
    }
    archived
}

/// Returns the ids of the user's newest notifications.
async fn listed(client: &RetryingClient, user: &str) -> Vec<String> {
    let (status, page) = call(client, "GET", "/v3/notifications?limit=20", user).await;
    assert_eq!(status, 200, "{page}");
    page["data"].as_array().unwrap().iter().map(|item| item["id"].to_string()).collect()
}

async fn call(client: &RetryingClient, method: &str, path: &str, user: &str) -> (u16, Value) {
    client.call(0, Call { method, path, user: Some(user), idempotency_key: None, body: None }).await
}
