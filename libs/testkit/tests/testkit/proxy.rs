use std::time::Duration;

use testkit::proxy::Proxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(10);

/// Starts a proxy in front of an echo server. Returns the proxy, and a channel that receives the data that arrives at the server.
async fn echo() -> (Proxy, tokio::sync::mpsc::UnboundedReceiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap().port()).await.unwrap();
    let (heard, hearing) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let heard = heard.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 64];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    heard.send(buffer[..read].to_vec()).ok();
                    stream.write_all(&buffer[..read]).await.unwrap();
                }
                heard.send(Vec::new()).ok();
            });
        }
    });
    (proxy, hearing)
}

async fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap()
}

/// Reads four bytes. Returns None if the connection has ended.
async fn answer(stream: &mut TcpStream) -> Option<[u8; 4]> {
    let mut answer = [0; 4];
    timeout(SOON, stream.read_exact(&mut answer)).await.unwrap().ok().map(|_| answer)
}

#[tokio::test]
async fn data_flows_in_both_directions() {
    let (proxy, _heard) = echo().await;
    let mut stream = connect(&proxy).await;
    for _ in 0..3 {
        stream.write_all(b"ping").await.unwrap();
        assert_eq!(answer(&mut stream).await.unwrap(), *b"ping");
    }
}

#[tokio::test]
async fn a_cut_closes_existing_connections_and_admits_new_ones() {
    let (proxy, mut heard) = echo().await;
    let mut stream = connect(&proxy).await;
    stream.write_all(b"ping").await.unwrap();
    answer(&mut stream).await.unwrap();
    proxy.cut();
    assert_eq!(answer(&mut stream).await, None);
    assert_eq!(heard.recv().await.unwrap(), b"ping");
    assert!(
        timeout(SOON, heard.recv()).await.unwrap().unwrap().is_empty(),
        "the server's connection is closed too"
    );

    let mut stream = connect(&proxy).await;
    stream.write_all(b"pong").await.unwrap();
    assert_eq!(answer(&mut stream).await.unwrap(), *b"pong");
}

#[tokio::test]
async fn withheld_data_is_delivered_or_lost_and_requests_arrive() {
    for lost in [false, true] {
        let (proxy, mut heard) = echo().await;
        let mut stream = connect(&proxy).await;
        stream.write_all(b"ping").await.unwrap();
        answer(&mut stream).await.unwrap();
        heard.recv().await.unwrap();

        proxy.withhold(true);
        stream.write_all(b"pong").await.unwrap();
        assert_eq!(
            timeout(SOON, heard.recv()).await.unwrap().unwrap(),
            b"pong",
            "the server still receives data"
        );
        let mut silence = [0; 4];
        assert!(futures_util::FutureExt::now_or_never(stream.read(&mut silence)).is_none());
        if lost {
            proxy.cut();
        }
        proxy.withhold(false);
        let expected = (!lost).then_some(*b"pong");
        assert_eq!(answer(&mut stream).await, expected);
    }
}

#[tokio::test]
async fn a_stopped_server_closes_connections_without_an_error() {
    let port = local_servers::port::free().unwrap();
    let proxy = Proxy::start(port).await.unwrap();
    assert_eq!(answer(&mut connect(&proxy).await).await, None);
}
