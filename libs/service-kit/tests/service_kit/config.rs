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

/// Returns the problems as `key: advice`.
fn problems(result: Result<Config, ConfigError>) -> Vec<String> {
    match result {
        Err(ConfigError::Invalid(problems)) => {
            problems.into_iter().map(|problem| format!("{}: {}", problem.key, problem.advice)).collect()
        }
        other => panic!("no list of problems: {other:?}"),
    }
}

/// The chart refuses values that its schema does not name.
#[test]
fn the_chart_accepts_every_section() {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/helm/tidings/values.schema.json");
    let schema: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(chart).unwrap()).unwrap();
    let accepted = schema["properties"]["config"]["properties"].as_object().unwrap();
    let shipped: toml::Table = std::fs::read_to_string(SHIPPED).unwrap().parse().unwrap();
    let mut missing = shipped.keys().filter(|section| !accepted.contains_key(*section));
    assert_eq!(missing.next(), None);
}

#[test]
fn the_shipped_file_states_the_defaults() {
    let config = Config::from_sources(Some(Path::new(SHIPPED)), []).unwrap();
    let mut defaults = Config::default();
    // Only these three fields differ: they are true because the file sets the values.
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
fn database_url_and_nats_url_apply_only_if_our_variables_are_unset() {
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
fn all_problems_are_listed_at_once_with_source_value_and_remedy() {
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
            ("TIDINGS_SENDS__KEEP", "7d"),
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
        "sends.keep: must be at least a day longer than streams.retention and delivery.receipt_wait",
    ];
    let reported = problems(result);
    for problem in expected {
        assert!(
            reported.iter().any(|reported| reported.starts_with(problem)),
            "{problem}\nis not in {reported:#?}"
        );
    }
    assert_eq!(reported.len(), expected.len(), "{reported:#?}");
    assert!(message.contains("log.format = \"xml\" (environment variable TIDINGS_LOG__FORMAT)"), "{message}");
    assert!(message.contains("delivery.lease = \"90\" (file "), "{message}");
}

#[test]
fn the_retention_of_inboxes_has_limits() {
    let read = |keep, keep_per_user| {
        from_variables(&[("TIDINGS_INBOX__KEEP", keep), ("TIDINGS_INBOX__KEEP_PER_USER", keep_per_user)])
    };
    for (keep, keep_per_user, days, items) in [("1d", "1", 1, 1), ("3650d", "1000000", 3_650, 1_000_000)] {
        let inbox = read(keep, keep_per_user).unwrap().inbox;
        assert_eq!((inbox.keep, inbox.keep_per_user), (Duration::from_secs(days * 86_400), items));
    }
    for (keep, keep_per_user) in [("23h", "0"), ("3651d", "1000001"), ("365", "many")] {
        let reported = problems(read(keep, keep_per_user));
        assert_eq!(reported.len(), 2, "{reported:#?}");
        assert!(
            reported
                .iter()
                .any(|problem| problem.starts_with("inbox.keep: must be a time with a unit, from 1day to"))
        );
        assert!(
            reported
                .iter()
                .any(|problem| problem == "inbox.keep_per_user: must be a number from 1 to 1000000"),
            "{reported:#?}"
        );
    }
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
fn unusable_log_levels_are_refused() {
    for level in ["info", "WARN", "info,sqlx=warn", "off,store=trace"] {
        assert!(from_variables(&[("TIDINGS_LOG__LEVEL", level)]).is_ok(), "{level}");
    }
    // The filter would read `verbose` as the name of a crate and log only that crate. `[request]=debug` would also raise the
    // level of libraries.
    for level in ["verbose", "info,verbose", "sqlx=loud", "info,[request]=debug"] {
        assert!(from_variables(&[("TIDINGS_LOG__LEVEL", level)]).is_err(), "{level}");
    }
}

#[test]
fn urls_may_be_in_files_that_a_variable_names() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "postgres://tidings:hunter2@db:5432/tidings\n").unwrap();
    let path = file.path().to_str().unwrap();
    for variable in ["TIDINGS_DATABASE__URL_FILE", "DATABASE_URL_FILE"] {
        let config = from_variables(&[(variable, path)]).unwrap();
        let url = config.database.url.unwrap();
        assert_eq!(url.expose(), "postgres://tidings:hunter2@db:5432/tidings", "without the line break");
    }
    let nats = from_variables(&[("TIDINGS_NATS__URL_FILE", path)]);
    assert!(problems(nats)[0].starts_with("nats.url: begins with postgres://"));
    let ours = [("TIDINGS_DATABASE__URL", "postgres://ours/t"), ("DATABASE_URL_FILE", path)];
    assert_eq!(from_variables(&ours).unwrap().database.url.unwrap().expose(), "postgres://ours/t");
}

