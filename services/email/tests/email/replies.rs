//! Properties of the reader of replies: whatever a server sends, and however it is divided, the reader is bounded and finds the same
//! replies.

use email::smtp::Reply;
use email::smtp::reply::{MAX_REPLY, ReplyReader};
use proptest::prelude::*;

/// Everything that a reader found: replies, and the way in which the conversation ended.
#[derive(Debug, PartialEq, Eq)]
struct Heard {
    replies: Vec<Reply>,
    end: End,
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    /// All octets were read, and this is the part of a reply that was left.
    Exhausted(Option<Reply>),
    Unreadable,
    /// A reply reached the bound.
    TooLong(Option<Reply>),
}

/// Passes the octets to a reader in pieces of these sizes, in turn.
fn read(octets: &[u8], sizes: &[usize]) -> Heard {
    let (mut reader, mut replies) = (ReplyReader::default(), Vec::new());
    let (mut left, mut sizes) = (octets, sizes.iter().cycle());
    loop {
        loop {
            match reader.next_reply() {
                Ok(Some(reply)) => replies.push(reply),
                Ok(None) => break,
                Err(_) => return Heard { replies, end: End::Unreadable },
            }
        }
        let room = reader.room();
        if room == 0 {
            return Heard { replies, end: End::TooLong(reader.cut()) };
        }
        if left.is_empty() {
            return Heard { replies, end: End::Exhausted(reader.cut()) };
        }
        let size = sizes.next().copied().unwrap_or(1).clamp(1, room.min(left.len()));
        let (piece, rest) = left.split_at(size);
        reader.buffer().extend_from_slice(piece);
        assert!(reader.buffer().len() <= MAX_REPLY, "the reader keeps {} octets", reader.buffer().len());
        left = rest;
    }
}

/// Generates what servers send: mostly lines with a code, some of them odd, some of them long.
fn octets() -> impl Strategy<Value = Vec<u8>> {
    let code = prop_oneof![
        6 => (2..6_u16, 0..6_u16, 0..10_u16).prop_map(|(a, b, c)| format!("{a}{b}{c}").into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    let separator = prop::sample::select(vec![&b" "[..], b"-", b"", b"\t", b"- ", b" -", b"\0"]);
    let text = prop_oneof![
        4 => "[a-z0-9.# ]{0,30}".prop_map(String::into_bytes),
        2 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (any::<u8>(), 0..MAX_REPLY + 10).prop_map(|(octet, number)| vec![octet; number]),
    ];
    let end = prop::sample::select(vec![&b"\r\n"[..], b"\n", b"\r\r\n", b"\r", b""]);
    let line = (code, separator, text, end)
        .prop_map(|(code, separator, text, end)| [&code, separator, &text, end].concat());
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn replies_are_bounded_and_do_not_depend_on_how_the_octets_are_divided(
        octets in octets(),
        sizes in prop::collection::vec(prop_oneof![Just(1_usize), 1..20_usize, 1..MAX_REPLY * 2], 1..8),
    ) {
        let whole = read(&octets, &[usize::MAX]);
        prop_assert_eq!(&read(&octets, &sizes), &whole);
        for reply in &whole.replies {
            prop_assert!((200..600).contains(&reply.code));
        }
    }
}

#[track_caller]
fn assert_reads(octets: &[u8], expected: &[(u16, &str)]) {
    let expected: Vec<_> =
        expected.iter().map(|(code, text)| Reply { code: *code, text: (*text).to_owned() }).collect();
    let heard = read(octets, &[1]);
    assert_eq!((heard.replies, heard.end), (expected, End::Exhausted(None)));
}

#[test]
fn the_code_of_a_reply_decides_whatever_its_shape() {
    assert_reads(b"250 2.0.0 ok\r\n", &[(250, "2.0.0 ok")]);
    assert_reads(b"250\r\n550\n", &[(250, ""), (550, "")]);
    assert_reads(b"250 gr\xFC\xDFe\r\n", &[(250, "gr\u{fffd}\u{fffd}e")]);
    assert_reads(b"550 \xC4\xFA\x81\x5C\r\n", &[(550, "\u{fffd}\u{fffd}\u{fffd}\\")]);
    assert_reads(b"250-a\r\n250-\r\n250 b\r\n", &[(250, "a\n\nb")]);
    assert_reads(b"250-a\r\nb\r\n250\r\n", &[(250, "a\nb\n")]);
    assert_reads(b"250-a\r\n550 5.1.1 b\r\n", &[(550, "a\n5.1.1 b")]);
    assert_reads(b"2502.0.0 ok\r\n250ok\r\n", &[(250, "2.0.0 ok"), (250, "ok")]);
    assert_reads(b"\r\n \r\n 250 ok\r\r\n", &[(250, "ok")]);
}

#[test]
fn a_part_of_a_reply_counts_if_it_has_a_code() {
    for (octets, reply) in [
        (&b"250 o"[..], Some((250, "o"))),
        (b"250", Some((250, ""))),
        (b"250-a\r\n", Some((250, "a\n"))),
        (b"250-a\r\n55", Some((250, "a\n55"))),
        (b"250-a\r\n550-no", Some((550, "a\nno"))),
        (b"25", None),
        (b"ok", None),
        (b"", None),
    ] {
        let reply = reply.map(|(code, text)| Reply { code, text: text.to_owned() });
        assert_eq!(read(octets, &[1]).end, End::Exhausted(reply), "{octets:?}");
    }
}

#[test]
fn a_reply_ends_at_its_bound_and_its_code_counts() {
    let line = |start: &[u8], size: usize| [start, &vec![b'x'; size - start.len()]].concat();
    let whole = [line(b"250 ", MAX_REPLY - 1), b"\n".to_vec()].concat();
    assert_eq!(read(&whole, &[1_000]).replies[0].code, 250);
    for start in [&b"550 "[..], b"550-"] {
        let heard = read(&line(start, MAX_REPLY + 1), &[1_000]);
        let End::TooLong(Some(reply)) = heard.end else { panic!("{:?}", heard.end) };
        assert_eq!((reply.code, heard.replies.len()), (550, 0));
    }
    let lines = b"220-x\r\n".repeat(MAX_REPLY / 7 + 1);
    assert!(matches!(read(&lines, &[1_000]).end, End::TooLong(Some(Reply { code: 220, .. }))));
    assert_eq!(read(&vec![b'x'; MAX_REPLY + 1], &[1_000]).end, End::TooLong(None));
}
