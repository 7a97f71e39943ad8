//! Bounds on the data of a message centre that the worker keeps.

use std::time::Duration;

use serde_json::json;
use sms::RecordResult;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::fixture::{LIMIT, Line};
use crate::smpp_oddities::{DELIVER_SM_RESP, next, pdu, receipt};

/// Longest PDU that the worker reads.
const LONGEST: u32 = 72 * 1024;
const BIND_TRANSCEIVER: u32 = 9;
const BIND_TRANSCEIVER_RESP: u32 = 0x8000_0009;
pub(crate) const DELIVER_SM: u32 = 5;

fn header(length: u32, command: u32) -> Vec<u8> {
    [length, command, 0, 1].into_iter().flat_map(u32::to_be_bytes).collect()
}

/// Accepts a connection of the line and the bind on it.
pub(crate) async fn bound(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = timeout(LIMIT, listener.accept()).await.unwrap().unwrap();
    let mut head = [0; 16];
    stream.read_exact(&mut head).await.unwrap();
    let [length, command, _, sequence] =
        [0, 4, 8, 12].map(|at| u32::from_be_bytes(head[at..at + 4].try_into().unwrap()));
    assert_eq!(command, BIND_TRANSCEIVER);
    stream.read_exact(&mut vec![0; length as usize - 16]).await.unwrap();
    let mut answer = header(17, BIND_TRANSCEIVER_RESP);
    answer[12..].copy_from_slice(&sequence.to_be_bytes());
    answer.push(0);
    stream.write_all(&answer).await.unwrap();
    stream
}

/// Waits until the worker closes the connection. Ignores what the worker sends.
async fn closes(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return true,
            Ok(_) => {}
        }
    }
}

#[tokio::test]
async fn a_frame_is_refused_by_its_declared_length() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let line = Line::new(
        "smpp",
        json!({
            "host": "127.0.0.1", "port": listener.local_addr().unwrap().port(), "systemId": "shop",
            "password": "secret", "from": "Shop", "enquireLinkSeconds": 600,
        }),
    );
    line.sender.listen(&line.provider).unwrap();
    for declared in [LONGEST + 1, 1 << 31, u32::MAX, 15, 0] {
        let mut stream = bound(&listener).await;
        stream.write_all(&header(declared, DELIVER_SM)).await.unwrap();
        // The header is complete and no body follows.
        assert!(timeout(LIMIT, closes(&mut stream)).await.unwrap(), "{declared}");
    }
    let mut stream = bound(&listener).await;
    stream.write_all(&header(LONGEST, DELIVER_SM)).await.unwrap();
    let waited = timeout(Duration::from_millis(300), closes(&mut stream)).await;
    assert!(waited.is_err(), "a frame of the maximum length is read");
}

#[tokio::test]
async fn receipts_that_wait_beyond_the_bound_are_refused_and_may_come_again() {
    const MOST: u32 = 256;
    const LATER: u32 = 0x64;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = json!({
        "host": "127.0.0.1", "port": listener.local_addr().unwrap().port(), "systemId": "shop",
        "password": "secret", "from": "Shop", "enquireLinkSeconds": 600,
    });
    let mut line = Line::new("smpp", settings);
    line.sender.listen(&line.provider).unwrap();
    let mut stream = bound(&listener).await;
    for sequence in 1..=MOST + 1 {
        stream.write_all(&pdu(DELIVER_SM, 0, sequence, &receipt(b"4915112345678", 26, b""))).await.unwrap();
    }
    let refused = timeout(LIMIT, next(&mut stream, DELIVER_SM_RESP)).await.unwrap();
    assert_eq!(refused, (LATER, MOST + 1), "no other receipt is acknowledged before it is recorded");
    for _ in 0..MOST {
        let receipt = timeout(LIMIT, line.receipts.recv()).await.unwrap().unwrap();
        receipt.recorded.send(RecordResult::Done).unwrap();
        assert_eq!(timeout(LIMIT, next(&mut stream, DELIVER_SM_RESP)).await.unwrap().0, 0);
    }
}
