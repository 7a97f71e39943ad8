//! Commands leave the rules to `operations`: they hardly call the faces of `store`.

use super::{files, read, report, root};

/// Files of the program that call faces of `store`, each with its reason and the number of calls.
const CALLS: [(&str, usize, &str); 1] = [(
    "up/demo.rs",
    3,
    "sets the providers of the demo app to stand-ins of its own, with the store of its services",
)];
const FACES: [&str; 7] =
    [".control()", ".directory()", ".sends()", ".deliveries()", ".inbox()", ".webhooks()", ".erasure()"];

#[test]
fn commands_call_operations_instead_of_the_store() {
    let folder = root().join("services/tidings/src");
    let mut problems = Vec::new();
    for file in files(&folder, "rs") {
        let text = read(&file);
        let calls: usize = FACES.iter().map(|face| text.matches(face).count()).sum();
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
