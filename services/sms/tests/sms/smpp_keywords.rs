use domain::sms::keyword::Keyword;
use serde_json::json;
use sms::{KeywordMessage, RecordResult};
use stand_ins::smsc::{Carrier, PersonMessage, SmscStandIn};
use testkit::eventually;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::fixture::{LIMIT, Line, TO, assert_sent, smsc};

async fn next(messages: &mut mpsc::Receiver<KeywordMessage>) -> KeywordMessage {
    timeout(LIMIT, messages.recv()).await.expect("a keyword").unwrap()
}

async fn taken(server: &SmscStandIn, count: usize) {
    let is_taken = async || (server.person_messages_taken() == count).then_some(());
    eventually(LIMIT, "the message is confirmed", is_taken).await;
}

/// Starts a message centre to which the line is bound.
async fn bound() -> (SmscStandIn, Line, mpsc::Receiver<KeywordMessage>) {
    let (server, line) = smsc().await;
    let messages = line.sender.keywords().unwrap();
    assert_sent(&line.send(TO, "Hello").await);
    (server, line, messages)
}

#[tokio::test]
async fn a_keyword_is_heard_in_every_encoding_and_field() {
    let (server, _line, mut messages) = bound().await;
    let stop = |octets: &[u8], data_coding| PersonMessage { data_coding, ..PersonMessage::new(TO, octets) };
    let carried = |carrier| PersonMessage { carrier, ..PersonMessage::new(TO, "STOP") };
    let sent = [
        stop(b"STOP", 0),
        stop(b" stop.\r\n", 1),
        stop(b"st\xd3p!", 3),
        stop(b"STOP\0", 0),
        stop(b"ARR\x1fT", 0).from("33612345678"),
        stop(b"Opt-Out", 0xf1),
        stop(b"\xc1\xc2\xbe\xbf", 6).from("79161234567"),
        PersonMessage::in_ucs2(TO, "Stopp"),
        PersonMessage::in_ucs2("+972501234567", "הסר"),
        stop(b"STOP", 0).with_header(1, 1),
        PersonMessage::in_ucs2(TO, "STOP").with_header(2, 1),
        carried(Carrier::Payload),
        carried(Carrier::DataSm),
    ];
    for (count, message) in (1..).zip(sent) {
        server.deliver(message.clone());
        let heard = next(&mut messages).await;
        assert_eq!((heard.app.0, &*heard.provider, heard.keyword), (1, "main", Keyword::Stop), "{message:?}");
        assert_eq!(heard.number, format!("+{}", message.from));
        assert_eq!(server.person_messages_taken(), count - 1, "confirmed before it was recorded");
        heard.recorded.send(RecordResult::Done).unwrap();
        taken(&server, count).await;
    }
    for (text, keyword) in [("unstop", Keyword::Start), ("Help", Keyword::Help)] {
        server.deliver(PersonMessage::new(TO, text));
        let heard = next(&mut messages).await;
        assert_eq!(heard.keyword, keyword);
        heard.recorded.send(RecordResult::Done).unwrap();
    }
}

#[tokio::test]
async fn other_messages_are_confirmed_and_ignored() {
    let (server, _line, mut messages) = bound().await;
    let spoofed =
        "id:0 sub:001 dlvrd:001 submit date:2601020304 done date:2601020304 stat:DELIVRD err:000 text:";
    let mut count = 0;
    for octets in [&b"please don't stop"[..], b"", b"\xff\xfe", spoofed.as_bytes()] {
        server.deliver(PersonMessage::new(TO, octets));
        server.deliver(PersonMessage::in_ucs2(TO, &String::from_utf8_lossy(octets)));
        server.deliver(PersonMessage::new(TO, octets).with_header(1, 1));
        count += 3;
        taken(&server, count).await;
    }
    server.deliver(PersonMessage::new("Shop", "STOP"));
    taken(&server, count + 1).await;
    assert!(messages.try_recv().is_err(), "no keyword is recorded");
}

#[tokio::test]
async fn a_keyword_that_could_not_be_recorded_is_redelivered() {
    let (server, _line, mut messages) = bound().await;
    server.deliver(PersonMessage::new(TO, "STOP"));
    for recorded in [Some(RecordResult::Later), None, Some(RecordResult::Done)] {
        let heard = next(&mut messages).await;
        assert_eq!(server.person_messages_taken(), 0, "a keyword is not confirmed before it is recorded");
        match recorded {
            Some(recorded) => heard.recorded.send(recorded).unwrap(),
            None => drop(heard),
        }
    }
    taken(&server, 1).await;
}

#[tokio::test]
async fn numbers_of_senders_are_normalised() {
    let (server, mut line) = smsc().await;
    line.provider.settings["countryCode"] = json!("49");
    line.provider.settings["stopKeywords"] = json!(["No more"]);
    let mut messages = line.sender.keywords().unwrap();
    assert_sent(&line.send(TO, "Hello").await);
    for (from, ton) in [
        ("4915112345678", 1),
        ("4915112345678", 0),
        ("+4915112345678", 0),
        ("004915112345678", 0),
        ("015112345678", 0),
        ("15112345678", 2),
        ("0151 1234-5678", 2),
    ] {
        server.deliver(PersonMessage { ton, ..PersonMessage::new(TO, "no more").from(from) });
        let heard = next(&mut messages).await;
        assert_eq!((heard.number.as_str(), heard.keyword), (TO, Keyword::Stop), "{from} {ton}");
        heard.recorded.send(RecordResult::Done).unwrap();
    }
}
