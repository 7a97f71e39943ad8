//! Frames of a WebSocket client (RFC 6455), byte by byte, for clients that break the protocol.

const MASK: [u8; 4] = [0x12, 0x34, 0x56, 0x78];

/// Builds the request for a WebSocket of Socket.IO. `query` begins with `&` or is empty.
pub fn upgrade(query: &str) -> Vec<u8> {
    format!(
        "GET /socket.io/?EIO=4&transport=websocket{query} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n\r\n"
    )
    .into_bytes()
}

/// Builds the header of a frame, with a length of eight bytes and a mask. `head` is its first byte, such as 0x81 for a text.
pub fn header(head: u8, length: u64) -> Vec<u8> {
    [&[head, 0xff][..], &length.to_be_bytes(), &MASK].concat()
}

/// Builds a frame.
pub fn frame(head: u8, payload: &[u8]) -> Vec<u8> {
    let masked = payload.iter().enumerate().map(|(index, byte)| byte ^ MASK[index % MASK.len()]);
    let mut bytes = match u8::try_from(payload.len()) {
        Ok(length @ 0..=125) => [&[head, 0x80 | length][..], &MASK].concat(),
        _ => header(head, payload.len() as u64),
    };
    bytes.extend(masked);
    bytes
}
