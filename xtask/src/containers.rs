use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::steps;

const POSTGRES_IMAGE: &str = "postgres:17-alpine";
const NATS_IMAGE: &str = "nats:2.12-alpine";
const READY_WITHIN: Duration = Duration::from_secs(120);

/// Stopped when this value is dropped; the data stays for the next start.
#[derive(Debug)]
pub(crate) struct Container {
    name: String,
    pub(crate) url: String,
}

impl Container {
    /// The password is stored in that directory.
    pub(crate) fn postgres(directory: &Path) -> anyhow::Result<Self> {
        let name = name("postgres", directory);
        let password = password(directory)?;
        let mut create = Command::new("docker");
        create
            .args(["create", "--name", &name, "--publish", "127.0.0.1::5432"])
            .args(["--env", "POSTGRES_USER=tidings", "--env", "POSTGRES_PASSWORD", POSTGRES_IMAGE])
            .env("POSTGRES_PASSWORD", &password);
        let address = start(&name, &mut create, "5432/tcp")?;
        let container = Self { url: format!("postgres://tidings:{password}@{address}/tidings"), name };
        container.ready(&["pg_isready", "--host=127.0.0.1", "--username=tidings"])?;
        Ok(container)
    }

    pub(crate) fn nats(directory: &Path) -> anyhow::Result<Self> {
        let name = name("nats", directory);
        let mut create = Command::new("docker");
        create.args(["create", "--name", &name, "--publish", "127.0.0.1::4222", NATS_IMAGE]).args([
            "nats-server",
            "--jetstream",
            "--store_dir=/data",
            "--http_port=8222",
        ]);
        let address = start(&name, &mut create, "4222/tcp")?;
        let container = Self { url: format!("nats://{address}"), name };
        container.ready(&["wget", "-q", "-O", "-", "http://127.0.0.1:8222/healthz"])?;
        Ok(container)
    }

    fn ready(&self, probe: &[&str]) -> anyhow::Result<()> {
        let end = Instant::now() + READY_WITHIN;
        let arguments: Vec<&str> = ["exec", &self.name].iter().chain(probe).copied().collect();
        while !steps::succeeds("docker", &arguments) {
            ensure!(Instant::now() < end, "the container {} is not ready; see `docker logs {0}`", self.name);
            std::thread::park_timeout(Duration::from_millis(200));
        }
        Ok(())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        steps::say(&format!("stopping the container {}", self.name));
        if !steps::succeeds("docker", &["stop", &self.name]) {
            steps::say(&format!("the container did not stop; try `docker stop {}`", self.name));
        }
    }
}

fn name(server: &str, directory: &Path) -> String {
    let place = directory.display().to_string();
    let place = place.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    format!("tidings-{server}{place}")
}

fn start(name: &str, create: &mut Command, port: &str) -> anyhow::Result<String> {
    if !steps::succeeds("docker", &["container", "inspect", name]) {
        steps::say(&format!("creating the container {name}"));
        steps::output(create)?;
    }
    let running =
        steps::output(Command::new("docker").args(["inspect", "--format={{.State.Running}}", name]))?;
    ensure!(
        running != "true",
        "the container {name} already runs: another instance uses this data directory"
    );
    steps::output(Command::new("docker").args(["start", name]))?;
    let addresses = steps::output(Command::new("docker").args(["port", name, port]))?;
    addresses
        .lines()
        .next()
        .map(str::to_owned)
        .with_context(|| format!("the container {name} publishes no port"))
}

fn password(directory: &Path) -> anyhow::Result<String> {
    let path = directory.join("container-password");
    if let Ok(kept) = std::fs::read_to_string(&path) {
        return Ok(kept);
    }
    let mut random = [0_u8; 24];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let password: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::create_dir_all(directory)?;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(password.as_bytes())?;
    Ok(password)
}
