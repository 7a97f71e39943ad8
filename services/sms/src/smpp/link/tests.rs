use domain::Problem;
use serde_json::json;
use tokio::io::{AsyncWriteExt as _, duplex};

use super::*;

const BIND_TRANSCEIVER_RESP: u32 = 0x8000_0009;
const ENQUIRE_LINK: u32 = 0x15;

fn header(command: u32) -> Vec<u8> {
    [16, command, 0, 1].into_iter().flat_map(u32::to_be_bytes).collect()
}

#[tokio::test(start_paused = true)]
async fn a_message_centre_that_does_not_read_ends_the_connection() {
    let settings: Result<SmppSettings, Vec<Problem>> = SmppSettings::parse(&json!({
        "host": "smsc.example", "systemId": "shop", "password": "secret", "from": "Shop", "security": "none",
    }));
    let settings = settings.unwrap();
    let (post, _discarded) = Post::discarding();
    // The connection has room for the bind and for a few responses.
    let (worker, mut message_centre) = duplex(200);
    message_centre.write_all(&header(BIND_TRANSCEIVER_RESP)).await.unwrap();
    let mut link = Link::bind(Box::new(worker), &settings, &post).await.unwrap();
    let (_requests, mut received) = mpsc::channel(1);
    let began = Instant::now();
    let endless = async { while message_centre.write_all(&header(ENQUIRE_LINK)).await.is_ok() {} };
    tokio::select! {
        end = link.serve(&mut received) => {
            assert!(matches!(end, End::Broken(cause) if cause == "the message centre does not read"));
        }
        () = endless => panic!("the worker closed the connection without an end"),
    }
    assert!(began.elapsed() >= WRITE_LIMIT, "{:?}", began.elapsed());
}
