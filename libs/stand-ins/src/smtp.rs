//! Stand-in for a mail server (RFC 5321).
//!
//! It is strict: if it accepts an email, any mail server should accept it. It refuses bare CR or LF, commands out of
//! order, overlong lines, malformed header lines, repeated headers that may occur only once, and emails without a
//! Message-ID. It captures an email before it answers 250.

mod auth;
mod content;
mod manner;
mod script;
mod session;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::interface;
use crate::outbox::Outbox;
pub use manner::Manner;
pub(crate) use script::Script;
pub use script::{Reaction, Rule, Stage};
use session::SessionStart;

#[derive(Clone, Debug)]
pub struct SmtpSettings {
    /// Port to listen on; 0 for a free port.
    pub port: u16,
    /// User name and password for AUTH PLAIN and LOGIN. If set, clients must log in before they send.
    pub login: Option<(String, String)>,
    /// User name and token for AUTH XOAUTH2. If set, clients must log in before they send.
    pub token: Option<(String, String)>,
    /// AUTH mechanisms that the server offers, if these settings contain credentials for them.
    pub mechanisms: &'static [&'static str],
    /// TLS mode. None means plain connections.
    pub tls: Option<SmtpTls>,
    /// Maximum number of concurrent connections. The server answers further connections with 421.
    pub max_connections: usize,
    /// Time after which a silent connection is closed.
    pub idle: Duration,
    /// True if the server offers PIPELINING (RFC 2920).
    pub pipelining: bool,
    /// Maximum size of an email's content, in bytes.
    pub max_size: usize,
    pub manner: Manner,
    /// True for benchmarks: the server counts emails, and neither checks nor keeps their content.
    pub counts_only: bool,
    /// Time that the server takes for an email before it answers.
    pub work: Duration,
}

#[derive(Clone, Debug)]
pub enum SmtpTls {
    Implicit(Arc<ServerConfig>),
    /// STARTTLS, which a client must use before it logs in or sends.
    StartTls(Arc<ServerConfig>),
}

impl Default for SmtpSettings {
    fn default() -> Self {
        SmtpSettings {
            port: 0,
            login: None,
            token: None,
            mechanisms: &["PLAIN", "LOGIN", "XOAUTH2"],
            tls: None,
            max_connections: 512,
            idle: Duration::from_secs(300),
            pipelining: true,
            max_size: 25 << 20,
            manner: Manner::Usual,
            counts_only: false,
            work: Duration::ZERO,
        }
    }
}

#[derive(Debug)]
pub struct SmtpStandIn {
    address: SocketAddr,
    server: Arc<Server>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct Server {
    settings: SmtpSettings,
    outbox: Arc<Outbox>,
    script: Arc<Script>,
    token: Mutex<Option<(String, String)>>,
    clients: Mutex<Vec<String>>,
    accepted: AtomicUsize,
    open: AtomicUsize,
    most_open: AtomicUsize,
    counted: AtomicUsize,
    counted_bytes: AtomicU64,
}

impl SmtpStandIn {
    pub async fn start(settings: SmtpSettings, outbox: Arc<Outbox>) -> io::Result<Self> {
        let listener = TcpListener::bind((interface::ip(), settings.port)).await?;
        let address = listener.local_addr()?;
        let server = Arc::new(Server {
            token: Mutex::new(settings.token.clone()),
            settings,
            outbox,
            script: Arc::default(),
            clients: Mutex::default(),
            accepted: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            most_open: AtomicUsize::new(0),
            counted: AtomicUsize::new(0),
            counted_bytes: AtomicU64::new(0),
        });
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let accepting = accept(listener, server.clone(), stop.clone(), tasks.clone());
        tasks.spawn(stop.clone().run_until_cancelled_owned(accepting));
        Ok(SmtpStandIn { address, server, stop, tasks })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    #[must_use]
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.server.outbox
    }

    /// Replaces the user name and the token for AUTH XOAUTH2.
    pub fn accept_token(&self, user: &str, token: &str) {
        *self.server.lock_token() = Some((user.to_owned(), token.to_owned()));
    }

    pub fn script(&self, rule: Rule) {
        self.server.script.add(rule);
    }

    #[must_use]
    pub fn rules_left(&self) -> usize {
        self.server.script.left()
    }

    #[must_use]
    pub fn hellos(&self) -> Vec<String> {
        self.server.clients.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[must_use]
    pub fn connections(&self) -> usize {
        self.server.accepted.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.server.open.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn most_open_connections(&self) -> usize {
        self.server.most_open.load(Ordering::Relaxed)
    }

    /// Returns the number of emails that a server with `counts_only` accepted, and the bytes of their contents.
    #[must_use]
    pub fn counted(&self) -> (usize, u64) {
        let Server { counted, counted_bytes, .. } = &*self.server;
        (counted.load(Ordering::Relaxed), counted_bytes.load(Ordering::Relaxed))
    }

    pub(crate) fn shared_script(&self) -> Arc<Script> {
        self.server.script.clone()
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for SmtpStandIn {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept(listener: TcpListener, server: Arc<Server>, stop: CancellationToken, tasks: TaskTracker) {
    loop {
        // Accepting fails if no file descriptor is free. Try again after a pause.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let server = server.clone();
        let serving = async move {
            let _open = OpenConnection::count(&server);
            // Errors of a connection are ignored: tests check the captured emails instead.
            drop(converse(stream, &server).await);
        };
        tasks.spawn(stop.clone().run_until_cancelled_owned(serving));
    }
}

async fn converse(stream: TcpStream, server: &Server) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match &server.settings.tls {
        None => session::serve(stream, server, SessionStart::Greeting).await.map(drop),
        Some(SmtpTls::Implicit(config)) => {
            let stream = TlsAcceptor::from(config.clone()).accept(stream).await?;
            session::serve(stream, server, SessionStart::Greeting).await.map(drop)
        }
        Some(SmtpTls::StartTls(config)) => {
            let Some(stream) = session::serve(stream, server, SessionStart::InTheClear).await? else {
                return Ok(());
            };
            let stream = TlsAcceptor::from(config.clone()).accept(stream).await?;
            session::serve(stream, server, SessionStart::Encrypted).await.map(drop)
        }
    }
}

impl Server {
    fn token(&self) -> Option<(String, String)> {
        self.lock_token().clone()
    }

    fn lock_token(&self) -> MutexGuard<'_, Option<(String, String)>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct OpenConnection<'a>(&'a Server);

impl<'a> OpenConnection<'a> {
    fn count(server: &'a Server) -> Self {
        server.accepted.fetch_add(1, Ordering::Relaxed);
        let open = server.open.fetch_add(1, Ordering::Relaxed) + 1;
        server.most_open.fetch_max(open, Ordering::Relaxed);
        OpenConnection(server)
    }
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
