//! Rules of the workspace: which crate may depend on which, how long a file may be, and that the paths and links in the
//! documentation exist. Every message says what to do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod evidence;
mod language;
mod layers;
mod migrations;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use service_kit::log_filter;

const LONGEST_FILE: usize = 400;
/// Maximum number of files that `ARCHITECTURE.md` names as the path of a send.
const MOST_FILES_OF_A_SEND: usize = 14;
/// Maximum total number of lines in these files.
const MOST_LINES_OF_A_SEND: usize = 3_500;
/// Maximum number of files in the closure of this path, and of their lines. Both only fall.
const MOST_FILES_OF_THE_CLOSURE: usize = 36;
const MOST_LINES_OF_THE_CLOSURE: usize = 7_500;
/// Crates of the workspace that each library and tool may depend on.
const EDGES: [(&str, &[&str]); 16] = [
    ("domain", &[]),
    ("sabotage", &[]),
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
            "operations",
            "sabotage",
            "store",
            "planning",
            "service-kit",
            "web",
        ],
    ),
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
const OWNED: [(&str, &[&str]); 5] = [
    ("async-nats", &["event-log"]),
    ("sqlx", &["store"]),
    ("actix-web", &["web", "gateway"]),
    ("lettre", &["email"]),
    ("minijinja", &["planning"]),
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

#[test]
fn no_file_is_longer_than_400_lines() {
    let long: Vec<String> = sources()
        .into_iter()
        .map(|path| (read(&path).lines().count(), path))
        .filter(|(lines, _)| *lines > LONGEST_FILE)
        .map(|(lines, path)| {
            format!("{}: {lines} lines, at most {LONGEST_FILE} are allowed; split the file", relative(&path))
        })
        .collect();
    report(&long);
}

#[test]
fn no_module_has_a_vague_name() {
    let vague = ["utils", "util", "common", "helpers", "helper", "manager", "types", "misc"];
    let found: Vec<String> = sources()
        .into_iter()
        .filter(|path| vague.iter().any(|name| path.file_stem().is_some_and(|stem| stem == *name)))
        .map(|path| format!("{}: name the file after the one thing that it contains", relative(&path)))
        .collect();
    report(&found);
}

#[test]
fn tests_wait_for_a_condition_and_never_pause() {
    let pause = ["sleep", "("].concat();
    let found: Vec<String> = sources()
        .into_iter()
        .filter(|path| relative(path).split('/').any(|part| part == "tests"))
        .filter(|path| read(path).contains(&pause))
        .map(|path| format!("{}: wait for a condition with testkit::eventually", relative(&path)))
        .collect();
    report(&found);
}

#[test]
fn tests_use_the_server_versions_of_docker_compose() {
    let compose = read(&root().join("docker-compose.yml"));
    let containers = ["libs/local-servers/src/container.rs", "xtask/src/containers.rs"]
        .map(|file| read(&root().join(file)));
    for server in ["postgres:", "nats:"] {
        let image =
            compose.lines().find_map(|line| line.trim().strip_prefix("image: ")?.strip_prefix(server));
        let quoted = format!("\"{server}{}\"", image.unwrap());
        assert!(containers.iter().all(|file| file.contains(&quoted)), "{quoted}");
    }
}

#[test]
fn paths_and_links_in_the_documentation_exist() {
    let mut problems = Vec::new();
    for page in pages() {
        let text = read(&page);
        let folder = page.parent().unwrap();
        for target in links(&text).filter(|target| !folder.join(target).exists()) {
            problems.push(format!("{}: the link target {target} does not exist", relative(&page)));
        }
        for path in quoted_paths(&text).filter(|path| !root().join(path).exists()) {
            problems.push(format!("{}: `{path}` does not exist", relative(&page)));
        }
    }
    report(&problems);
}

/// The log filter selects log lines by a prefix of their target. To select only ours, it must list each of our crates, and
/// exclude each dependency whose name begins with the name of one of our crates.
#[test]
fn a_log_level_without_a_target_applies_to_exactly_our_own_crates() {
    let target = |name: &str| name.replace('-', "_");
    let ours: Vec<_> = packages().iter().map(|package| target(&package.name)).collect();
    let mut problems: Vec<_> = ours
        .iter()
        .filter(|name| {
            !["suite", "xtask"].contains(&name.as_str()) && !log_filter::OWN.contains(&name.as_str())
        })
        .map(|name| format!("add {name} to OWN in libs/service-kit/src/log_filter.rs"))
        .collect();
    let lock = read(&root().join("Cargo.lock"));
    let locked =
        lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).map(target);
    for name in locked.filter(|name| !ours.contains(name)) {
        if log_filter::OWN.iter().any(|own| name.starts_with(own))
            && !log_filter::NAMESAKES.contains(&name.as_str())
        {
            problems.push(format!("add {name} to NAMESAKES in libs/service-kit/src/log_filter.rs"));
        }
    }
    report(&problems);
}

