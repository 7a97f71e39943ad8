use std::time::Duration;

use local_servers::NatsServer;

use testkit::eventually;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Sends one request over the wire protocol and returns the body of the answer. This is enough to test JetStream without a client
/// library.
async fn request(server: &NatsServer, subject: &str, body: &str) -> String {
    let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let password = server.url().split_once("tidings:").and_then(|(_, rest)| rest.split_once('@'));
    let login = password
        .map_or_else(String::new, |(password, _)| format!(",\"user\":\"tidings\",\"pass\":\"{password}\""));
    let length = body.len();
    // Each request has its own reply subject, so that it cannot receive a late answer to an earlier, abandoned request.
    let reply = format!("reply-{}", write.local_addr().unwrap().port());
    let asked = format!(
        "CONNECT {{\"verbose\":false{login}}}\r\nSUB {reply} 1\r\nPUB {subject} {reply} {length}\r\n{body}\r\n"
    );
    write.write_all(asked.as_bytes()).await.unwrap();
    let answer = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.starts_with(&format!("MSG {reply} ")) {
                return lines.next_line().await.unwrap().unwrap();
            }
        }
        panic!("the server hung up");
    };
    tokio::time::timeout(Duration::from_secs(10), answer).await.unwrap()
}

async fn make_stream(server: &NatsServer) {
    let body = r#"{"name":"KEPT","subjects":["kept"],"storage":"file"}"#;
    let answer = request(server, "$JS.API.STREAM.CREATE.KEPT", body).await;
    assert!(!answer.contains("error"), "{answer}");
    let ack = request(server, "kept", "hello").await;
    assert!(ack.contains("\"seq\":1"), "{ack}");
}

async fn assert_kept(server: &NatsServer) {
    let info = request(server, "$JS.API.STREAM.INFO.KEPT", "").await;
    assert!(info.contains("\"messages\":1"), "{info}");
}

#[tokio::test]
async fn nats_keeps_streams_and_address_over_a_kill_and_restart() {
    let mut server = NatsServer::start().await.unwrap();
    let url = server.url().to_owned();
    make_stream(&server).await;
    server.kill();
    assert!(TcpStream::connect(("127.0.0.1", server.port())).await.is_err(), "a killed server answers");
    server.restart().await.unwrap();
    assert_eq!(server.url(), url);
    assert_kept(&server).await;
}

#[tokio::test]
async fn a_stopped_server_can_be_started_again_and_a_dropped_one_leaves_no_process() {
    let files = tempfile::tempdir().unwrap();
    let server = NatsServer::start_in(files.path()).await.unwrap();
    make_stream(&server).await;
    assert!(
        !testkit::processes::naming(files.path()).is_empty(),
        "the test cannot see the processes that it looks for"
    );
    server.stop().await.unwrap();
    testkit::processes::gone(files.path()).await;

    let again = NatsServer::start_in(files.path()).await.unwrap();
    assert_kept(&again).await;
    drop(again);
    testkit::processes::gone(files.path()).await;
}

#[tokio::test]
async fn a_second_instance_on_the_same_directory_is_refused_by_name() {
    let files = tempfile::tempdir().unwrap();
    let _first = NatsServer::start_in(files.path()).await.unwrap();
    let error = NatsServer::start_in(files.path()).await.unwrap_err().to_string();
    assert!(error.contains("another running instance uses"), "{error}");
}

#[tokio::test]
async fn a_resumed_server_answers_again() {
    let mut server = NatsServer::start().await.unwrap();
    make_stream(&server).await;
    server.pause().unwrap();
    let ask = tokio::time::timeout(Duration::from_millis(200), request(&server, "$JS.API.INFO", ""));
    assert!(ask.await.is_err(), "a paused server answered");
    server.resume().unwrap();
    let answers = async || Some(request(&server, "$JS.API.STREAM.INFO.KEPT", "").await);
    let info = eventually(Duration::from_secs(10), "an answer", answers).await;
    assert!(info.contains("\"messages\":1"), "{info}");
}

#[tokio::test]
async fn a_server_with_a_data_directory_requires_its_password() {
    use std::os::unix::fs::PermissionsExt;
    let files = tempfile::tempdir().unwrap();
    let directory = files.path().join("nats");
    let server = NatsServer::start_in(&directory).await.unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    stream.write_all(b"CONNECT {\"verbose\":false}\r\nPING\r\n").await.unwrap();
    let mut answer = String::new();
    let read = tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer);
    tokio::time::timeout(Duration::from_secs(10), read).await.unwrap().unwrap();
    assert!(answer.contains("Authorization Violation"), "{answer}");
    for (secret, expected) in [("", 0o700), ("password", 0o600), ("nats-server.conf", 0o600)] {
        let mode = directory.join(secret).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, expected, "{secret}");
    }
}
