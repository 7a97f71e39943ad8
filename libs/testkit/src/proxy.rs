//! A TCP proxy on the loopback interface that can cut its connections and withhold the data that a server sends.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Size in bytes, for each direction of a connection.
const BUFFER: usize = 32 * 1024;

/// Dropping this value closes all connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    flow: watch::Sender<Flow>,
    _stop: DropGuard,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    is_withheld: bool,
    /// An increment closes all connections that exist at that moment.
    cuts: u64,
}

impl Proxy {
    /// Starts a proxy. If the server does not run, the proxy accepts connections and closes them at once.
    pub async fn start(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (flow, watched) = watch::channel(Flow::default());
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let accepting = accept(listener, port, watched, stop.clone(), tasks.clone());
        tasks.spawn(stop.clone().run_until_cancelled_owned(accepting));
        Ok(Proxy { address, flow, _stop: stop.drop_guard() })
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Closes every connection. Withheld data is lost, and the proxy still accepts new connections.
    pub fn cut(&self) {
        self.flow.send_modify(|flow| flow.cuts += 1);
    }

    /// Withholds only data from the server.
    pub fn withhold(&self, withheld: bool) {
        self.flow.send_modify(|flow| flow.is_withheld = withheld);
    }
}

async fn accept(
    listener: TcpListener,
    port: u16,
    flow: watch::Receiver<Flow>,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    loop {
        // Accepting fails if no file descriptor is free. Try again after a pause.
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let flow = flow.clone();
        let passing = async move {
            // Ignore errors: if the server does not run or a connection breaks, the client's connection is closed.
            drop(pass(client, port, flow).await);
        };
        tasks.spawn(stop.clone().run_until_cancelled_owned(passing));
    }
}

async fn pass(client: TcpStream, port: u16, flow: watch::Receiver<Flow>) -> io::Result<()> {
    let mut cuts = flow.clone();
    let before = cuts.borrow().cuts;
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        ended = forward(from_client, to_server, |_| false, flow.clone(), before) => ended,
        ended = forward(from_server, to_client, |flow| flow.is_withheld, flow, before) => ended,
        _ = cuts.wait_for(|flow| flow.cuts != before) => Ok(()),
    }
}

async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    is_withheld: fn(&Flow) -> bool,
    mut flow: watch::Receiver<Flow>,
    cuts: u64,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        let let_go = flow.wait_for(|flow| !is_withheld(flow) || flow.cuts != cuts).await;
        // An error means that the proxy was dropped.
        if let_go.map_err(io::Error::other)?.cuts != cuts {
            return Ok(());
        }
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
    }
}
