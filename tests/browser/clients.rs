//! The files of the browser clients: their size, and their types.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

/// Limits in bytes after `gzip -9`: the files that a page loads to show the bell, those until it shows the list, the headless client
/// and the React wrapper.
const LIMITS: [(&str, &[&str], usize); 4] = [
    (
        "the bell",
        &["client/{api,box,changes,index,storage,stream,tabs}.js", "inbox/{dom,index,strings,style}.js"],
        15_000,
    ),
    ("the list", &["inbox/{panel,panel-style}.js"], 9_900),
    ("the headless client", &["client/{api,box,changes,index,storage,stream,tabs}.js"], 9_800),
    ("the React wrapper", &["react/*.js"], 1_536),
];

/// Files that are loaded when they are needed.
const LATER: [&str; 5] = ["hidden", "locales", "preferences", "push", "settings"];
/// Limits in bytes after `gzip -9` of what a page's bundler makes of an entry and the files that it always loads.
const BUNDLED: [(&str, usize); 2] = [("inbox/index.js", 16_200), ("client/index.js", 6_000)];

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients")
}

#[test]
fn the_scripts_of_the_clients_are_small() {
    for (what, files, limit) in LIMITS {
        let script = format!("cat {} | gzip -9 | wc -c", files.join(" "));
        let zipped = Command::new("bash").args(["-ec", &script]).current_dir(clients()).output().unwrap();
        let size: usize = String::from_utf8(zipped.stdout).unwrap().trim().parse().unwrap();
        println!("{what}: {size} bytes");
        assert!((1_000..=limit).contains(&size), "{what} has {size} bytes, at most {limit} are allowed");
    }
}

#[test]
fn bundled_scripts_are_small() {
    let esbuild = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../node/node_modules/.bin/esbuild");
    let esbuild = esbuild.canonicalize().expect("run `cargo xtask test --test browser` once");
    let later = LATER.map(|file| format!("--external:./{file}.js")).join(" ");
    for (entry, limit) in BUNDLED {
        let script =
            format!("{} {entry} --bundle --minify --format=esm {later} | gzip -9 | wc -c", esbuild.display());
        let zipped = Command::new("bash")
            .args(["-eo", "pipefail", "-c", &script])
            .current_dir(clients())
            .output()
            .unwrap();
        let size: usize = String::from_utf8(zipped.stdout).unwrap().trim().parse().unwrap();
        println!("{entry}, bundled: {size} bytes");
        assert!((1_000..=limit).contains(&size), "{entry} has {size} bytes, at most {limit} are allowed");
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
