use std::collections::HashSet;

use local_servers::port;

#[test]
fn a_port_is_returned_only_once() {
    let given: Vec<_> = (0..50).map(|_| port::free().unwrap()).collect();
    assert_eq!(given.iter().collect::<HashSet<_>>().len(), given.len(), "{given:?}");
}