/// A new developer reads the files of this section first, so there is a limit on their number and total length.
#[test]
fn the_path_of_a_send_gets_no_longer() {
    let page = read(&root().join("ARCHITECTURE.md"));
    let section = page.split("\n## The path of a send\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let path: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
    let closure: Vec<_> = quoted_paths(section).collect();
    let limits = [
        ("the path", path, MOST_FILES_OF_A_SEND, MOST_LINES_OF_A_SEND),
        ("its closure", closure, MOST_FILES_OF_THE_CLOSURE, MOST_LINES_OF_THE_CLOSURE),
    ];
    for (name, files, most_files, most_lines) in limits {
        let lines: usize = files.iter().map(|file| read(&root().join(file)).lines().count()).sum();
        assert!(files.len() <= most_files, "{name} has {} files, at most {most_files}", files.len());
        assert!(lines <= most_lines, "{name} has {lines} lines, at most {most_lines}");
    }
}

#[test]
fn deployment_files_name_every_service() {
    let folders = std::fs::read_dir(root().join("services")).unwrap();
    let services = folders.map(|folder| folder.unwrap().file_name().into_string().unwrap());
    for service in services.filter(|name| name != "tidings") {
        for file in
            ["services", "compose/external.yml", "observability/prometheus.yml", "helm/tidings/values.yaml"]
        {
            let text = read(&root().join("deploy").join(file));
            let mut words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '-');
            assert!(words.any(|word| word == service), "deploy/{file} lacks {service}");
        }
    }
}

/// Returns the files to which the Markdown links of a text point, with any `#fragment` removed.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', '#', ' ']).next()?;
        (!target.is_empty() && !target.contains("://") && !target.starts_with("mailto:")).then_some(target)
    })
}

/// Paths in backticks that begin with a folder of the repository, or are the name of a file in its root.
fn quoted_paths(text: &str) -> impl Iterator<Item = &str> {
    let tops = ["libs/", "services/", "tests/", "xtask/", "docs/", "deploy/", ".ci/", ".config/", ".cargo/"];
    text.split('`').skip(1).step_by(2).filter(move |quoted| {
        let plain = !quoted.contains(|letter: char| letter.is_whitespace() || "<>{}*:…".contains(letter));
        let at_root =
            !quoted.contains('/') && [".md", ".toml", ".yml"].iter().any(|ending| quoted.ends_with(ending));
        plain
            && (tops.iter().any(|top| quoted.starts_with(top))
                || (at_root && quoted.starts_with(char::is_uppercase)))
    })
}

/// A member of the workspace, and its dependencies except dev-dependencies.
struct Package {
    name: String,
    manifest: PathBuf,
    uses: Vec<String>,
}

fn packages() -> Vec<Package> {
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

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn sources() -> Vec<PathBuf> {
    ["libs", "services", "tests", "xtask"]
        .iter()
        .flat_map(|folder| files(&root().join(folder), "rs"))
        .collect()
}

fn pages() -> Vec<PathBuf> {
    let at_root = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
        .map(|name| root().join(name));
    at_root.into_iter().chain(files(&root().join("docs"), "md")).collect()
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found
}

fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}
