//! Tests of `docker-compose.yml` and the files that it mounts, without Docker. A real nats-server runs with the broker's
//! settings, and a real PostgreSQL has the database role that the services use.

use std::time::Duration;

use credentials::MasterKey;
use local_servers::{NatsServer, port};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::{Database, Service, eventually};
use url::Url;

use crate::directory::{Answer, Directory};

const WITHIN: Duration = Duration::from_secs(60);
const COMPOSE: &str = include_str!("../../docker-compose.yml");
const NATS: &str = include_str!("../../deploy/compose/nats.conf");

/// Returns the lines of a service of docker-compose.yml.
fn compose_service(name: &str) -> &'static str {
    let start = COMPOSE.find(&format!("\n  {name}:\n")).unwrap_or_else(|| panic!("no service {name}"));
    let rest = &COMPOSE[start + 1..];
    let lines = rest.match_indices('\n').skip(1).find(|(at, _)| {
        let next = &rest[at + 1..];
        next.starts_with("  ") && !next.starts_with("   ") || next.starts_with(char::is_alphabetic)
    });
    &rest[..lines.map_or(rest.len(), |(at, _)| at)]
}

#[test]
fn compose_services_have_limits_and_not_the_owners_password() {
    let shared = &COMPOSE[..COMPOSE.find("\nservices:").unwrap()];
    assert!(shared.contains("postgres://tidings_service:${SERVICE_PASSWORD"), "{shared}");
    assert!(shared.contains("nats://tidings:${NATS_PASSWORD"), "{shared}");
    assert!(!shared.contains("POSTGRES_PASSWORD:?"), "{shared}");
    for bounded in [shared, compose_service("postgres"), compose_service("nats")] {
        for bound in ["pids_limit: ", "mem_limit: ", "logging: *logging", "cap_drop: [ALL]"] {
            assert!(bounded.contains(bound), "{bound} is missing: {bounded}");
        }
    }
    for service in
        ["gateway", "dispatcher", "inbox", "email", "web-push", "mobile-push", "sms", "webhooks", "console"]
    {
        assert!(
            !compose_service(service).contains("POSTGRES_PASSWORD"),
            "{service} gets the owner's password"
        );
        assert!(
            compose_service(service).contains(&format!("command: [run, {service}]")),
            "{}",
            compose_service(service)
        );
    }
    assert!(
        compose_service("migrate").contains("--service-role, tidings_service]"),
        "{}",
        compose_service("migrate")
    );
    assert!(compose_service("postgres").contains("service-role.sh:/docker-entrypoint-initdb.d/"));
    assert!(!compose_service("nats").contains("ports:") && !compose_service("postgres").contains("ports:"));
}

/// During an upgrade, two processes of each service and the migration run. Commands of operators need 30 more sessions.
#[test]
fn compose_services_fit_into_the_connections_of_the_compose_database() {
    let settings = include_str!("../../deploy/compose/services.env");
    let number = |text: &str, after: &str| -> u32 {
        let rest = text.split_once(after).unwrap_or_else(|| panic!("{after} is missing")).1;
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
    };
    let pool = number(settings, "\nTIDINGS_DATABASE__MAX_CONNECTIONS=");
    let allowed = number(compose_service("postgres"), "max_connections=");
    assert!(
        8 * 2 * pool + pool + 30 <= allowed,
        "8 services x 2 processes x {pool} connections, the migration and 30 sessions exceed {allowed}"
    );
}

#[test]
fn the_example_environment_file_names_existing_settings() {
    let example = include_str!("../../deploy/compose/tidings.env.example");
    let variables = example.lines().filter_map(|line| line.trim_start_matches('#').split_once('='));
    let variables: Vec<_> = variables
        .filter(|(name, _)| name.starts_with("TIDINGS_") && !name.contains(' '))
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    assert!(variables.len() > 10, "{variables:?}");
    service_kit::Config::from_sources(None, variables).unwrap();
    for files in
        [include_str!("../../deploy/compose/services.env"), include_str!("../../deploy/compose/demo.env")]
    {
        let settings = files.lines().filter(|line| !line.starts_with('#'));
        let settings = settings.map(|line| line.split_once('=').unwrap());
        service_kit::Config::from_sources(None, settings.map(|(name, value)| (name.into(), value.into())))
            .unwrap();
    }
}

