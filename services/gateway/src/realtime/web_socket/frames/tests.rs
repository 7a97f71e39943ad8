use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const MASK_BYTES: [u8; MASK] = [0x12, 0x34, 0x56, 0x78];

/// Builds a frame. `head` is its first byte.
fn frame(head: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = header(head, payload.len() as u64, if payload.len() > 125 { 8 } else { 0 });
    bytes.extend(MASK_BYTES);
    bytes.extend(payload.iter().enumerate().map(|(index, byte)| byte ^ MASK_BYTES[index % MASK]));
    bytes
}

/// Builds a header up to its mask, with the length in this number of additional bytes.
fn header(head: u8, length: u64, extended: usize) -> Vec<u8> {
    let mut bytes = vec![head];
    match extended {
        0 => bytes.push(0x80 | u8::try_from(length).unwrap()),
        2 => bytes.push(0x80 | 126),
        _ => bytes.push(0x80 | 127),
    }
    bytes.extend(&length.to_be_bytes()[8 - extended..]);
    bytes
}

fn read_all(reader: &mut FrameReader, bytes: &[u8]) -> Result<Vec<Message>, FrameError> {
    let (mut bytes, mut messages) = (Bytes::copy_from_slice(bytes), Vec::new());
    while !bytes.is_empty() {
        messages.extend(reader.read(&mut bytes)?);
    }
    Ok(messages)
}

fn text(text: &str) -> Message {
    Message::Text(text.to_owned())
}

#[test]
fn a_frame_is_refused_by_its_declared_length() {
    let most = MAX_FRAME as u64;
    let too_large = [
        header(0x81, most + 1, 8),
        header(0x01, most + 1, 8),
        header(0x81, 1 << 40, 8),
        header(0x81, 1 << 63, 8),
        header(0x81, u64::MAX, 8),
    ];
    for header in too_large {
        let mut reader = FrameReader::default();
        assert_eq!(read_all(&mut reader, &header), Err(FrameError::TooLarge), "{header:?}");
        assert_eq!(reader.kept(), 0);
    }
    let mut reader = FrameReader::default();
    assert_eq!(
        read_all(&mut reader, &frame(0x81, &[b'a'; MAX_FRAME])),
        Ok(vec![text(&"a".repeat(MAX_FRAME))])
    );
}

#[test]
fn fragments_are_refused_by_the_length_that_they_declare_together() {
    let mut reader = FrameReader::default();
    assert_eq!(read_all(&mut reader, &frame(0x01, &[b'a'; 60_000])), Ok(vec![Message::Fragment]));
    assert_eq!(read_all(&mut reader, &frame(0x89, b"ping")), Ok(vec![Message::Ping(b"ping".to_vec())]));
    assert_eq!(read_all(&mut reader, &frame(0x00, &[b'a'; 40_000])), Ok(vec![Message::Fragment]));
    assert_eq!(read_all(&mut reader, &frame(0x00, b"")), Ok(vec![Message::Fragment]));
    assert_eq!(read_all(&mut reader, &header(0x80, 1, 2)), Err(FrameError::TooLarge));
}

#[test]
fn frames_against_the_protocol_are_refused_by_their_header() {
    let fragment = frame(0x01, b"a");
    let cases: [(&str, &[u8], &[u8]); 9] = [
        ("a control frame of 126 bytes", b"", &header(0x89, 126, 2)),
        ("a control frame with a length of 8 bytes", b"", &[0x89, 0xff]),
        ("a fragment of a control frame", b"", &[0x09]),
        ("a reserved bit", b"", &[0xc1]),
        ("an unknown opcode", b"", &[0x83]),
        ("an unknown control opcode", b"", &[0x8b]),
        ("no mask", b"", &[0x81, 0x05]),
        ("a continuation of nothing", b"", &[0x80]),
        ("a new message within a message", &fragment, &[0x81]),
    ];
    for (name, before, bytes) in cases {
        let mut reader = FrameReader::default();
        read_all(&mut reader, before).unwrap();
        assert_eq!(read_all(&mut reader, bytes), Err(FrameError::Malformed), "{name}");
    }
    assert_eq!(read_all(&mut FrameReader::default(), &[0x82]), Err(FrameError::Binary));
    let latin1 = frame(0x81, b"4\xe9");
    assert_eq!(read_all(&mut FrameReader::default(), &latin1), Err(FrameError::NotUtf8));
}

/// A message that a client may send, as its fragments.
fn fragments() -> impl Strategy<Value = Vec<String>> {
    vec("\\PC{0,200}", 1..4)
}

proptest! {
    #[test]
    fn messages_are_read_whatever_the_pieces_in_which_they_arrive(
        messages in vec(fragments(), 1..6),
        pieces in vec(1_usize..300, 1..20),
    ) {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for fragments in &messages {
            for (index, part) in fragments.iter().enumerate() {
                let opcode = if index == 0 { TEXT } else { CONTINUATION };
                let is_last = index + 1 == fragments.len();
                bytes.extend(frame(opcode | u8::from(is_last) << 7, part.as_bytes()));
                bytes.extend(frame(0x8a, b""));
                expected.push(if is_last { text(&fragments.concat()) } else { Message::Fragment });
                expected.push(Message::Pong);
            }
        }
        let (mut reader, mut read, mut rest) = (FrameReader::default(), Vec::new(), bytes.as_slice());
        for size in pieces.iter().cycle() {
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            read.extend(read_all(&mut reader, piece).unwrap());
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(read, expected);
        prop_assert_eq!(reader.kept(), 0);
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_never_keep_more_than_a_message(bytes in vec(any::<u8>(), 0..4_000)) {
        let mut reader = FrameReader::default();
        // An error ends the connection.
        read_all(&mut reader, &bytes).ok();
        prop_assert!(reader.kept() <= 2 * MAX_FRAME);
    }
}
