//! PDUs with bodies that the standard does not allow. Message centres send them, and their headers can be read.

use std::time::Duration;

use bytes::BytesMut;
use domain::{Answer, Outcome};
use proptest::prelude::*;
use serde_json::json;
use sms::RecordResult;
use sms::smpp::incoming::IncomingMessage;
use sms::smpp::pdu::PduCodec;
use sms::smpp::receipt::DeliveryReceipt;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::codec::Decoder as _;

use crate::fixture::{LIMIT, Line, TO};
use crate::smpp_bounds::{DELIVER_SM, bound};

const SUBMIT_SM: u32 = 4;
const SUBMIT_SM_RESP: u32 = 0x8000_0004;
pub(crate) const DELIVER_SM_RESP: u32 = 0x8000_0005;

pub(crate) fn pdu(command: u32, status: u32, sequence: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + body.len()).unwrap();
    let header = [length, command, status, sequence].into_iter().flat_map(u32::to_be_bytes);
    header.chain(body.iter().copied()).collect()
}

/// Body of a deliver_sm with a receipt for the message `a1`.
pub(crate) fn receipt(source: &[u8], declared: u8, end: &[u8]) -> Vec<u8> {
    let text = b"id:a1 stat:DELIVRD err:000";
    let fields: [&[u8]; 7] =
        [b"\0\x01\x01", source, b"\0\x05\0shop\0", b"\x04\0\0\0\0\0\0\0\0", &[declared], text, end];
    fields.concat()
}

/// Reads PDUs until one with this command. Returns its status and sequence number.
pub(crate) async fn next(stream: &mut TcpStream, command: u32) -> (u32, u32) {
    loop {
        let [length, received, status, sequence] = [
            stream.read_u32().await.unwrap(),
            stream.read_u32().await.unwrap(),
            stream.read_u32().await.unwrap(),
            stream.read_u32().await.unwrap(),
        ];
        stream.read_exact(&mut vec![0; length as usize - 16]).await.unwrap();
        if received == command {
            return (status, sequence);
        }
    }
}

async fn start() -> (TcpListener, Line) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = json!({
        "host": "127.0.0.1", "port": listener.local_addr().unwrap().port(), "systemId": "shop",
        "password": "secret", "from": "Shop", "enquireLinkSeconds": 600,
    });
    (listener, Line::new("smpp", settings))
}

/// Answers one submission with this status and body.
async fn answered(stream: &mut TcpStream, line: &Line, status: u32, body: &[u8]) -> Answer {
    let answer = async {
        let (_, sequence) = next(stream, SUBMIT_SM).await;
        stream.write_all(&pdu(SUBMIT_SM_RESP, status, sequence, body)).await.unwrap();
    };
    timeout(LIMIT, async { tokio::join!(line.send(TO, "Hello"), answer).0 }).await.unwrap()
}

#[tokio::test]
async fn the_status_of_a_response_decides_whatever_its_body_is() {
    let (listener, line) = start().await;
    line.sender.listen(&line.provider).unwrap();
    let mut stream = bound(&listener).await;
    let long = "7".repeat(80);
    let bodies: [(&[u8], Option<&str>); 7] = [
        (b"a1\0", Some("a1")),
        (b"a1", Some("a1")),
        (b"n\xfamero-1\0", Some("n\u{fffd}mero-1")),
        (b"a1\0\x04\x27\0\x09\x02", Some("a1")),
        (b"a1\0\xff", Some("a1")),
        (b"", None),
        (long.as_bytes(), Some(&long)),
    ];
    for (body, id) in bodies {
        let answer = answered(&mut stream, &line, 0, body).await;
        assert_eq!(answer.outcome, Outcome::Sent { provider_id: id.map(str::to_owned) }, "{body:?}");
        let refused = answered(&mut stream, &line, 0x0b, body).await;
        assert_eq!(refused.code, "ESME_RINVDSTADR", "{body:?}: {refused:?}");
    }
}

#[tokio::test]
async fn a_receipt_in_an_odd_pdu_is_recorded_and_the_connection_stays() {
    let (listener, mut line) = start().await;
    line.sender.listen(&line.provider).unwrap();
    let mut stream = bound(&listener).await;
    let forms = [
        receipt(b"4915112345678", 26, b""),
        receipt(b"a sender that is longer than 20 octets", 26, b""),
        receipt(b"Caf\xe9", 26, b""),
        receipt(b"4915112345678", 200, b""),
        receipt(b"4915112345678", 26, b"\x00\x1e\x00\x40a1"),
        receipt(b"4915112345678", 26, b"\x04"),
    ];
    for (body, sequence) in forms.iter().zip(1..) {
        stream.write_all(&pdu(DELIVER_SM, 0, sequence, body)).await.unwrap();
        let receipt = timeout(LIMIT, line.receipts.recv()).await.expect("a receipt").unwrap();
        assert_eq!((receipt.provider_id.as_str(), receipt.answer.code.as_str()), ("a1", "DELIVRD"));
        receipt.recorded.send(RecordResult::Done).unwrap();
        assert_eq!(timeout(LIMIT, next(&mut stream, DELIVER_SM_RESP)).await.unwrap(), (0, sequence));
    }
    stream.write_all(&pdu(DELIVER_SM, 0, 99, b"")).await.unwrap();
    assert_eq!(timeout(LIMIT, next(&mut stream, DELIVER_SM_RESP)).await.unwrap(), (0, 99));
    assert_eq!(
        answered(&mut stream, &line, 0, b"a2\0").await.outcome,
        Outcome::Sent { provider_id: Some("a2".to_owned()) }
    );
    let another = timeout(Duration::from_millis(100), listener.accept()).await;
    assert!(another.is_err(), "the worker keeps its connection");
}

proptest! {
    #[test]
    fn pdus_are_the_same_however_their_octets_arrive(
        sent in proptest::collection::vec((0u32..16, 0u32..99, proptest::collection::vec(any::<u8>(), 0..60)), 0..6),
        pieces in proptest::collection::vec(1usize..40, 1..40),
    ) {
        let octets: Vec<u8> = sent.iter().flat_map(|(command, status, body)| pdu(*command, *status, 7, body)).collect();
        let (mut codec, mut received, mut rest) = (PduCodec::default(), Vec::new(), octets.as_slice());
        let mut buffer = BytesMut::new();
        for length in pieces.iter().cycle().take(octets.len()) {
            let (piece, after) = rest.split_at(rest.len().min(*length));
            buffer.extend_from_slice(piece);
            rest = after;
            while let Some(pdu) = codec.decode(&mut buffer).unwrap() {
                received.push((u32::from(pdu.id), pdu.status, pdu.body.to_vec()));
            }
        }
        prop_assert_eq!(received, sent);
        prop_assert!(buffer.is_empty());
    }

    #[test]
    fn a_body_of_any_octets_can_be_read(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        for message in [IncomingMessage::of_deliver_sm(&body), IncomingMessage::of_data_sm(&body)] {
            let is_readable = DeliveryReceipt::read(&message).is_some();
            prop_assert!(!is_readable || DeliveryReceipt::is_receipt(&message));
            prop_assert!(message.octets.len() <= body.len());
        }
    }
}
