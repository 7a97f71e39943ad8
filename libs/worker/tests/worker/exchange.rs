//! HTTP calls that break off.

use std::time::{Duration, Instant};

use domain::outcome::Blame;
use domain::{Outcome, Timestamp};
use stand_ins::http::half_answer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use worker::Outbound;
use worker::exchange::{Caller, NoReply, Reply};

const LIMIT: Duration = Duration::from_secs(30);

fn caller(limit: Duration) -> Caller {
    let outbound = Outbound::new(true);
    Caller::new(outbound.client().build().unwrap(), outbound, limit)
}

#[tokio::test]
async fn a_refusal_that_is_cut_short_before_its_reason_is_retried() {
    for status in [400, 401, 403, 404, 410, 422] {
        let silence = broken_off(status).await.unwrap_err();
        assert_eq!(silence, NoReply::CutShort(status));
        let answer = silence.answer();
        assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::RETRY, "cut_short"));
        assert_eq!(answer.blame, Blame::None, "a provider that answers is not to blame");
    }
}

#[tokio::test]
async fn a_sufficient_status_needs_no_body() {
    for status in [200, 202, 307, 408, 429, 500, 503] {
        let reply = broken_off(status).await.unwrap();
        assert_eq!((reply.status, reply.body.len()), (status, 0));
    }
}

#[tokio::test]
async fn a_process_that_was_paused_while_it_connected_does_not_send_the_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let limit = Duration::from_millis(500);
    let caller = caller(limit);
    let call = caller.call(caller.client().get(url), Timestamp::from_millis(0));
    // The only thread is busy, so the client cannot notice that it is connected before its time is over.
    let pause = async {
        let (stream, _) = listener.accept().await.unwrap();
        let began = Instant::now();
        while began.elapsed() <= limit {
            std::hint::spin_loop();
        }
        stream
    };
    let (mut stream, called) = tokio::join!(biased; pause, call);
    assert_eq!(called.unwrap_err(), NoReply::TimedOut);
    drop(caller);
    let mut received = String::new();
    stream.read_to_string(&mut received).await.unwrap();
    assert_eq!(received, "");
}

#[tokio::test]
async fn an_endless_answer_is_read_up_to_its_bound() {
    const BOUND: usize = 64 * 1024;
    for sent in [BOUND - 1, BOUND, BOUND + 1, 100 * BOUND] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let caller = caller(LIMIT);
        let call = caller.call(caller.client().get(url), Timestamp::from_millis(0));
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
            stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n")
                .await
                .unwrap();
            let mut left = sent;
            while left > 0 {
                let size = left.min(10_000);
                let chunk = format!("{size:x}\r\n{}\r\n", "x".repeat(size));
                // The client closes the connection when it has read enough.
                if stream.write_all(chunk.as_bytes()).await.is_err() {
                    return stream;
                }
                left -= size;
            }
            // The last chunk is missing if the body is longer than the bound.
            if sent < BOUND {
                stream.write_all(b"0\r\n\r\n").await.unwrap();
            }
            stream
        };
        let (_stream, reply) = tokio::join!(serve, call);
        assert_eq!(reply.unwrap().body.len(), sent.min(BOUND));
    }
}

#[tokio::test]
async fn a_head_of_an_answer_is_read_up_to_its_bound() {
    let fields = |number: usize, size: usize| format!("X-Filler: {}\r\n", "x".repeat(size)).repeat(number);
    for (fields, is_read) in
        [(fields(90, 1_000), true), (fields(101, 1), false), (fields(1, 500 * 1024), false)]
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let caller = caller(LIMIT);
        let call = caller.call(caller.client().get(url), Timestamp::from_millis(0));
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
            let head = format!("HTTP/1.1 400 Bad Request\r\n{fields}");
            // The client closes the connection when it has read enough. Without that, the head would never end.
            let closed = stream.write_all(head.as_bytes()).await.is_err();
            if is_read && !closed {
                stream.write_all(b"Content-Length: 0\r\n\r\n").await.unwrap();
            }
            stream
        };
        let (_stream, reply) = tokio::join!(serve, call);
        assert_eq!(reply.is_ok(), is_read, "{reply:?}");
        assert!(!matches!(reply, Err(NoReply::TimedOut)), "the head is refused while it arrives");
    }
}

/// Calls a server whose reply breaks off in the middle of its body.
async fn broken_off(status: u16) -> Result<Reply, NoReply> {
    let (url, server) = half_answer(status).await.unwrap();
    let caller = caller(LIMIT);
    let call = caller.call(caller.client().get(url), Timestamp::from_millis(0));
    let (served, called) = tokio::join!(server, call);
    served.unwrap();
    called
}
