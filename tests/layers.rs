//! Commands and handlers leave the rules to `operations`: they hardly call the faces of `store`.

use super::{files, read, report, root};

/// Files of the gateway and the program that call faces of `store`, each with the number of calls and the reason.
const CALLS: [(&str, usize, &str); 7] = [
    (
        "gateway/src/access/apps.rs",
        1,
        "finds the app of an API key, before the request has a caller that a use case could check",
    ),
    (
        "gateway/src/deliveries/callbacks/account.rs",
        1,
        "reads the token that proves a provider's signature, before the callback has a caller",
    ),
    (
        "gateway/src/realtime/rounds.rs",
        1,
        "reads the rows that the projection has committed, for all connected users; \
         each connection was opened by a caller that may read its inbox",
    ),
    (
        "gateway/src/realtime/feed.rs",
        1,
        "reads the checkpoint of its partition, from which it follows the stream",
    ),
    ("gateway/src/realtime/audience.rs", 1, "notices that the table of items was replaced by a rebuild"),
    (
        "gateway/src/realtime/lobby.rs",
        1,
        "looks for the users of all waiting connections in one statement; each connection has a verified caller",
    ),
    (
        "tidings/src/up/demo.rs",
        3,
        "sets the providers of the demo app to stand-ins of its own, with the store of its services",
    ),
];
const FACES: [&str; 7] =
    [".control()", ".directory()", ".sends()", ".deliveries()", ".inbox()", ".webhooks()", ".erasure()"];

/// Maximum number of calls in all files together.
const MOST_CALLS: usize = 9;

#[test]
fn handlers_and_commands_call_operations_instead_of_the_store() {
    let services = root().join("services");
    let mut problems = Vec::new();
    let mut total = 0;
    for file in ["gateway/src", "console/src", "tidings/src"]
        .iter()
        .flat_map(|folder| files(&services.join(folder), "rs"))
    {
        let calls = calls(&read(&file));
        total += calls;
        let name = file.strip_prefix(&services).unwrap().to_str().unwrap().to_owned();
        let allowed = CALLS.iter().find(|(known, ..)| *known == name).map_or(0, |(_, most, _)| *most);
        if calls != allowed {
            problems.push(format!(
                "services/{name} calls the store {calls} times, {allowed} are listed: call a function of `operations`, or \
                 correct the number in tests/layers.rs"
            ));
        }
    }
    if total > MOST_CALLS {
        problems.push(format!("{total} calls of the store in services, at most {MOST_CALLS} are allowed"));
    }
    report(&problems);
}

fn calls(text: &str) -> usize {
    FACES.iter().map(|face| text.matches(face).count()).sum()
}
