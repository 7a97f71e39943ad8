//! Exit codes and messages that all commands share.

use std::net::TcpListener;

use crate::directory::{Answer, Directory};

#[test]
fn help_lists_the_exit_codes() {
    let directory = Directory::new();
    let help = directory.run(&["--help"]);
    assert_eq!(help.code, 0);
    assert!(help.output.contains("Exit codes:"), "{}", help.output);
    let help = directory.run(&["template", "put", "--help"]);
    assert_eq!(help.code, 0);
    assert!(help.output.contains("Examples:"), "{}", help.output);
}

#[test]
fn an_invalid_command_line_exits_2() {
    let directory = Directory::new();
    for arguments in [
        &[][..],
        &["frobnicate"],
        &["app", "create"],
        &["up", "--port", "70000"],
        &["up", "--partitions", "0"],
    ] {
        let answer = directory.run(arguments);
        assert_eq!(answer.code, 2, "{arguments:?}: {}", answer.errors);
        assert!(!answer.errors.is_empty());
    }
}

#[test]
fn invalid_config_exits_2_and_lists_every_problem() {
    let directory = Directory::new();
    let file = directory.path().join("tidings.toml");
    std::fs::write(&file, "[nats]\nreplicas = 9\n[databse]\nurl = 'postgres://h/d'\n").unwrap();
    let answer = directory.run(&["app", "list", "--config", file.to_str().unwrap()]);
    assert_eq!(answer.code, 2);
    for part in ["nats.replicas", "databse.url", "database.url"] {
        assert!(answer.errors.contains(part), "{part} is missing in {}", answer.errors);
    }
    let absent = directory.run(&["app", "list", "--config", "absent.toml"]);
    assert_eq!(absent.code, 2, "{}", absent.errors);
}

#[test]
fn a_missing_database_url_exits_with_the_setting_to_set() {
    let answer = Directory::new().run(&["app", "list"]);
    assert_eq!(answer.code, 2);
    assert!(
        answer.errors.contains("DATABASE_URL") && answer.errors.contains("tidings up"),
        "{}",
        answer.errors
    );

    let answer = Directory::new().run(&["app", "list", "--data-dir", "nothing-here"]);
    assert_eq!(answer.code, 1);
    assert!(answer.errors.contains("tidings up --data-dir nothing-here"), "{}", answer.errors);
}

#[test]
fn an_unreachable_database_exits_1_without_showing_the_password() {
    // No process listens on this port, because it is reserved for this test.
    let port = local_servers::port::free().unwrap();
    let url = format!("postgres://tidings:hunter2@127.0.0.1:{port}/tidings");
    let answer = Directory::new().run_with(&["app", "list"], &[("DATABASE_URL", &url)], "");
    assert_eq!(answer.code, 1);
    assert!(answer.errors.contains(&format!("127.0.0.1:{port}")), "{}", answer.errors);
    assert!(!answer.errors.contains("hunter2"), "{}", answer.errors);
}

#[test]
fn a_port_in_use_is_reported_before_anything_starts() {
    let directory = Directory::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let Answer { code, errors, .. } = directory.run(&["up", "--data-dir", "data", "--port", &port]);
    assert_eq!(code, 1);
    assert!(errors.contains(&port) && errors.contains("--port"), "{errors}");
    assert!(!directory.path().join("data/postgres").exists());
}

#[test]
fn the_version_is_printed_for_people_and_as_json() {
    let directory = Directory::new();
    assert!(directory.run(&["version"]).output.starts_with("tidings "));
    let version: serde_json::Value =
        serde_json::from_str(&directory.run(&["version", "--json"]).output).unwrap();
    assert!(version["version"].as_str().unwrap().split('.').count() == 3, "{version}");
}
