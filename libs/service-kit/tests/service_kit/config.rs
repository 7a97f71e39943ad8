use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use service_kit::{Config, ConfigError};

const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/config/tidings.toml");

fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
}

fn from_file(text: &str, pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Config::from_sources(Some(file.path()), variables(pairs))
}

fn from_variables(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::from_sources(None, variables(pairs))
}

/// The problems as `key: advice`.
fn problems(result: Result<Config, ConfigError>) -> Vec<String> {
    match result {
        Err(ConfigError::Invalid(problems)) => {
            problems.into_iter().map(|problem| format!("{}: {}", problem.key, problem.advice)).collect()
        }
        other => panic!("no list of problems: {other:?}"),
    }
}

#[test]
fn the_shipped_file_states_the_defaults() {
    let config = Config::from_sources(Some(Path::new(SHIPPED)), []).unwrap();
    let mut defaults = Config::default();
    // What it states, it also asks for.
    defaults.nats.replicas_are_set = true;
    defaults.nats.max_messages_are_set = true;
    defaults.streams.partitions_are_set = true;
    assert_eq!(format!("{config:#?}"), format!("{defaults:#?}"));
}

#[test]
fn the_environment_overrides_the_file() {
    let file = "header_prefixes = [\"X-FILE\"]\n[gateway]\nlisten = \"127.0.0.1:1\"\n[nats]\nreplicas = 3\n";
    let config = from_file(
        file,
        &[
            ("TIDINGS_HEADER_PREFIXES", "X-SERVICE, X-ACME"),
            ("TIDINGS_DELIVERY__RETRY_SCHEDULE", "0s,5s,1m 30s"),
            ("TIDINGS_NATS__REPLICAS", ""),
            ("TIDINGS_TEST_DATABASE_URL", "not a key"),
            ("HOME", "/"),
        ],
    )
    .unwrap();
    assert_eq!(config.header_prefixes, ["X-SERVICE", "X-ACME"]);
    assert_eq!(config.delivery.retry_schedule, [0, 5, 90].map(Duration::from_secs));
    assert_eq!(config.gateway.listen.port(), 1);
    assert_eq!(config.nats.replicas, 3, "an empty variable counts as unset");
}

#[test]
fn the_file_may_be_named_by_a_variable() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[log]\nformat = \"text\"\n").unwrap();
    let config = from_variables(&[("TIDINGS_CONFIG", file.path().to_str().unwrap())]).unwrap();
    assert_eq!(config.log.format, service_kit::config::LogFormat::Text);
}

#[test]
fn other_tools_variables_hold_only_where_ours_are_unset() {
    let both = [
        ("TIDINGS_DATABASE__URL", "postgres://ours:1/t"),
        ("DATABASE_URL", "postgres://theirs:1/t"),
        ("NATS_URL", "nats://theirs"),
    ];
    let config = from_variables(&both).unwrap();
    assert_eq!(config.database.url.unwrap().endpoint(), "ours:1");
    assert_eq!(config.nats.url.unwrap().endpoint(), "theirs:4222");
}

#[test]
fn all_problems_are_told_at_once_with_source_value_and_remedy() {
    let file =
        "[databse]\nurl = \"postgres://h/t\"\n[delivery]\nlease = 90\n[streams]\npartitions = 0\n[gatway]\n";
    let result = from_file(
        file,
        &[
            ("TIDINGS_DATABASE_URL", "postgres://h/t"),
            ("TIDINGS_LOG__FORMAT", "xml"),
            ("TIDINGS_HEADER_PREFIXES", "X-A,x-a"),
            ("TIDINGS_METRICS__LISTEN", "127.0.0.1:8080"),
            ("TIDINGS_NATS__URL", "http://h"),
        ],
    );
    let message = result.as_ref().unwrap_err().to_string();
    let expected = [
        "delivery.lease: must be a time with a unit, from 3s to 1h",
        "streams.partitions: must be a number from 1 to 64",
        "databse.url: is not a key; did you mean database.url?",
        "database_url: is not a key; did you mean TIDINGS_DATABASE__URL?",
        "gatway: is not a key",
        "log.format: must be json or text",
        "header_prefixes: names a prefix twice",
        "metrics.listen: is the same as gateway.listen",
        "nats.url: begins with http://, and must begin with nats://",
    ];
    let told = problems(result);
    for problem in expected {
        assert!(told.iter().any(|told| told.starts_with(problem)), "{problem}\nis not in {told:#?}");
    }
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    assert!(message.contains("log.format = \"xml\" (environment variable TIDINGS_LOG__FORMAT)"), "{message}");
    assert!(message.contains("delivery.lease = \"90\" (file "), "{message}");
}

#[test]
fn no_message_shows_a_password() {
    let secret = "hunter2";
    let texts = [
        format!("[database]\nurl = \"postgres://u:{secret}@h:port/t\"\n"),
        format!("[database]\nurl = \"postgres://u:{secret}@h/t\n"),
        format!("[database]\nurl = [\"postgres://u:{secret}@h/t\"]\n"),
        format!("[database]\nurl = {secret}\n"),
        format!("[databse]\nurl = \"postgres://u:{secret}@h/t\"\n"),
        format!("[nats]\nurl = \"http://u:{secret}@h\"\n"),
        format!("[nats]\nurl = \"nats://u:{secret}@h\"\nurl = \"nats://u:{secret}@h\"\n"),
    ];
    for text in texts {
        let error = from_file(&text, &[]).unwrap_err();
        assert!(!error.to_string().contains(secret), "{error}");
        assert!(!format!("{error:?}").contains(secret), "{error:?}");
    }
    let url = format!("nats://u:{secret}@a:1,nats://u:{secret}@b");
    let config = from_variables(&[("TIDINGS_NATS__URL", &url)]).unwrap();
    assert!(!format!("{config:?}").contains(secret));
    let servers = config.nats.url.unwrap();
    assert_eq!(servers.to_string(), "nats://a:1,b:4222");
    assert_eq!(servers.expose(), url);
}

#[test]
fn a_syntax_error_names_its_line() {
    let error = from_file("[log]\nformat = \"text\"\nlevel = = 1\n", &[]).unwrap_err().to_string();
    assert!(error.contains("line 3: "), "{error}");
}

#[test]
fn a_missing_file_is_an_error() {
    let error = Config::from_sources(Some(Path::new("no/such.toml")), []).unwrap_err().to_string();
    assert!(error.contains("no/such.toml"), "{error}");
}

#[test]
fn a_level_is_a_level() {
    for level in ["info", "WARN", "info,sqlx=warn", "off,store=trace"] {
        assert!(from_variables(&[("TIDINGS_LOG__LEVEL", level)]).is_ok(), "{level}");
    }
    // The filter would take the first for the name of a crate, and log nothing else; the last would raise libraries too.
    for level in ["verbose", "info,verbose", "sqlx=loud", "info,[request]=debug"] {
        assert!(from_variables(&[("TIDINGS_LOG__LEVEL", level)]).is_err(), "{level}");
    }
}
