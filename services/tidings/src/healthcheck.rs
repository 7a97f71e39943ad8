//! Works in containers without a shell.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use service_kit::{Config, ConfigError};

use crate::{DONE, FAILED, UNUSABLE};

/// Size in bytes. A normal answer has a few hundred bytes.
const LONGEST_ANSWER: u64 = 65_536;

/// Check that the service on this machine is ready.
///
/// Calls /readyz at the address metrics.listen. Like the service in the same container or unit, the command reads this
/// setting from the configuration.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:
  0  ready
  1  not ready, or no answer in time
  2  the command line or the configuration is not valid

Examples:
  tidings healthcheck
  tidings healthcheck --live --address 127.0.0.1:9091")]
pub(crate) struct Arguments {
    /// Only check that the process is alive (/healthz); it may be alive while PostgreSQL or NATS is unavailable
    #[arg(long)]
    live: bool,
    /// IP address and port to call [default: metrics.listen]
    #[arg(long, value_name = "ADDRESS")]
    address: Option<SocketAddr>,
    /// Timeout for the answer, such as 3s
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    /// Configuration file (TOML) [default: the file that TIDINGS_CONFIG names, if any]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    ExitCode::from(match check(arguments) {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!("tidings healthcheck: {error:#}");
            if error.is::<ConfigError>() { UNUSABLE } else { FAILED }
        }
    })
}

fn check(arguments: &Arguments) -> anyhow::Result<()> {
    let listen = match arguments.address {
        Some(address) => address,
        None => Config::load(arguments.config.as_deref())?.metrics.listen,
    };
    let address = reachable(listen);
    let path = if arguments.live { "/healthz" } else { "/readyz" };
    let answer =
        get(address, path, arguments.timeout).with_context(|| format!("no answer from {address}"))?;
    let status = answer.split_ascii_whitespace().nth(1).unwrap_or_default();
    if status != "200" {
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        bail!("{address}{path} answers {status}: {body}");
    }
    Ok(())
}

/// Replaces an unspecified address, such as 0.0.0.0, with the loopback address.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// Reads until the server closes the connection, as HTTP/1.0 allows.
fn get(address: SocketAddr, path: &str, limit: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.take(LONGEST_ANSWER).read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn an_answer_without_an_end_is_read_up_to_its_bound() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Ends when the client closes the connection.
            while stream.write_all(&[b'a'; 8_192]).is_ok() {}
        });
        let answer = get(address, "/healthz", Duration::from_secs(20)).unwrap();
        assert_eq!(answer.len() as u64, LONGEST_ANSWER);
        server.join().unwrap();
    }
}
