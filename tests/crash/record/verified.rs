//! What the operators' own comparison says.

use std::process::Command;

use serde_json::Value;

use crate::scene::Scene;

/// The answer of `tidings verify --json`, which replays the log into fresh tables.
pub(super) fn verified(scene: &Scene) -> Value {
    let environment = scene.environment.iter().map(|(name, value)| (name, value));
    let mut verify = Command::new(testkit::binary("tidings"));
    let output = verify.args(["verify", "--json"]).envs(environment).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}