#[test]
fn an_unreadable_value_file_is_named() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    let empty = empty.path().to_str().unwrap();
    let variable = "TIDINGS_NATS__URL_FILE";
    for (pairs, reported) in [
        (vec![(variable, "/absent/url")], "/absent/url"),
        (vec![(variable, empty)], "is empty"),
        (vec![(variable, empty), ("TIDINGS_NATS__URL", "nats://n:4222")], "TIDINGS_NATS__URL is set too"),
    ] {
        let problems = problems(from_variables(&pairs));
        assert!(problems[0].starts_with("nats.url: ") && problems[0].contains(reported), "{problems:?}");
    }
    // This variable sets the key `master_key_file` to a path. Its suffix `_FILE` does not mean that the file contains the value
    // of another variable.
    let key = from_variables(&[("TIDINGS_SECURITY__MASTER_KEY_FILE", "/absent/key")]).unwrap();
    assert_eq!(key.security.master_key_file.as_deref(), Some(Path::new("/absent/key")));
}

#[test]
fn a_client_certificate_needs_its_key() {
    let alone = problems(from_variables(&[("TIDINGS_NATS__CERT_FILE", "client.pem")]));
    assert_eq!(alone, ["nats.cert_file: has no effect alone: set nats.key_file too"]);
    let alone = problems(from_variables(&[("TIDINGS_NATS__KEY_FILE", "client.key")]));
    assert_eq!(alone, ["nats.key_file: has no effect alone: set nats.cert_file too"]);
}

#[test]
fn lost_master_keys_must_be_key_ids() {
    let config = from_variables(&[("TIDINGS_SECURITY__LOST_MASTER_KEYS", "0FAACA47c5a1b487")]).unwrap();
    assert_eq!(config.security.lost_master_keys, ["0faaca47c5a1b487"]);
    let wrong = problems(from_variables(&[("TIDINGS_SECURITY__LOST_MASTER_KEYS", "none")]));
    assert!(wrong[0].starts_with("security.lost_master_keys: must be a list of ids"), "{wrong:?}");
}

#[test]
fn sign_in_by_openid_names_an_issuer_a_client_and_roles_with_their_claim() {
    let accepted = from_file(
        "[console]\npasswords = false\n[console.oidc]\nissuer = \"https://id.example.com\"\nclient_id = \"tidings\"\n\
         role_claim = \"groups\"\nrole_map = [\"ops=operator\", \"shop=support@shop\"]",
        &[],
    )
    .unwrap();
    let oidc = accepted.console.oidc.unwrap();
    assert_eq!((oidc.role_map.len(), oidc.scopes.join(" ").as_str()), (2, "openid email"));
    for (text, key) in [
        ("[console]\npasswords = false", "console.passwords"),
        ("[console.oidc]\nissuer = \"http://id.example.com\"\nclient_id = \"a\"", "console.oidc.issuer"),
        ("[console.oidc]\nissuer = \"https://id.example.com\"", "console.oidc.client_id"),
        (
            "[console.oidc]\nissuer = \"https://id.example.com\"\nclient_id = \"a\"\nrole_map = [\"a=admin\"]",
            "console.oidc.role_map",
        ),
        (
            "[console.oidc]\nissuer = \"https://id.example.com\"\nclient_id = \"a\"\nscopes = [\"email\"]",
            "console.oidc.scopes",
        ),
        ("[console.oidc]\nrole_map = [\"ops=root\"]", "console.oidc.role_map"),
    ] {
        let found = problems(from_file(text, &[]));
        assert!(found.iter().any(|problem| problem.starts_with(&format!("{key}: "))), "{text}: {found:?}");
    }
}
