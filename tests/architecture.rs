//! Rules of the workspace: which crate may depend on which, how much a module may offer, and that the paths and links in the
//! documentation exist. Every message says what to do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod dependencies;
mod evidence;
mod language;
mod layers;
mod migrations;

use std::path::{Path, PathBuf};

use service_kit::log_filter;

use dependencies::packages;

/// Maximum number of functions, types and constants that one module offers to others.
const MOST_ITEMS: usize = 26;
/// Modules that are a list.
const LISTS: [&str; 1] = ["libs/service-kit/src/metrics.rs"];
/// Maximum number of files that `ARCHITECTURE.md` names as the path of a send.
const MOST_FILES_OF_A_SEND: usize = 14;
/// Maximum total number of lines in these files.
const MOST_LINES_OF_A_SEND: usize = 3_200;
/// Maximum number of files in the closure of this path, and of their lines. Both only fall.
const MOST_FILES_OF_THE_CLOSURE: usize = 36;
const MOST_LINES_OF_THE_CLOSURE: usize = 7_200;

/// Clippy limits the length of functions. The length of files has no limit, because that would divide a type where the limit is.
#[test]
fn no_module_offers_too_much() {
    let large: Vec<String> = sources()
        .into_iter()
        .filter(|path| relative(path).contains("/src/") && !LISTS.contains(&&*relative(path)))
        .map(|path| (offered_items(&read(&path)), path))
        .filter(|(items, _)| *items > MOST_ITEMS)
        .map(|(items, path)| {
            format!(
                "{}: {items} items that others can use, at most {MOST_ITEMS}; divide it by subject",
                relative(&path)
            )
        })
        .collect();
    report(&large);
}

/// Counts the functions, types and constants of a module that are visible outside it.
fn offered_items(text: &str) -> usize {
    let items = ["fn", "struct", "enum", "trait", "type", "static"];
    text.lines()
        .filter_map(|line| {
            let (visibility, rest) = line.trim_start().split_once(' ')?;
            (visibility == "pub" || visibility.starts_with("pub(")).then_some(rest)
        })
        .filter(|rest| {
            let mut words = rest.split(' ').skip_while(|word| ["async", "const", "unsafe"].contains(word));
            rest.starts_with("const ") || words.next().is_some_and(|word| items.contains(&word))
        })
        .count()
}

#[test]
fn items_that_others_can_use_are_counted() {
    let text = "pub struct A {\n    pub field: u8,\n}\nfn own() {}\nimpl A {\n    pub(crate) const fn new() {}\n    pub async fn f() {}\n}\n\
        pub(super) const LIMIT: u8 = 1;\npub use other::B;\npub mod c;\n";
    assert_eq!(offered_items(text), 4);
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
