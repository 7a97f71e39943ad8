//! Operators see the trace, log lines and metrics of a send, but no personal data.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::eventually;

use crate::directory::Directory;
use crate::running::RunningProcess;

const SEEN_WITHIN: Duration = Duration::from_secs(20);
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
/// Personal data and content that no log line may contain.
const CANARIES: [&str; 5] =
    ["canary-person", "canary.address@example.com", "canary title", "canary message", "canary-data"];

const METRICS: [&str; 7] = [
    "tidings_accepted_total{lane=\"transactional\"} 1",
    "tidings_dispatched_total{lane=\"transactional\"} 1",
    "tidings_deliveries_total{channel=\"email\",status=\"sent\"} 1",
    "tidings_accept_to_inbox_seconds_count 1",
    "tidings_provider_call_seconds_count{channel=\"email\"} 1",
    "tidings_stream_pending{stream=\"SEND_transactional\"} 0",
    "tidings_projection_lag_events{stream=\"INBOX_0\"} 0",
];

/// A collector that stores the bytes of every export.
struct Collector {
    url: String,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&received);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || take_exports(connection.unwrap(), &kept));
            }
        });
        Collector { url, received }
    }

    /// Returns true if the trace id and all of these span names are in the exports so far.
    fn has(&self, trace: &[u8], names: &[&str]) -> bool {
        let received = self.received.lock().unwrap();
        let holds = |part: &[u8]| received.windows(part.len()).any(|window| window == part);
        holds(trace) && names.iter().all(|name| holds(name.as_bytes()))
    }
}

fn take_exports(mut connection: TcpStream, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(read @ 1..) = connection.read(&mut buffer) {
        kept.lock().unwrap().extend_from_slice(&buffer[..read]);
        // Answer at once, because the exporter sends its next request only after the answer.
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        if read < buffer.len() && connection.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn trace_bytes() -> Vec<u8> {
    (0..TRACE.len()).step_by(2).map(|at| u8::from_str_radix(&TRACE[at..at + 2], 16).unwrap()).collect()
}

async fn send_canaries(running: &RunningProcess) -> String {
    let body = json!({
        "notification": {"title": CANARIES[2], "message": CANARIES[3]},
        "sendTo": {"recipients": [{"identifier": CANARIES[0], "email": CANARIES[1]}]},
        "data": {"secret": CANARIES[4]},
    });
    let request = running.request(Method::POST, "/notifications").json(&body);
    let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let answer = request.header("traceparent", traceparent).send().await.unwrap();
    assert_eq!(answer.status(), 202);
    let receipt: Value = answer.json().await.unwrap();
    receipt["requestId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_send_is_traced_logged_and_counted_without_its_content() {
    let collector = Collector::start();
    let directory = Directory::new();
    let variables = [("TIDINGS_OTLP__ENDPOINT", collector.url.as_str()), ("TIDINGS_LOG__LEVEL", "debug")];
    let mut running = RunningProcess::start_with(&directory.path().join("data"), &variables).await;

    let send_id = send_canaries(&running).await;
    eventually(SEEN_WITHIN, "the email is captured", async || {
        (running.mails(CANARIES[1]).await.len() == 1).then_some(())
    })
    .await;
    // The client's trace contains the spans of the HTTP request and of the provider call.
    eventually(SEEN_WITHIN, "the spans of the send are exported", async || {
        collector.has(&trace_bytes(), &["request", "attempt"]).then_some(())
    })
    .await;

    // Wait, because services measure streams only every few seconds.
    eventually(SEEN_WITHIN, "the metrics show the send and the streams", async || {
        let metrics = reqwest::get(running.dev("metrics")).await.unwrap().text().await.unwrap();
        METRICS.iter().all(|line| metrics.contains(line)).then_some(())
    })
    .await;

    assert_eq!(running.stop().await, 0);
    let log = running.log();
    for step in ["accepted a send", "dispatched", "sent"] {
        let reported = log.lines().any(|line| line.contains(step) && line.contains(&send_id));
        assert!(reported, "no log line has {step:?} for {send_id}: {log}");
    }
    for canary in CANARIES {
        assert!(!log.contains(canary), "{canary} is in the log");
    }
}
