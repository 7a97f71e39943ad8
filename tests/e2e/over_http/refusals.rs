//! Refusals of commands through a console, and reports of failures on the way.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::Twins;
use crate::directory::Directory;

const TOKEN: &str = "tdga_0123456789abcdef";

/// Answers every request with this text, and records the request first. Returns the URL, the recorded requests and the server.
async fn answering(answer: &'static str) -> (String, Arc<Mutex<Vec<String>>>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let recorded = requests.clone();
    let server = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 4_096];
            let read = stream.read(&mut head).await.unwrap();
            recorded.lock().unwrap().push(String::from_utf8_lossy(&head[..read]).into_owned());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (url, requests, server)
}

fn list(directory: &Directory, url: &str) -> crate::directory::Answer {
    directory.run_with(&["app", "list", "--url", url], &[("TIDINGS_TOKEN", TOKEN)], "")
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_on_the_way_are_one_sentence_and_never_show_the_token() {
    let directory = Directory::new();
    for (answer, part) in [
        (
            "HTTP/1.1 302 Found\r\nLocation: https://sso.example.com/start?rd=x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            "redirects to https://sso.example.com:",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\nConnection: close\r\n\r\n<a/>",
            "text/html instead of JSON",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3\r\nConnection: close\r\n\r\n<a>",
            "instead of JSON",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\nConnection: close\r\n\r\n{\"a\": 1}",
            "another release",
        ),
        (
            "HTTP/1.1 503 Unavailable\r\nContent-Type: application/json\r\nContent-Length: 48\r\nConnection: close\r\n\r\n{\"code\":\"unavailable\",\"message\":\"repeat it now\"}",
            "repeat it now",
        ),
        ("nonsense", "cannot be reached"),
    ] {
        let (url, requests, server) = answering(answer).await;
        let failed = list(&directory, &url);
        assert_eq!(failed.code, 1, "{answer}: {failed:?}");
        assert!(failed.errors.contains(part), "{part}: {failed:?}");
        assert_eq!((failed.errors.lines().count(), failed.output.as_str()), (1, ""), "{failed:?}");
        assert!(!failed.errors.contains(TOKEN), "{failed:?}");
        server.abort();
        assert!(server.await.unwrap_err().is_cancelled(), "the server has not failed before");
        let requests = requests.lock().unwrap();
        assert_eq!(requests.len(), 1, "{requests:?}");
        assert!(requests[0].contains(TOKEN), "the token is in the request only");
    }
    let port = local_servers::port::free().unwrap();
    for (url, part) in [
        (format!("http://127.0.0.1:{port}"), "cannot be reached"),
        (format!("https://127.0.0.1:{port}"), "cannot be reached"),
    ] {
        let failed = list(&directory, &url);
        assert_eq!(failed.code, 1, "{failed:?}");
        assert!(failed.errors.contains(part) && failed.errors.contains(&url), "{failed:?}");
    }
}

#[test]
fn arguments_that_contradict_each_other_exit_2() {
    let directory = Directory::new();
    let run = |arguments: &[&str], variables: &[(&str, &str)]| directory.run_with(arguments, variables, "");
    let token = ("TIDINGS_TOKEN", TOKEN);
    for (arguments, variables, part) in [
        (&["app", "list", "--url", "http://console.example.com"][..], &[token][..], "use https"),
        (&["app", "list", "--url", "ftp://127.0.0.1"], &[token], "use https"),
        (&["app", "list", "--url", "https://a:b@c.example.com"], &[token], "without a user"),
        (&["app", "list", "--url", "https://c.example.com/?a=b"], &[token], "a query"),
        (&["app", "list", "--url", "console"], &[token], "not a URL"),
        (&["app", "list", "--url", "https://c.example.com"], &[], "TIDINGS_TOKEN"),
        (&["app", "list", "--token", TOKEN], &[], "TIDINGS_URL"),
        (&["app", "list", "--token", TOKEN, "--token-file", "x"], &[], "cannot be used with"),
        (&["app", "list", "--url", "https://c.example.com", "--data-dir", "x"], &[token], "give one of them"),
        (&["app", "list", "--url", "https://c.example.com", "--config", "x"], &[token], "give one of them"),
        (&["migrate", "--url", "https://c.example.com"], &[token], "needs the database"),
        (&["run", "gateway", "--url", "https://c.example.com"], &[token], "needs the database"),
        (&["verify", "--url", "https://c.example.com"], &[token], "needs the database"),
        (&["restore", "--url", "https://c.example.com"], &[token], "needs the database"),
        (&["rebuild", "inbox", "--url", "https://c.example.com"], &[token], "needs the database"),
        (&["master-key", "status", "--url", "https://c.example.com"], &[token], "needs the database"),
        (
            &["smoke", "--api", "http://a.example", "--url", "https://c.example.com"],
            &[token],
            "needs the database",
        ),
        (&["parked", "redrive", "--all", "--url", "https://c.example.com"], &[token], "needs the database"),
        (
            &["parked", "redrive", "--all"],
            &[token, ("TIDINGS_URL", "https://c.example.com")],
            "without TIDINGS_URL",
        ),
        (&["webhook", "test", "shop", "x", "--url", "https://c.example.com"], &[token], "needs the database"),
    ] {
        let refused = run(arguments, variables);
        assert_eq!(refused.code, 2, "{arguments:?}: {refused:?}");
        assert!(refused.errors.contains(part), "{arguments:?}: {refused:?}");
        assert!(!refused.errors.contains("tdga_"), "{arguments:?}: {refused:?}");
    }
    let help = run(&["app", "list", "--help"], &[token]);
    assert!(help.output.contains("--url") && !help.output.contains(TOKEN), "{}", help.output);
}

#[tokio::test]
async fn the_role_of_the_token_decides_and_variables_and_files_name_console_and_token() {
    let twins = Twins::start().await;
    let viewer =
        twins.do_now(&["token", "create", "viewer", "--role", "viewer", "--app", "shop", "--json"], "");
    let viewer = viewer["token"].as_str().unwrap();
    let as_viewer = |arguments: &[&str]| twins.call(arguments, &[("TIDINGS_TOKEN", viewer)], "");
    let listed = as_viewer(&["app", "list", "--json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    let refused = as_viewer(&["provider", "enable", "shop", "main"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.errors.contains("the token needs the role operator or a higher one"), "{refused:?}");
    let hidden = as_viewer(&["provider", "list", "twin-a"]);
    assert!(hidden.code == 1 && hidden.errors.contains("does not exist"), "{hidden:?}");
    let unknown = twins.call(&["app", "list"], &[("TIDINGS_TOKEN", TOKEN)], "");
    assert!(unknown.code == 1 && unknown.errors.contains("tidings token create"), "{unknown:?}");
    for reveal in [&["users", "shop", "--reveal"][..], &["suppression", "list", "--reveal"]] {
        let refused = twins.call(reveal, &[("TIDINGS_TOKEN", &twins.token)], "");
        assert!(refused.code == 2 && refused.errors.contains("needs the database"), "{refused:?}");
    }
    let dots = twins.call(&["app", "set", "..", "hmac=on"], &[("TIDINGS_TOKEN", &twins.token)], "");
    assert!(dots.code == 1 && dots.errors.contains("cannot contain the name"), "{dots:?}");

    let url = format!("{}/", twins.url);
    let variables = [("TIDINGS_URL", url.as_str())];
    let run = |arguments: &[&str]| twins.directory.run_with(arguments, &variables, "");
    assert_eq!(run(&["app", "list", "--token-file", "token"]).code, 0);
    assert_eq!(run(&["app", "list", "--token", &twins.token]).code, 0);
    // A named configuration wins over the variable.
    std::fs::write(twins.directory.path().join("empty.toml"), "").unwrap();
    let local = run(&["app", "list", "--config", "empty.toml"]);
    assert!(local.code == 2 && local.errors.contains("DATABASE_URL"), "{local:?}");
}
