//! The files of the browser clients: what a page loads of them, their minified forms, and their types.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::browser::{Browser, Window, demo};

/// Limits in bytes of what a browser receives, with headers, until the bell shows and until the list shows.
const BELL: u64 = 10_000;
const LIST: u64 = 17_000;
/// The same for the compressed bodies with gzip, which callers without Brotli get.
const GZIP: [(&str, usize); 2] = [("min/inbox.js", 9_500), ("min/panel.js", 8_000)];
/// Limits in bytes after `gzip -9` of the headless client and of the React wrapper.
const OTHERS: [(&str, usize); 2] = [("min/client.js", 6_000), ("react/index.js", 1_536)];

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients")
}

fn node() -> PathBuf {
    let node = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../node").canonicalize();
    node.expect("run `cargo xtask test --test browser` once")
}

/// Reads the scripts of a folder by name.
fn scripts(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let scripts = files.filter(|path| path.extension().is_some_and(|extension| extension == "js"));
    scripts
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[test]
fn the_minified_files_are_current() {
    let made = TempDir::new().unwrap();
    let bundled = Command::new("node")
        .arg(clients().join("bundle.mjs"))
        .arg(node().join("node_modules"))
        .arg(made.path())
        .output()
        .unwrap();
    assert!(bundled.status.success(), "{}", String::from_utf8_lossy(&bundled.stderr));
    let (current, kept) = (scripts(made.path()), scripts(&clients().join("min")));
    assert!(current == kept, "clients/min is out of date; run `cargo xtask bundles`");
}

#[test]
fn compressed_scripts_are_small() {
    for (file, limit) in [GZIP, OTHERS].concat() {
        let zipped =
            Command::new("gzip").args(["-9", "-c", file]).current_dir(clients()).output().unwrap().stdout;
        println!("{file}: {} bytes", zipped.len());
        assert!(
            (500..=limit).contains(&zipped.len()),
            "{file}: {} bytes, at most {limit} are allowed",
            zipped.len()
        );
    }
}

/// Returns the bytes of each client file that the window has received, with headers, in the order of their requests.
async fn received(browser: &mut Browser, window: &Window, files: &[&str]) -> Vec<u64> {
    let mut sizes = Vec::new();
    for file in files {
        let is_file = |event: &Value| {
            let url = event["params"]["request"]["url"].as_str().unwrap_or_default();
            event["method"] == "Network.requestWillBeSent" && url.contains("/clients/")
        };
        let request = browser.chromium.event("a file is requested", is_file).await["params"].clone();
        let url = request["request"]["url"].as_str().unwrap();
        assert!(url.ends_with(&format!("/clients/min/{file}")), "{url} is requested instead of {file}");
        let is_end = |event: &Value| {
            event["method"] == "Network.loadingFinished"
                && event["params"]["requestId"] == request["requestId"]
        };
        let end = browser.chromium.event("the file is loaded", is_end).await;
        sizes.push(end["params"]["encodedDataLength"].as_u64().unwrap());
        let text = format!("fetch('{url}').then((answer) => answer.text())");
        let text = browser.evaluate(window, &text).await;
        assert!(text == json!(fs::read_to_string(clients().join("min").join(file)).unwrap()), "{file}");
    }
    sizes
}

#[tokio::test]
async fn a_page_loads_one_small_file_for_the_bell_and_one_for_the_list() {
    let (running, _files) = demo().await;
    let mut browser = Browser::start(&running).await;
    let window = browser.open("ada").await;
    let root = "document.querySelector('tidings-inbox').shadowRoot";
    browser.evaluate(&window, &format!("{root}.querySelector('.bell').click()")).await;
    browser.until_true(&window, "the list shows", &format!("{root}.querySelector('h2') !== null")).await;
    let [bell, list] = received(&mut browser, &window, &["inbox.js", "panel.js"]).await[..] else {
        panic!("two files")
    };
    println!("bell: {bell} bytes; list: {} bytes", bell + list);
    assert!((1_000..=BELL).contains(&bell), "{bell} bytes for the bell, at most {BELL} are allowed");
    assert!(bell + list <= LIST, "{} bytes with the list, at most {LIST} are allowed", bell + list);
}

#[test]
fn the_types_of_the_scripts_are_sound() {
    let node = node();
    let clients = clients().canonicalize().unwrap();
    let folders = ["client", "inbox", "react", "demo"].map(|folder| clients.join(folder));
    let config = json!({
        "extends": clients.join("tsconfig.json"),
        // The wrapper imports React, which the page provides.
        "compilerOptions": {"paths": {"react": [node.join("node_modules/@types/react/index.d.ts")]}, "rootDir": "/"},
        "include": folders,
    });
    let file = node.join("tsconfig.json");
    fs::write(&file, config.to_string()).unwrap();
    let checked =
        Command::new(node.join("node_modules/.bin/tsc")).arg("--project").arg(file).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
