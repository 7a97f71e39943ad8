//! A Socket.IO connection from its handshake to its end.

use std::future::poll_fn;

use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use actix_web::web::Data;
use actix_web::{HttpRequest, ResponseError as _};
use credentials::secrets::sha256;
use fairness::principal::Principal;
use operations::Caller;
use serde::{Deserialize, Serialize};
use service_kit::clock;
use tokio::time::{Duration, Instant, interval_at, sleep, timeout};
use web::failure::Failure;
use web::headers::Credential;
use web::idle;
use web::peer;
use web::query::Query;

use super::packet::{self, PING_INTERVAL, PING_TIMEOUT, Packet};
use crate::access::identity::user_required;
use crate::realtime::Hub;
use crate::realtime::connection::{OpenConnection, Transport, WRITE_INTERVAL};
use crate::realtime::credentials::{caller, header};
use crate::realtime::update::{ByeReason, Kind, Update};
use crate::realtime::web_socket::{Ended, Incoming, Message, Outgoing};

/// Time within which a client must send CONNECT.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Time within which a client must take what is written to it.
const WRITE_WITHIN: Duration = Duration::from_secs(30);
/// Maximum number of frames that a client may send in a second, and before its CONNECT.
pub const PACKETS: u32 = 50;
/// Maximum length of a namespace in bytes.
const NAMESPACE: usize = 256;
/// Length in bytes of the id by which a client continues its connection.
const PID: usize = 64;
/// Texts that clients send for a value that they do not have.
const ABSENT: [&str; 2] = ["undefined", "null"];
/// Credentials in the query of the handshake.
const CREDENTIALS: [(&str, Credential); 3] = [
    ("apiKey", Credential::ApiKey),
    ("userId", Credential::UserId),
    ("userSignature", Credential::UserSignature),
];

/// The packet CONNECT of a client.
#[derive(Default, Deserialize)]
struct Connect {
    token: Option<String>,
    /// Id of an earlier connection, which the client wants to continue.
    pid: Option<String>,
    /// Position of the last event that the client has received.
    offset: Option<String>,
}

#[derive(Serialize)]
struct Connected<'a> {
    sid: &'a str,
    pid: &'a str,
}

#[derive(Serialize)]
struct Refused<'a> {
    message: String,
    data: RefusedData<'a>,
}

#[derive(Serialize)]
struct RefusedData<'a> {
    code: &'a str,
}

struct Closed {
    /// Status code of the Close frame (RFC 6455, section 7.4.1).
    code: u16,
}

/// The connection ends as agreed, or the client violates this protocol.
const CLOSED: Closed = Closed { code: 1000 };

impl From<Ended> for Closed {
    fn from(ended: Ended) -> Closed {
        Closed { code: ended.code() }
    }
}

pub(super) struct Session {
    request: HttpRequest,
    hub: Data<Hub>,
    outgoing: Outgoing,
    _busy: Option<idle::Request>,
}

struct Client {
    connection: OpenConnection,
    namespace: String,
    caller: Caller,
}

impl Session {
    pub(super) fn new(request: HttpRequest, hub: Data<Hub>, outgoing: Outgoing) -> Session {
        let busy = idle::Request::begin(&request);
        Session { request, hub, outgoing, _busy: busy }
    }

    pub(super) async fn run(self, mut incoming: Incoming) {
        // Boxed, because this future is large and needed only at the beginning.
        let ended = match Box::pin(self.connect(&mut incoming)).await {
            Ok(client) => self.serve(&client, &mut incoming).await,
            Err(closed) => Err(closed),
        };
        // The client may be gone.
        let code = ended.err().unwrap_or(CLOSED).code;
        drop(timeout(WRITE_WITHIN, self.outgoing.close(code)).await);
    }

