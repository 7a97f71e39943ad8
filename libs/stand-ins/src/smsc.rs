//! Stand-in for a message centre (SMSC), which speaks SMPP 3.4.
//!
//! It is strict: it accepts no message before a bind, and refuses esm_class bits, alphabets and lengths that a network
//! would not transmit. It joins the parts of a long text, and captures the message before it answers the last part.

mod person;
mod receipt;
mod script;
mod session;
mod text;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::interface;
use crate::outbox::Outbox;
pub use person::{Carrier, PersonMessage};
use receipt::Receipt;
pub use receipt::{ReceiptForm, ReceiptIds};
pub(crate) use script::Script;
pub use script::{Reaction, Rule, Stage};

/// Maximum number of receipts that wait for a bound session. Further receipts are dropped.
const MOST_RECEIPTS: usize = 10_000;

#[derive(Clone)]
pub struct SmscSettings {
    /// Port to listen on; 0 for a free port.
    pub port: u16,
    pub system_id: String,
    pub password: String,
    /// TLS configuration (implicit TLS). None means plain connections.
    pub tls: Option<Arc<ServerConfig>>,
    /// Maximum number of unanswered submissions per session. Further submissions are answered with ESME_RTHROTTLED.
    pub window: usize,
    /// True if a receipt is sent for every message that requests one. If false, only [`SmscStandIn::report`] sends receipts.
    pub receipts: bool,
    pub receipt_form: ReceiptForm,
    pub receipt_ids: ReceiptIds,
    /// Time without data from a bound client after which the message centre sends an enquire_link.
    pub enquire_link: Duration,
}

impl Default for SmscSettings {
    fn default() -> Self {
        SmscSettings {
            port: 0,
            system_id: "shop".to_owned(),
            password: "secret".to_owned(),
            tls: None,
            window: 100,
            receipts: true,
            receipt_form: ReceiptForm::TextAndParameters,
            receipt_ids: ReceiptIds::Same,
            enquire_link: Duration::from_secs(60),
        }
    }
}

pub struct SmscStandIn {
    address: SocketAddr,
    centre: Arc<Smsc>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl std::fmt::Debug for SmscStandIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SmscStandIn").field("address", &self.address).finish_non_exhaustive()
    }
}

struct Smsc {
    settings: SmscSettings,
    outbox: Arc<Outbox>,
    script: Arc<Script>,
    state: Mutex<State>,
    /// Wakes a session when a new receipt is waiting.
    news: Notify,
    counts: Counts,
}

#[derive(Default)]
struct State {
    /// Parts of incomplete messages, by sender, recipient, reference and number of parts.
    parts: HashMap<PartsKey, Vec<Option<String>>>,
    /// Accepted messages by id. Each part of a message has its own entry.
    messages: HashMap<String, Accepted>,
    receipts: VecDeque<Outgoing>,
}

/// A message to a client that the client has not confirmed yet.
#[derive(Clone)]
enum Outgoing {
    Receipt(Receipt),
    Person(PersonMessage),
}

type PartsKey = (String, String, u8, u8);

#[derive(Clone)]
struct Accepted {
    from: String,
    to: String,
    text: String,
}

#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    binds: AtomicUsize,
    unbinds: AtomicUsize,
    bound: AtomicUsize,
    submissions: AtomicUsize,
    most_unanswered: AtomicUsize,
    enquiries: AtomicUsize,
    enquiries_answered: AtomicUsize,
    receipts_taken: AtomicUsize,
    person_messages_taken: AtomicUsize,
}

impl SmscStandIn {
    pub async fn start(settings: SmscSettings, outbox: Arc<Outbox>) -> io::Result<Self> {
        let listener = TcpListener::bind((interface::ip(), settings.port)).await?;
        let address = listener.local_addr()?;
        let centre = Arc::new(Smsc {
            settings,
            outbox,
            script: Arc::default(),
            state: Mutex::default(),
            news: Notify::new(),
            counts: Counts::default(),
        });
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let accepting = accept(listener, centre.clone(), stop.clone(), tasks.clone());
        tasks.spawn(stop.clone().run_until_cancelled_owned(accepting));
        Ok(SmscStandIn { address, centre, stop, tasks })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    #[must_use]
    pub fn provider_settings(&self) -> Value {
        let SmscSettings { system_id, password, .. } = self.settings();
        json!({
            "host": interface::host(), "port": self.address.port(), "systemId": system_id,
            "password": password, "from": "+15005550006",
        })
    }

    #[must_use]
    pub fn settings(&self) -> &SmscSettings {
        &self.centre.settings
    }

    #[must_use]
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.centre.outbox
    }

