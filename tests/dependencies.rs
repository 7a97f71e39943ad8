//! Rules for dependencies: which crate may use which, and the libraries of which there is one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::{read, report, root};

/// Crates of the workspace that each library and tool may depend on.
const EDGES: [(&str, &[&str]); 18] = [
    ("domain", &[]),
    ("sabotage", &[]),
    ("handbook", &[]),
    ("event-log", &["domain"]),
    ("store", &["domain", "sabotage"]),
    ("planning", &["domain", "store"]),
    ("credentials", &["domain", "store"]),
    (
        "operations",
        &["credentials", "domain", "event-log", "fairness", "planning", "sabotage", "service-kit", "store"],
    ),
    ("service-kit", &["credentials", "domain", "event-log", "store"]),
    ("worker", &["credentials", "domain", "event-log", "sabotage", "store", "service-kit"]),
    (
        "gateway",
        &[
            "credentials",
            "domain",
            "event-log",
            "fairness",
            "handbook",
            "operations",
            "sabotage",
            "store",
            "planning",
            "service-kit",
            "web",
        ],
    ),
    ("console", &["credentials", "domain", "operations", "service-kit", "store", "web"]),
    ("fairness", &["domain"]),
    ("web", &["credentials", "domain", "fairness", "operations", "service-kit", "store"]),
    ("stand-ins", &["domain"]),
    ("local-servers", &[]),
    ("testkit", &["credentials", "domain", "event-log", "local-servers", "service-kit", "store"]),
    ("xtask", &[]),
];

/// Crates that a service may depend on. No service may depend on another.
const SERVICE_EDGES: [&str; 9] = [
    "credentials",
    "domain",
    "event-log",
    "operations",
    "sabotage",
    "store",
    "planning",
    "service-kit",
    "worker",
];

/// Third-party crates, each with the only crates of the workspace that may depend on it. This does not apply to test code and the
/// crates of [`EXEMPT`].
const OWNED: [(&str, &[&str]); 7] = [
    ("async-nats", &["event-log"]),
    ("sqlx", &["store"]),
    ("actix-web", &["web", "gateway", "console"]),
    ("lettre", &["email"]),
    ("minijinja", &["planning"]),
    ("mrml", &["planning"]),
    ("htmlparser", &["planning"]),
];
const EXEMPT: [&str; 3] = ["local-servers", "testkit", "suite"];

/// Crates that `domain` must not depend on, because it must do no I/O, never wait, and use no random numbers.
const NOT_IN_DOMAIN: [&str; 10] = [
    "tokio",
    "tokio-util",
    "futures-util",
    "sqlx",
    "async-nats",
    "reqwest",
    "hyper",
    "actix-web",
    "lettre",
    "rand",
];

/// Crates that `operations` must not depend on, because commands, the API and the console all call it.
const NOT_IN_OPERATIONS: [&str; 4] = ["actix-web", "clap", "hyper", "reqwest"];

/// Crates that must not be in the dependency tree: the only TLS library is rustls, the only cryptography provider is aws-lc.
const NOT_IN_THE_TREE: [&str; 4] = ["ring", "openssl-sys", "openssl", "native-tls"];
/// Crates that must be in the dependency tree in exactly one version.
const ONE_VERSION: [&str; 2] = ["rustls", "aws-lc-sys"];

#[test]
fn crates_depend_only_on_allowed_crates() {
    let mut problems = Vec::new();
    for package in packages() {
        for used in package.uses.iter().filter(|used| is_of_the_workspace(used)) {
            if !may_use(&package, used) {
                problems.push(format!(
                    "{} must not depend on {used}: move the shared code into a library",
                    package.name
                ));
            }
        }
    }
    report(&problems);
}

fn may_use(package: &Package, used: &str) -> bool {
    if let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == package.name) {
        return allowed.contains(&used);
    }
    match package.name.as_str() {
        "tidings" | "suite" => true,
        _ => SERVICE_EDGES.contains(&used),
    }
}

#[test]
fn only_its_owner_depends_on_a_third_party_crate() {
    let mut problems = Vec::new();
    for package in packages().iter().filter(|package| !EXEMPT.contains(&package.name.as_str())) {
        for (owned, owners) in OWNED {
            if package.uses.iter().any(|used| used == owned) && !owners.contains(&package.name.as_str()) {
                problems.push(format!(
                    "{} must not depend on {owned}: add the needed function to {}",
                    package.name, owners[0]
                ));
            }
        }
        if package.name == "domain" {
            for used in package.uses.iter().filter(|used| NOT_IN_DOMAIN.contains(&used.as_str())) {
                problems.push(format!("domain must not depend on {used}: pass the data as arguments"));
            }
        }
        if package.name == "operations" {
            for used in package.uses.iter().filter(|used| NOT_IN_OPERATIONS.contains(&used.as_str())) {
                problems.push(format!("operations must not depend on {used}: leave it to the caller"));
            }
        }
    }
    report(&problems);
}

#[test]
fn every_crate_uses_the_lints_of_the_workspace() {
    let without: Vec<String> = packages()
        .iter()
        .filter(|package| !read(&package.manifest).contains("[lints]\nworkspace = true"))
        .map(|package| format!("{}: add `[lints]` with `workspace = true`", package.manifest.display()))
        .collect();
    report(&without);
}

#[test]
fn one_tls_library_and_one_provider_of_cryptography() {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in output(
        "cargo",
        &[
            "tree",
            "--workspace",
            "--all-features",
            "--locked",
            "--edges=normal,build,dev",
            "--prefix=none",
            "--format={p}",
        ],
    )
    .lines()
    {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(version)) = (words.next(), words.next()) {
            let known = versions.entry(name.to_owned()).or_default();
            if !known.contains(&version.to_owned()) {
                known.push(version.to_owned());
            }
        }
    }
    let mut problems: Vec<String> = NOT_IN_THE_TREE
        .iter()
        .filter(|name| versions.contains_key(**name))
        .map(|name| {
            format!(
                "{name} is in the dependency tree: run `cargo tree -i {name}`, and turn off the feature that adds it"
            )
        })
        .collect();
    for name in ONE_VERSION {
        let found = versions.get(name).map_or(&[][..], Vec::as_slice);
        if found.len() != 1 {
            problems.push(format!(
                "{name} must be in the dependency tree in exactly one version, found {found:?}: see `cargo tree -i {name}`"
            ));
        }
    }
    report(&problems);
}

/// A member of the workspace, and its dependencies except dev-dependencies.
pub(super) struct Package {
    pub(super) name: String,
    manifest: PathBuf,
    uses: Vec<String>,
}

pub(super) fn packages() -> Vec<Package> {
    let metadata = output("cargo", &["metadata", "--no-deps", "--offline", "--format-version=1"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let package = |package: &Value| Package {
        name: package["name"].as_str().unwrap().to_owned(),
        manifest: PathBuf::from(package["manifest_path"].as_str().unwrap()),
        uses: package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|dependency| dependency["kind"] != "dev")
            .map(|dependency| dependency["name"].as_str().unwrap().to_owned())
            .collect(),
    };
    metadata["packages"].as_array().unwrap().iter().map(package).collect()
}

fn is_of_the_workspace(name: &str) -> bool {
    ["libs", "services"].iter().any(|folder| root().join(folder).join(name).exists())
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