#[tokio::test]
async fn the_compose_broker_refuses_clients_without_its_password() {
    let directory = Directory::new();
    let (client, monitor) = (port::free().unwrap(), port::free().unwrap());
    assert!(NATS.contains("http: \"127.0.0.1:8222\""), "monitoring must be reachable only in the container");
    // Remove settings that older servers, which Tidings also supports, do not know.
    let settings = NATS
        .replace("  sync_interval: always\n", "")
        .replace("/data", directory.path().join("nats").to_str().unwrap())
        .replace("127.0.0.1:8222", &format!("127.0.0.1:{monitor}"));
    let file = directory.path().join("nats.conf");
    std::fs::write(&file, settings).unwrap();
    let port = client.to_string();
    let arguments = ["--config", file.to_str().unwrap(), "--addr", "127.0.0.1", "--port", &port];
    let program = NatsServer::program().unwrap();
    let _server = Service::start_program(&program, &arguments, &[("NATS_PASSWORD", "p0123")]).unwrap();
    eventually(WITHIN, "the broker accepts a client with the password", async || {
        async_nats::connect_with_options(
            format!("127.0.0.1:{client}"),
            async_nats::ConnectOptions::with_user_and_password("tidings".to_owned(), "p0123".to_owned()),
        )
        .await
        .ok()
    })
    .await;
    let stranger = async_nats::connect(format!("127.0.0.1:{client}")).await;
    assert!(stranger.is_err(), "a client without a password was admitted");
}

/// An installation whose services use a separate role.
struct RestrictedInstallation {
    database: Database,
    nats: NatsServer,
    directory: Directory,
    role: String,
    service_url: String,
}

impl RestrictedInstallation {
    async fn install() -> Self {
        let (database, nats) = (Database::create().await, NatsServer::start().await.unwrap());
        let directory = Directory::new();
        MasterKey::generate_file(&directory.path().join("master.key")).unwrap();
        let role = Url::parse(database.url()).unwrap().path().replace('/', "service_");
        let mut url = Url::parse(database.url()).unwrap();
        url.set_username(&role).unwrap();
        url.set_password(Some("p0123")).unwrap();
        let restricted =
            RestrictedInstallation { database, nats, directory, role, service_url: url.as_str().to_owned() };
        restricted.as_owner(&format!("CREATE ROLE {} LOGIN PASSWORD 'p0123'", restricted.role)).await;
        let migrated =
            restricted.run(restricted.database.url(), &["migrate", "--service-role", &restricted.role]);
        assert_eq!(migrated.code, 0, "{migrated:?}");
        restricted
    }

    async fn as_owner(&self, statement: &str) {
        let mut connection = PgConnection::connect(self.database.url()).await.unwrap();
        sqlx::query(AssertSqlSafe(statement.to_owned())).execute(&mut connection).await.unwrap();
    }

    fn run(&self, database: &str, arguments: &[&str]) -> Answer {
        let variables = self.variables(database, "127.0.0.1:0");
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.directory.run_with(arguments, &variables, "")
    }

