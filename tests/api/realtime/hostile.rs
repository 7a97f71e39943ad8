//! Clients that break the protocol of live connections.

use suite::web_socket::{frame, header, upgrade};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::live::{Live, user_headers};
use crate::service::{App, SOON, Service};

const TEXT: u8 = 0x81;
const CLOSE: u8 = 0x88;

/// A WebSocket, byte by byte.
struct Socket(TcpStream);

impl Socket {
    /// Opens a WebSocket, and reads the handshake.
    async fn open(service: &Service, query: &str) -> Socket {
        let mut stream = TcpStream::connect(service.address).await.unwrap();
        stream.write_all(&upgrade(query)).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        let mut socket = Socket(stream);
        assert_eq!(socket.next().await.unwrap().1[0], b'0');
        socket
    }

    /// Opens a WebSocket of a user and connects.
    async fn connected(service: &Service, app: &App, user: &str) -> Socket {
        let mut socket = Socket::open(service, &format!("&apiKey={}&userId={user}", app.key)).await;
        socket.send(&frame(TEXT, b"40")).await;
        assert!(socket.next().await.unwrap().1.starts_with(b"40{"));
        socket
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// Reads the next frame: its first byte and its payload. None if the connection ends.
    async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let read = async {
            let head = self.0.read_u8().await.ok()?;
            let length = match self.0.read_u8().await.ok()? {
                126 => u64::from(self.0.read_u16().await.ok()?),
                127 => self.0.read_u64().await.ok()?,
                length => u64::from(length),
            };
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.0.read_exact(&mut payload).await.ok()?;
            Some((head, payload))
        };
        timeout(SOON, read).await.expect("the gateway neither answers nor closes")
    }

    /// Reads up to the Close frame. Returns its code and the texts before it.
    async fn closes(mut self) -> (u16, Vec<String>) {
        let mut texts = Vec::new();
        loop {
            match self.next().await.expect("the connection ends with a Close frame") {
                (CLOSE, code) => return (u16::from_be_bytes(code.try_into().unwrap()), texts),
                (_, text) => texts.push(String::from_utf8(text).unwrap()),
            }
        }
    }
}

#[tokio::test]
async fn a_frame_is_refused_by_its_declared_length() {
    let service = Service::start().await;
    let fragments = [frame(0x01, &[b'4'; 60_000]), header(0x80, 40_001)].concat();
    // None of these cases sends a byte beyond the header that is refused.
    let cases: [(&str, Vec<u8>, u16); 8] = [
        ("1 TiB", header(TEXT, 1 << 40), 1009),
        ("one byte too many", header(TEXT, 100_001), 1009),
        ("a fragment with one byte too many", header(0x01, 100_001), 1009),
        ("the highest bit", header(TEXT, 1 << 63), 1009),
        ("two fragments", fragments, 1009),
        ("a ping of 126 bytes", vec![0x89, 0xfe], 1002),
        ("a reserved opcode", vec![0x83], 1002),
        ("a binary frame", vec![0x82], 1003),
    ];
    for (name, bytes, code) in cases {
        let mut socket = Socket::open(&service, "").await;
        socket.send(&bytes).await;
        assert_eq!(socket.closes().await.0, code, "{name}");
    }
    // The largest message, in two fragments, is read; it is no packet.
    let mut socket = Socket::open(&service, "").await;
    socket.send(&frame(0x01, &[b'x'; 60_000])).await;
    socket.send(&frame(0x80, &[b'x'; 40_000])).await;
    assert_eq!(socket.closes().await.0, 1000);
}

#[tokio::test]
async fn text_in_any_script_never_panics() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    for text in ["4é", "é", "4😀", "40é", "42é", "40/é", "40/\u{301},", "451é", "4\u{7f}"] {
        let mut socket = Socket::open(&service, "").await;
        socket.send(&frame(TEXT, text.as_bytes())).await;
        assert_eq!(socket.closes().await.0, 1000, "{text}");
    }
    let mut socket = Socket::connected(&service, &shop, "ada").await;
    socket.send(&frame(TEXT, "42é".as_bytes())).await;
    socket.send(&frame(TEXT, "421é".as_bytes())).await;
    while socket.next().await.unwrap().1 != b"431[]" {}
    socket.send(&frame(TEXT, b"4\xe9")).await;
    assert_eq!(socket.closes().await.0, 1007);
}

#[tokio::test]
async fn an_acknowledgement_id_beyond_64_bits_closes_the_connection() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let most = u64::MAX.to_string();
    let mut socket = Socket::connected(&service, &shop, "ada").await;
    socket.send(&frame(TEXT, format!("42{most}[]").as_bytes())).await;
    while socket.next().await.unwrap().1 != format!("43{most}[]").as_bytes() {}
    for digits in [21, 99_998] {
        let mut socket = Socket::connected(&service, &shop, "ada").await;
        socket.send(&frame(TEXT, format!("42{}", "9".repeat(digits)).as_bytes())).await;
        let (code, texts) = socket.closes().await;
        assert!(code == 1000 && texts.iter().all(|text| !text.starts_with("43")), "{digits} digits");
    }
    let mut socket = Socket::open(&service, "").await;
    socket.send(&frame(TEXT, format!("40/{},", "n".repeat(99_000)).as_bytes())).await;
    assert_eq!(socket.closes().await, (1000, vec![]), "a namespace is not repeated at any length");
}

#[tokio::test]
async fn a_user_that_does_not_exist_yet_has_no_more_live_connections_than_others() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let oldest = Live::open(&service, &shop, "eve").await;
    let mut newer = Vec::new();
    for _ in 0..20 {
        newer.push(Live::open(&service, &shop, "eve").await);
    }
    assert_eq!(oldest.ends().await, "replaced");
    service.deliver(&shop, "eve", 1).await;
    for live in &mut newer {
        // The item may arrive before the connections leave the lobby; then they are asked to fetch it.
        assert!(["notification.created", "reset", "ready"].contains(&live.next().await.name.as_str()));
    }
}

#[tokio::test]
async fn strangers_with_the_public_key_never_end_a_proven_live_connection() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let proof = [("X-SERVICE-API-SECRET", shop.secret.clone())];
    let headers = [user_headers(&shop, "ada"), proof.to_vec()].concat();
    let (mut own, _) = Live::open_at(service.address, &headers, None).await;
    let mut strangers = Vec::new();
    for _ in 0..40 {
        strangers.push(Live::open(&service, &shop, "ada").await);
    }
    for live in strangers.drain(..21) {
        assert_eq!(live.ends().await, "replaced");
    }
    service.deliver(&shop, "ada", 1).await;
    own.expect("notification.created").await;
    for live in &mut strangers {
        live.expect("notification.created").await;
    }
}
