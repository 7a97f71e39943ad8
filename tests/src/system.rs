//! Tidings as operators run it: each service in its own processes, set up by the commands of `tidings`.

use std::path::Path;

use event_log::EventLog;
use local_servers::port;
use reqwest::Client;
use serde_json::Value;
use service_kit::{Config, connections};
use sqlx::PgPool;
use testkit::Servers;

use crate::api::App;
use crate::command::Environment;
use crate::process::{Name, Process, Role};

/// Private servers with schema and streams, and the service processes that use them.
pub struct System {
    pub servers: Servers,
    pub database: PgPool,
    pub log: EventLog,
    /// Number of inbox partitions.
    pub partitions: u32,
    pub processes: Vec<Process>,
    /// Environment variables of every process and command.
    pub environment: Environment,
    pub client: Client,
    /// Host and port of the API of each gateway.
    pub gateways: Vec<String>,
}

impl System {
    /// Creates schema and streams, but starts no process. `settings` are environment variables for every process and command.
    /// `gateways` are the addresses of the gateways. [`start`](Self::start) later starts as many processes of each role as there
    /// are gateways.
    pub async fn prepare<V: AsRef<str>>(
        servers: Servers,
        gateways: Vec<String>,
        settings: impl IntoIterator<Item = (&str, V)>,
    ) -> System {
        System::prepare_with(None, servers, gateways, settings).await
    }

    /// Does the same as [`prepare`](Self::prepare), with the programs in the directory `programs` or, for None, with those of this
    /// workspace.
    pub async fn prepare_with<V: AsRef<str>>(
        programs: Option<&Path>,
        servers: Servers,
        gateways: Vec<String>,
        settings: impl IntoIterator<Item = (&str, V)>,
    ) -> System {
        service_kit::install_crypto_provider();
        let environment = Environment::default()
            .of_programs(programs.map(Path::to_owned))
            .with(servers.environment())
            .with([("TIDINGS_OUTBOUND__ALLOW_PRIVATE", "true")])
            .with(settings);
        environment.tidings(&["migrate"]);
        let mut config = Config::default();
        config.nats.url = Some(servers.nats.url().parse().unwrap());
        let database = PgPool::connect(servers.database_url()).await.unwrap();
        let partitions: i32 =
            sqlx::query_scalar("SELECT partitions FROM installation").fetch_one(&database).await.unwrap();
        System {
            database,
            log: connections::event_log(&config, connections::CONNECTED_WITHIN).await.unwrap(),
            partitions: u32::try_from(partitions).unwrap(),
            processes: Vec::new(),
            environment,
            client: Client::new(),
            gateways,
            servers,
        }
    }

    /// Starts the processes of these roles, without waiting until they are ready.
    pub fn start(&mut self, roles: &[Role]) {
        for &role in roles {
            for number in 1..=self.gateways.len() {
                self.start_process(Name { role, number }, [("", ""); 0], None);
            }
        }
    }

    /// Starts a process with additional environment variables. If `log` is given, the process writes its log to this file, and
    /// the file is kept after the process ends.
    pub fn start_process<V: AsRef<str>>(
        &mut self,
        name: Name,
        more: impl IntoIterator<Item = (&'static str, V)>,
        log: Option<&Path>,
    ) {
        let environment = self.environment_of(name).with(more);
        self.processes.push(Process::start(name, &environment, log));
    }

    /// Stops a process in an orderly way, starts it with the programs in the directory `programs` or, for None, with those of this
    /// workspace, and waits until it is ready. The new process does not get the additional environment variables and the log file
    /// of [`start_process`](Self::start_process).
    ///
    /// # Panics
    /// The process does not stop with exit code 0, or is not ready in time.
    pub async fn replace(&mut self, name: Name, programs: Option<&Path>) {
        let environment = self.environment_of(name).of_programs(programs.map(Path::to_owned));
        let client = self.client.clone();
        let process = self.process_mut(name);
        process.stop_orderly().await;
        *process = Process::start(name, &environment, None);
        process.ready(&client).await;
    }

    fn environment_of(&self, name: Name) -> Environment {
        self.environment.with([("TIDINGS_GATEWAY__LISTEN", &self.gateways[name.number - 1])])
    }

    /// Waits until every process is ready.
    ///
    /// # Panics
    /// A process ends, or is not ready within 60 s.
    pub async fn ready(&mut self) {
        for process in &mut self.processes {
            process.ready(&self.client).await;
        }
    }

    /// Origins of the gateways, without `/v3`.
    pub fn origins(&self) -> Vec<String> {
        self.gateways.iter().map(|address| format!("http://{address}")).collect()
    }

    /// Creates an app in open mode. `providers` are documents for `tidings provider set`.
    pub fn create_app(&self, name: &str, providers: &[Value]) -> App {
        let created = self.environment.tidings(&["app", "create", name, "--open", "--json"]);
        for provider in providers {
            self.set_provider(name, provider);
        }
        App::read(&created)
    }

    pub fn set_provider(&self, app: &str, document: &Value) {
        self.environment.tidings_with_input(&["provider", "set", app], &document.to_string());
    }

    /// Sets a webhook endpoint of the app for all events, and returns the endpoint's secret.
    pub fn set_webhook(&self, app: &str, url: &str) -> String {
        let endpoint = self.environment.tidings(&["webhook", "set", app, url, "--json"]);
        let endpoint: Value = serde_json::from_str(&endpoint).unwrap();
        endpoint["secret"].as_str().unwrap().to_owned()
    }

    pub fn process(&self, name: Name) -> &Process {
        self.processes.iter().find(|process| process.name == name).expect("a process has this name")
    }

    pub fn process_mut(&mut self, name: Name) -> &mut Process {
        self.processes.iter_mut().find(|process| process.name == name).expect("a process has this name")
    }

    /// # Panics
    /// A process has ended.
    pub fn assert_running(&mut self) {
        self.processes.iter_mut().for_each(Process::assert_running);
    }

    /// Runs a query that selects one number.
    pub async fn count(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&self.database).await.unwrap()
    }
}

/// Finds free addresses on the loopback interface.
pub fn addresses(count: usize) -> Vec<String> {
    (0..count).map(|_| format!("127.0.0.1:{}", port::free().unwrap())).collect()
}