    fn variables(&self, database: &str, listen: &str) -> [(&'static str, String); 5] {
        let key = self.directory.path().join("master.key").to_str().unwrap().to_owned();
        [
            ("DATABASE_URL", database.to_owned()),
            ("NATS_URL", self.nats.url().to_owned()),
            ("TIDINGS_SECURITY__MASTER_KEY_FILE", key),
            ("TIDINGS_METRICS__LISTEN", format!("127.0.0.1:{}", port::free().unwrap())),
            ("TIDINGS_GATEWAY__LISTEN", listen.to_owned()),
        ]
    }

    fn start(&self, name: &str, listen: &str) -> Service {
        let variables = self.variables(&self.service_url, listen);
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Service::start(name, &[], &variables).unwrap()
    }
}

#[tokio::test]
async fn services_need_no_rights_over_the_schema_and_cannot_rewrite_the_audit_log() {
    let installed = RestrictedInstallation::install().await;
    let created =
        installed.run(&installed.service_url, &["app", "create", "shop", "--development", "--json"]);
    assert_eq!(created.code, 0, "{created:?}");
    let app: Value = serde_json::from_str(&created.output).unwrap();
    let listen = format!("127.0.0.1:{}", port::free().unwrap());
    let services = ["tidings-gateway", "tidings-dispatcher", "tidings-inbox", "tidings-email"];
    let services = services.map(|name| installed.start(name, &listen));

    let request = |method: Method, path: &str| {
        let request = Client::new().request(method, format!("http://{listen}{path}"));
        let request = request.header("X-SERVICE-API-KEY", app["apiKey"].as_str().unwrap());
        request.header("X-SERVICE-API-SECRET", app["apiSecret"].as_str().unwrap())
    };
    let send = json!({
        "notification": {"title": "Hello"},
        "sendTo": {"recipients": [{"identifier": "ada", "email": "ada@example.com"}]},
    });
    eventually(WITHIN, "the gateway accepts a send", async || {
        let sent = request(Method::POST, "/v3/notifications").json(&send).send().await.ok()?;
        (sent.status() == 202).then_some(())
    })
    .await;
    eventually(WITHIN, "the inbox shows the notification", async || {
        let listed = request(Method::GET, "/v3/notifications?userIdentifier=ada").send().await.ok()?;
        let listed: Value = listed.json().await.ok()?;
        (listed["data"][0]["title"] == "Hello").then_some(())
    })
    .await;
    let erased = request(Method::DELETE, "/v3/users/ada").send().await.unwrap();
    assert_eq!(erased.status(), 202);
    for service in &services {
        let log = std::fs::read_to_string(service.log()).unwrap();
        assert!(!log.contains("permission denied"), "{log}");
    }

    let mut as_service = PgConnection::connect(&installed.service_url).await.unwrap();
    for refused in [
        "UPDATE audit SET actor = 'cli:ada'",
        "DELETE FROM audit",
        "TRUNCATE audit",
        "DROP TABLE audit",
        "ALTER TABLE audit DISABLE TRIGGER ALL",
        "CREATE TABLE mine ()",
        "DELETE FROM _sqlx_migrations",
        "COPY app TO PROGRAM 'cat'",
    ] {
        let error = sqlx::query(refused).execute(&mut as_service).await.unwrap_err();
        let code = error.as_database_error().and_then(|error| error.code()).unwrap().into_owned();
        assert_eq!(code, "42501", "{refused}: {error}");
    }
    drop(as_service);
    drop(services);
    installed.as_owner(&format!("DROP OWNED BY {}", installed.role)).await;
    installed.as_owner(&format!("DROP ROLE {}", installed.role)).await;
}

#[test]
fn the_production_image_is_built_without_the_development_commands() {
    let image = include_str!("../../deploy/docker/Dockerfile");
    assert!(image.contains("--no-default-features --features \"$FEATURES\""), "{image}");
    assert!(image.contains("ARG FEATURES=\"\""), "{image}");
    assert!(image.contains("deploy/services"), "{image}");
    let services: Vec<_> = include_str!("../../deploy/services")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    for service in
        ["gateway", "dispatcher", "inbox", "email", "web-push", "mobile-push", "sms", "webhooks", "console"]
    {
        assert!(services.contains(&service), "deploy/services does not name {service}");
    }
}
