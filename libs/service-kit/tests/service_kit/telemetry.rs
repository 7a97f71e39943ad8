use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use service_kit::{Config, telemetry, trace};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const CALLERS_TRACE: [u8; 16] =
    [0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c];

/// Starts a collector that accepts one request and sends its first line and body to the receiver.
fn collector() -> (String, mpsc::Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        sender.send(take(&stream)).unwrap();
    });
    (origin, receiver)
}

fn take(mut stream: &TcpStream) -> (String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    reader.read_line(&mut request).unwrap();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    (request, body)
}

fn holds(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

/// Telemetry can be set up only once per process, so a single test checks all of it. The test also shows that no traces exist
/// before the setup.
#[test]
fn a_trace_goes_through_the_process_to_the_collector() {
    let before = tracing::info_span!("before").in_scope(trace::current_traceparent);
    assert_eq!(before, None);
    trace::continue_from(&tracing::info_span!("before"), Some(CALLER));

    let (origin, received) = collector();
    let mut config = Config::default();
    config.otlp.endpoint = Some(origin.parse().unwrap());
    let guard = telemetry::init("tidings-test", &config).unwrap();
    assert!(telemetry::init("tidings-test", &config).is_err(), "telemetry can be set up only once");

    let span = tracing::info_span!("provider_call", channel = "email");
    trace::continue_from(&span, Some(CALLER));
    let onward = span.in_scope(trace::current_traceparent).unwrap();
    assert_eq!(onward[..36], CALLER[..36], "the same trace");
    assert_ne!(onward[36..52], CALLER[36..52], "a new span");
    drop(span);

    for malformed in [None, Some(""), Some("undefined"), Some("00-0-0-00")] {
        let span = tracing::info_span!("of_its_own");
        trace::continue_from(&span, malformed);
        assert!(span.in_scope(trace::current_traceparent).is_some(), "a separate trace");
    }
    assert_eq!(trace::current_traceparent(), None, "no trace outside of a span");

    drop(guard);
    let (request, body) = received.recv_timeout(Duration::from_secs(30)).unwrap();
    assert!(request.starts_with("POST /v1/traces HTTP/1.1"), "{request}");
    for part in [&b"provider_call"[..], b"tidings-test", b"email", b"of_its_own", &CALLERS_TRACE] {
        assert!(holds(&body, part), "{}", String::from_utf8_lossy(part));
    }
}
