//! Heads of requests: their limit, and requests that arrive before the answer to an earlier one.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::service::{Backing, SOON, Service};

async fn answers(service: &Service, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    // A connection that is reset has been closed too.
    timeout(SOON, stream.read_to_end(&mut answer)).await.expect("the gateway closes the connection").ok();
    String::from_utf8(answer).unwrap()
}

/// Builds the start of a head of this many bytes.
fn head(bytes: usize) -> Vec<u8> {
    let mut head = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Filler: ".to_vec();
    head.resize(bytes, b'a');
    head
}

#[tokio::test]
async fn a_head_is_refused_while_it_arrives() {
    let service = Service::start_with(Backing::Nothing).await;
    let most = gateway::limits::MAX_HEAD;
    let fitting = [head(most - 4), b"\r\n\r\n".to_vec()].concat();
    assert!(answers(&service, &fitting).await.starts_with("HTTP/1.1 200"));
    // The end of the head never arrives.
    for bytes in [most + 1, 2 * most, 100_000] {
        let answer = answers(&service, &head(bytes)).await;
        assert!(answer.starts_with("HTTP/1.1 431"), "{bytes}: {answer}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["code"], "head_too_large");
        assert!(body["message"].as_str().unwrap().contains(&most.to_string()));
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_one_after_another() {
    let service = Service::start_with(Backing::Nothing).await;
    let one = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    let unread = "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    let last = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let request = [one.repeat(700), unread.to_owned(), one.to_owned(), last.to_owned()].concat();
    assert!(request.len() > gateway::limits::MAX_HEAD);
    let answer = answers(&service, request.as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 702);
    assert_eq!(answer.matches("HTTP/1.1 404").count(), 1);
}

#[tokio::test]
async fn a_body_without_an_end_that_no_handler_reads_closes_its_connection() {
    let service = Service::start_with(Backing::Nothing).await;
    let chunk = format!("400\r\n{}\r\n", "x".repeat(1024));
    let head = "POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let finished = [head.to_owned(), chunk.repeat(3), "0\r\n\r\n".to_owned()].concat();
    let answer = answers(&service, finished.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");

    let mut stream = TcpStream::connect(service.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 404");
    let endless = async { while stream.write_all(chunk.as_bytes()).await.is_ok() {} };
    timeout(SOON, endless).await.expect("the gateway closes the connection");
}
