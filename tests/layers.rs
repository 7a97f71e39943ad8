//! Commands and handlers leave the rules to `operations`: they hardly call the faces of `store`.

use super::{files, read, report, root};

/// Files of the program that call faces of `store`, each with its reason and the number of calls.
const CALLS: [(&str, usize, &str); 1] = [(
    "up/demo.rs",
    3,
    "sets the providers of the demo app to stand-ins of its own, with the store of its services",
)];
const FACES: [&str; 7] =
    [".control()", ".directory()", ".sends()", ".deliveries()", ".inbox()", ".webhooks()", ".erasure()"];

/// Maximum number of calls in the gateway. It only falls.
const MOST_CALLS_OF_THE_GATEWAY: usize = 49;

#[test]
fn the_gateway_calls_the_store_ever_less() {
    let calls: usize =
        files(&root().join("services/gateway/src"), "rs").iter().map(|file| calls(&read(file))).sum();
    assert!(
        calls <= MOST_CALLS_OF_THE_GATEWAY,
        "services/gateway/src calls the store {calls} times, at most {MOST_CALLS_OF_THE_GATEWAY} are allowed: call a \
         function of `operations`"
    );
}

#[test]
fn commands_call_operations_instead_of_the_store() {
    let folder = root().join("services/tidings/src");
    let mut problems = Vec::new();
    for file in files(&folder, "rs") {
        let calls = calls(&read(&file));
        let name = file.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
        let allowed = CALLS.iter().find(|(known, ..)| *known == name).map_or(0, |(_, most, _)| *most);
        if calls > allowed {
            problems.push(format!(
                "services/tidings/src/{name} calls the store {calls} times, at most {allowed} are allowed: call a function \
                 of `operations`"
            ));
        }
    }
    report(&problems);
}

fn calls(text: &str) -> usize {
    FACES.iter().map(|face| text.matches(face).count()).sum()
}
