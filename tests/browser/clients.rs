//! The files of the browser clients: their size, and their types.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

/// Limits in bytes after `gzip -9`, of the files that a page loads first.
const LIMITS: [(&str, &[&str], usize); 3] = [
    ("the headless client", &["client"], 9_900),
    ("the component with the client", &["client", "inbox"], 23_000),
    ("the React wrapper", &["react"], 1_536),
];
/// Files that a page loads later, if at all.
const LATER: [&str; 1] = ["locales.js"];

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients")
}

/// Returns the scripts of these folders, with those that are loaded first before the others.
fn first_scripts(folders: &[&str]) -> Vec<PathBuf> {
    let mut scripts: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(clients().join(folder)).unwrap())
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "js"))
        .filter(|path| !LATER.contains(&path.file_name().unwrap().to_str().unwrap()))
        .collect();
    scripts.sort();
    scripts
}

#[test]
fn the_scripts_that_a_page_loads_first_are_small() {
    for (what, folders, limit) in LIMITS {
        let zipped = Command::new("sh")
            .args(["-c", r#"cat "$@" | gzip -9 | wc -c"#, "sh"])
            .args(first_scripts(folders))
            .output()
            .unwrap();
        let size: usize = String::from_utf8(zipped.stdout).unwrap().trim().parse().unwrap();
        println!("{what}: {size} bytes");
        assert!(size <= limit, "{what} has {size} bytes, at most {limit} are allowed");
    }
}

#[test]
fn the_types_of_the_scripts_are_sound() {
    let node = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../node").canonicalize();
    let node = node.expect("run `cargo xtask test --test browser` once");
    let clients = clients().canonicalize().unwrap();
    let folders = ["client", "inbox", "react", "demo"].map(|folder| clients.join(folder));
    let config = json!({
        "extends": clients.join("tsconfig.json"),
        // The wrapper imports React, which the page provides.
        "compilerOptions": {"paths": {"react": [node.join("node_modules/@types/react/index.d.ts")]}, "rootDir": "/"},
        "include": folders,
    });
    let file = node.join("tsconfig.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let checked =
        Command::new(node.join("node_modules/.bin/tsc")).arg("--project").arg(file).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
