//! A running `tidings up`, and its API over HTTP.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use testkit::{Service, eventually};

use crate::descendants::{self, Descendant};

const READY_WITHIN: Duration = Duration::from_secs(90);
pub(crate) const STOPPED_WITHIN: Duration = Duration::from_secs(60);
/// Variables that the environment of the test may have and that must not configure `tidings up`. An empty value counts as
/// unset.
const UNSET: [(&str, &str); 3] = [("DATABASE_URL", ""), ("NATS_URL", ""), ("TIDINGS_CONFIG", "")];

pub(crate) struct RunningProcess {
    pub(crate) service: Service,
    pub(crate) dev: Value,
    directory: PathBuf,
    client: Client,
}

impl RunningProcess {
    /// Starts `tidings up` on the data directory, and waits until it is ready.
    pub(crate) async fn start(directory: &Path) -> Self {
        Self::start_with(directory, &[]).await
    }

    /// Starts `tidings up` with additional variables.
    pub(crate) async fn start_with(directory: &Path, more: &[(&str, &str)]) -> Self {
        let data = directory.to_str().unwrap();
        let variables = [&UNSET[..], more].concat();
        let mut service =
            Service::start("tidings", &["up", "--data-dir", data, "--port", "0"], &variables).unwrap();
        // When this line is printed, dev.json is current: `tidings up` removes the file of an earlier run before it starts the
        // servers.
        let started = eventually(READY_WITHIN, "the services are started", async || {
            let log = log(&service);
            if service.ended().unwrap().is_some() {
                panic!("tidings up ended: {log}");
            }
            log.contains("Tidings is running").then_some(())
        });
        started.await;
        let dev = std::fs::read_to_string(directory.join("dev.json")).unwrap();
        let dev = serde_json::from_str(&dev).unwrap();
        RunningProcess { service, dev, directory: directory.to_owned(), client: Client::new() }
    }

    pub(crate) fn dev(&self, name: &str) -> &str {
        self.dev[name].as_str().unwrap()
    }

    /// Output of `tidings up` to its terminal.
    pub(crate) fn log(&self) -> String {
        log(&self.service)
    }

    /// Descendants of `tidings up`, without the shell that ends it when the test process ends.
    pub(crate) fn descendants(&self) -> Vec<Descendant> {
        let id = self.service.id();
        descendants::of(id)
            .into_iter()
            .filter(|process| !(process.parent == id && process.name == "sh"))
            .collect()
    }

    pub(crate) fn has_dev_file(&self) -> bool {
        self.directory.join("dev.json").exists()
    }

    /// Calls the API as the demo app.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let request = self.request(method, path);
        answer(match body {
            Some(body) => request.json(body),
            None => request,
        })
        .await
    }

    /// Makes a GET call as a user.
    pub(crate) async fn get_as(&self, user: &str, path: &str) -> (u16, Value) {
        let request = self.client.get(format!("{}/v3{path}", self.dev("api")));
        let request = request.header("X-SERVICE-API-KEY", self.dev("apiKey"));
        answer(request.header("X-SERVICE-USER-ID", user)).await
    }

    /// Makes a POST call as a user.
    pub(crate) async fn post_as(&self, user: &str, path: &str) -> (u16, Value) {
        let request = self.client.post(format!("{}/v3{path}", self.dev("api")));
        let request = request.header("X-SERVICE-API-KEY", self.dev("apiKey"));
        answer(request.header("X-SERVICE-USER-ID", user)).await
    }

    /// Builds a request with the URL and the demo app's credentials.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}/v3{path}", self.dev("api")));
        let request = request.header("X-SERVICE-API-KEY", self.dev("apiKey"));
        request.header("X-SERVICE-API-SECRET", self.dev("apiSecret"))
    }

    /// Reads the captured emails to an address, newest first.
    pub(crate) async fn mails(&self, to: &str) -> Vec<Value> {
        let url = format!("{}/messages?channel=email&to={to}", self.dev("outbox"));
        let answer: Value = self.client.get(url).send().await.unwrap().json().await.unwrap();
        answer["data"].as_array().unwrap().clone()
    }

    /// Returns the status of a plain GET.
    pub(crate) async fn status_of(&self, url: &str) -> u16 {
        self.client.get(url).send().await.unwrap().status().as_u16()
    }

    /// Sends SIGTERM, and returns the exit code.
    pub(crate) async fn stop(&mut self) -> i32 {
        self.service.terminate().unwrap();
        self.exit_code().await
    }

    /// Waits until `tidings up` has ended.
    pub(crate) async fn exit_code(&mut self) -> i32 {
        let ended =
            eventually(STOPPED_WITHIN, "tidings up has ended", async || self.service.ended().unwrap()).await;
        ended.code().expect("no signal ended it")
    }
}

async fn answer(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

fn log(service: &Service) -> String {
    std::fs::read_to_string(service.log()).unwrap()
}