    /// Opens the connection, after the client has named its namespace and proven its identity.
    async fn connect(&self, incoming: &mut Incoming) -> Result<Client, Closed> {
        let sid = clock::new_id().simple().to_string();
        self.write(packet::open(&sid).map_err(|_| CLOSED)?).await?;
        let first = timeout(CONNECT_WITHIN, self.first_text(incoming)).await.map_err(|_| CLOSED)??;
        let Some(Packet::Connect { namespace, payload }) = packet::parse(&first) else { return Err(CLOSED) };
        if namespace.len() > NAMESPACE {
            return Err(CLOSED);
        }
        if !self.is_inbox(namespace) {
            self.write(packet::message('4', namespace, r#"{"message":"Invalid namespace"}"#)).await?;
            return Err(CLOSED);
        }
        let connect = if payload.is_empty() { Ok(Connect::default()) } else { serde_json::from_str(payload) };
        let connect: Connect = connect.map_err(|_| CLOSED)?;
        // The same limits on waiting apply as to an HTTP request.
        let room = self.hub.sources.admission.waiting_room.clone();
        let stranger = Principal::stranger(peer::of_request(&self.request));
        match Box::pin(room.serve(stranger, self.open(&connect))).await {
            Ok((connection, caller, origin)) => {
                let client = Client { connection, namespace: namespace.to_owned(), caller };
                self.greet(&client, &sid, &origin, &connect).await?;
                Ok(client)
            }
            Err(failure) => {
                // After a refusal, a client does not connect again by itself, so it is only for permanent failures.
                if matches!(failure.status_code().as_u16(), 400 | 401 | 403) {
                    let data = RefusedData { code: failure.code() };
                    let refused = Refused { message: failure.public_message(), data };
                    let answer = serde_json::to_string(&refused).map_err(|_| CLOSED)?;
                    self.write(packet::message('4', namespace, &answer)).await?;
                }
                Err(CLOSED)
            }
        }
    }

    /// Waits for the first text, and answers pings of the WebSocket protocol until then.
    async fn first_text(&self, incoming: &mut Incoming) -> Result<String, Closed> {
        for _ in 0..PACKETS {
            match incoming.next().await? {
                Message::Text(text) => return Ok(text),
                Message::Ping(payload) => self.pong(&payload).await?,
                Message::Pong | Message::Fragment => {}
                Message::Close => break,
            }
        }
        Err(CLOSED)
    }

    /// Verifies the credentials and opens the connection. Returns it with its caller and the start of its `pid`.
    async fn open(&self, connect: &Connect) -> Result<(OpenConnection, Caller, String), Failure> {
        let headers = self.credentials(connect)?;
        let (client, principal, caller) = caller(&self.request, &headers, Transport::SocketIo).await?;
        let user = caller.acts_for().ok_or_else(user_required)?;
        let origin = pid_origin(&client.api_key, &user.identifier);
        // A client that has received nothing yet has no offset, but may have missed something.
        let continues = connect.pid.as_ref().map(|pid| pid.len() == PID && pid.starts_with(&origin));
        let last = continues.map(|is_own| connect.offset.as_deref().filter(|_| is_own).unwrap_or_default());
        let connection = self.hub.open(client, principal, &caller, last, None).await?;
        Ok((connection, caller, origin))
    }

    /// Answers CONNECT. The client gets its earlier `pid` only if it receives everything that it has missed.
    async fn greet(&self, client: &Client, sid: &str, origin: &str, connect: &Connect) -> Result<(), Closed> {
        let updates = poll_fn(|context| client.connection.poll_take(context));
        let updates = timeout(CONNECT_WITHIN, updates).await.map_err(|_| CLOSED)?.ok_or(CLOSED)?;
        let resumed = updates.iter().any(|update| matches!(update.kind, Kind::Ready { resumed: true, .. }));
        let pid = connect.pid.clone().filter(|_| resumed);
        let pid = pid.unwrap_or_else(|| format!("{origin}{}", clock::new_id().simple()));
        let answer = serde_json::to_string(&Connected { sid, pid: &pid }).map_err(|_| CLOSED)?;
        self.write(packet::message('0', &client.namespace, &answer)).await?;
        for update in &updates {
            self.report(client, update).await?;
        }
        Ok(())
    }

    /// Returns headers with the credentials of the query and of CONNECT.
    fn credentials(&self, connect: &Connect) -> Result<HeaderMap, Failure> {
        let query = Query::of(&self.request);
        let mut problems = Vec::new();
        let mut headers = HeaderMap::new();
        for (name, credential) in CREDENTIALS {
            let value = query.text(name, &mut problems).filter(|value| !ABSENT.contains(&value.as_str()));
            if let Some(value) = value {
                let (name, value) = header(&self.hub.sources.access, name, credential, &value)?;
                headers.insert(name, value);
            }
        }
        let token = connect.token.as_deref().filter(|token| !ABSENT.contains(token));
        if let Some(token) = token.filter(|token| !token.is_empty()) {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let value = value.map_err(|_| Failure::unauthorized("malformed_token", "token is malformed"))?;
            headers.insert(AUTHORIZATION, value);
        }
        if problems.is_empty() { Ok(headers) } else { Err(Failure::Invalid(problems)) }
    }

    /// Returns true for the namespace `/`, and for the path of the public URL: a client whose base URL has a path uses the path
    /// as its namespace.
    fn is_inbox(&self, namespace: &str) -> bool {
        let path = self.hub.public_path.trim_matches('/');
        let namespace = namespace.trim_matches('/');
        namespace.is_empty() || namespace == path
    }

    /// Writes updates and answers packets until one side ends the connection.
    async fn serve(&self, client: &Client, incoming: &mut Incoming) -> Result<(), Closed> {
        let interval = Duration::from_millis(PING_INTERVAL);
        let mut ping = interval_at(Instant::now() + interval, interval);
        let silence = interval + Duration::from_millis(PING_TIMEOUT);
        let mut heard_at = Instant::now();
        let mut second = (Instant::now(), 0);
        loop {
            tokio::select! {
                updates = poll_fn(|context| client.connection.poll_take(context)) => {
                    for update in updates.ok_or(CLOSED)? {
                        self.report(client, &update).await?;
                    }
                    // Updates that arrive in this time are combined.
                    sleep(WRITE_INTERVAL).await;
                }
                message = incoming.next() => {
                    let message = message?;
                    heard_at = Instant::now();
                    if heard_at.duration_since(second.0) >= Duration::from_secs(1) {
                        second = (heard_at, 0);
                    }
                    second.1 += 1;
                    if second.1 > PACKETS {
                        return Err(CLOSED);
                    }
                    self.answer(client, message).await?;
                }
                now = ping.tick() => {
                    if now.duration_since(heard_at) > silence {
                        return Err(CLOSED);
                    }
                    self.write("2".to_owned()).await?;
                }
            }
        }
    }

    async fn answer(&self, client: &Client, message: Message) -> Result<(), Closed> {
        let text = match message {
            Message::Text(text) => text,
            Message::Ping(payload) => return self.pong(&payload).await,
            Message::Pong | Message::Fragment => return Ok(()),
            Message::Close => return Err(CLOSED),
        };
        match packet::parse(&text).ok_or(CLOSED)? {
            Packet::Close | Packet::Connect { .. } => Err(CLOSED),
            Packet::Event { namespace, ack: Some(ack) } if namespace == client.namespace => {
                self.write(packet::message('3', namespace, &format!("{ack}[]"))).await
            }
            Packet::Event { .. } | Packet::Pong | Packet::Other => Ok(()),
        }
    }

    async fn report(&self, client: &Client, update: &Update) -> Result<(), Closed> {
        let namespace = &client.namespace;
        match &update.kind {
            // Published clients have no such events, but they show the count.
            Kind::Ready { counts, .. } => {
                let event = packet::unseen_event(namespace, counts.unseen, update.moment);
                self.write(event.map_err(|_| CLOSED)?).await
            }
            Kind::Reset(_) => {
                let owner = self.hub.sources.inboxes.owner(&client.caller).await;
                // If the count cannot be read now, the next update shows it.
                let Ok(Some(owner)) = owner else { return Ok(()) };
                let event = packet::unseen_event(namespace, owner.counts.unseen, update.moment);
                self.write(event.map_err(|_| CLOSED)?).await
            }
            Kind::Bye { reason, .. } => {
                // After DISCONNECT, a client does not connect again by itself.
                let is_final = matches!(
                    reason,
                    ByeReason::Replaced | ByeReason::Erased | ByeReason::AppDisabled | ByeReason::Credentials
                );
                if is_final {
                    self.write(packet::message('1', namespace, "")).await?;
                }
                Err(CLOSED)
            }
            _ => {
                for event in packet::events(namespace, update).map_err(|_| CLOSED)? {
                    self.write(event).await?;
                }
                Ok(())
            }
        }
    }

    async fn write(&self, text: String) -> Result<(), Closed> {
        let written = timeout(WRITE_WITHIN, self.outgoing.text(&text)).await;
        written.map_err(|_| CLOSED)?.map_err(|_| CLOSED)
    }

    async fn pong(&self, payload: &[u8]) -> Result<(), Closed> {
        let written = timeout(WRITE_WITHIN, self.outgoing.pong(payload)).await;
        written.map_err(|_| CLOSED)?.map_err(|_| CLOSED)
    }
}

/// Returns the start of the ids by which a user's clients continue their connections, so that a position of one user is never used
/// for another. It proves nothing: every connection verifies the credentials.
fn pid_origin(api_key: &str, user: &str) -> String {
    let digest = sha256(format!("{api_key}\n{user}").as_bytes());
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