    pub fn script(&self, rule: Rule) {
        self.centre.script.add(rule);
    }

    #[must_use]
    pub fn rules_left(&self) -> usize {
        self.centre.script.left()
    }

    /// Sends a receipt with a state such as `DELIVRD`, over any session that is bound now or later. Returns false if the message does not
    /// exist.
    pub fn report(&self, message_id: &str, state: &'static str, error: &'static str) -> bool {
        self.centre.report(message_id, state, error)
    }

    /// Sends the message over any session that is bound now or later.
    pub fn deliver(&self, message: PersonMessage) {
        self.centre.lock().receipts.push_back(Outgoing::Person(message));
        self.centre.news.notify_one();
    }

    /// Number of messages from people that clients have confirmed since the start.
    #[must_use]
    pub fn person_messages_taken(&self) -> usize {
        self.centre.counts.person_messages_taken.load(Ordering::Relaxed)
    }

    /// Number of receipts that have not been sent to a client yet.
    #[must_use]
    pub fn receipts_left(&self) -> usize {
        self.centre.lock().receipts.len()
    }

    /// Number of receipts that clients have confirmed since the start.
    #[must_use]
    pub fn receipts_taken(&self) -> usize {
        self.centre.counts.receipts_taken.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn connections(&self) -> usize {
        self.centre.counts.connections.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn binds(&self) -> usize {
        self.centre.counts.binds.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn unbinds(&self) -> usize {
        self.centre.counts.unbinds.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn bound(&self) -> usize {
        self.centre.counts.bound.load(Ordering::Relaxed)
    }

    /// Submissions so far. Each part of a message counts.
    #[must_use]
    pub fn submissions(&self) -> usize {
        self.centre.counts.submissions.load(Ordering::Relaxed)
    }

    /// Largest number of unanswered submissions in one session so far.
    #[must_use]
    pub fn most_unanswered(&self) -> usize {
        self.centre.counts.most_unanswered.load(Ordering::Relaxed)
    }

    /// Number of enquire_link PDUs that clients have sent since the start.
    #[must_use]
    pub fn enquiries(&self) -> usize {
        self.centre.counts.enquiries.load(Ordering::Relaxed)
    }

    /// Number of enquire_link PDUs that clients have answered since the start.
    #[must_use]
    pub fn enquiries_answered(&self) -> usize {
        self.centre.counts.enquiries_answered.load(Ordering::Relaxed)
    }

    pub(crate) fn shared_script(&self) -> Arc<Script> {
        self.centre.script.clone()
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for SmscStandIn {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Smsc {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, message_id: &str, state: &'static str, error: &'static str) -> bool {
        let mut all = self.lock();
        let Some(message) = all.messages.get(message_id).cloned() else { return false };
        if all.receipts.len() < MOST_RECEIPTS {
            all.receipts.push_back(Outgoing::Receipt(Receipt::new(message_id, &message, state, error)));
        }
        drop(all);
        self.news.notify_one();
        true
    }
}

async fn accept(listener: TcpListener, centre: Arc<Smsc>, stop: CancellationToken, tasks: TaskTracker) {
    loop {
        // Accepting fails if no file descriptor is free. Try again after a pause.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        centre.counts.connections.fetch_add(1, Ordering::Relaxed);
        let centre = centre.clone();
        let serving = async move {
            // Errors of a connection are ignored: tests check the captured messages instead.
            drop(converse(stream, &centre).await);
        };
        tasks.spawn(stop.clone().run_until_cancelled_owned(serving));
    }
}

async fn converse(stream: TcpStream, centre: &Smsc) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match &centre.settings.tls {
        None => session::serve(stream, centre).await,
        Some(tls) => session::serve(TlsAcceptor::from(tls.clone()).accept(stream).await?, centre).await,
    }
}
