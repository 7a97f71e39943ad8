//! The state of the gateway process, which all requests share.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpRequest, web};
use anyhow::Context as _;
use bytes::Bytes;
use credentials::link::Links;
use domain::web_push::PushHost;
use domain::{Envelope, Event, Lane, StreamName};
use event_log::{EventLog, Message};
use service_kit::append::{GroupAppend, NewEvent, start_group_append};
use service_kit::fullness::GATEWAY_STOPS;
use service_kit::{Context, Fullness, Network, Readiness};
use store::Store;
use store::control::volume::VolumeQuota;
use store::sends::idempotency::Reservations;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::apps::Apps;
use crate::access::refusals::Refusals;
use crate::deliveries::callbacks::Callbacks;
use crate::http::failure::{Failure, crowded, too_large, unconfirmed};
use crate::http::headers::HeaderNames;
use crate::http::limits::Limits;
use crate::http::rate_limit::RateLimits;
use crate::http::shares::connections::Connections;
use crate::http::shares::room::{FOR_STRANGERS, PARTS, Room};
use crate::http::waiting::{WaitError, WaitingRoom, wait};
use crate::inbox::positions::Positions;
use crate::realtime::web_socket::MESSAGE_ROOM;
use crate::realtime::{self, Hub};
use crate::sends::category::KnownCategories;
use crate::sends::volume::{Limits as VolumeLimits, Volumes};

/// Limit, in KiB, on the memory of all request bodies in progress: the received bytes plus the parsed JSON.
pub const BODY_ROOM: usize = 128 * 1024;
/// Limit, in KiB, on the memory of all callback bodies in progress. It is separate because a callback's signature can only be
/// verified after its body was read.
pub const CALLBACK_ROOM: usize = 4 * 1024;
/// Limit, in KiB, on the memory for the parts of all bodies in progress that exceed `MAX_BODY`. Only bodies with files may exceed
/// it. While a file is decoded and written to the database, it occupies about three times the counted memory.
pub const FILE_ROOM: usize = 64 * 1024;
/// Limit, in KiB, on the memory of all large answers that clients have not finished reading.
pub const ANSWER_ROOM: usize = 64 * 1024;

/// Maximum size of an encoded event in bytes: the broker's message limit of 1 MiB, minus 4 KiB for the message headers.
const MAX_EVENT: usize = 1024 * 1024 - 4 * 1024;

/// Size of an encoded send in bytes, up to which it is appended together with others. Larger sends would delay them.
const MAX_GROUPED: usize = 16 * 1024;

/// Possible repetition of a send's event in the log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// A repeated request creates a new event.
    Impossible,
    /// A repeated request appends the same event again, so the log must drop duplicates.
    Possible,
    /// An earlier request has probably appended the event.
    Actual,
}

/// State of the gateway process, which all requests share.
pub(crate) struct Gateway {
    pub(crate) store: Store,
    pub(crate) log: EventLog,
    pub(crate) apps: Apps,
    pub(crate) categories: KnownCategories,
    pub(crate) limits: Limits,
    pub(crate) refusals: Refusals,
    /// Longest time for which a bearer token may be valid.
    pub(crate) token_lifetime: Duration,
    pub(crate) header_names: HeaderNames,
    pub(crate) push_hosts: Vec<PushHost>,
    pub(crate) callbacks: Callbacks,
    pub(crate) links: Links,
    pub(crate) reservations: Reservations,
    pub(crate) positions: Positions,
    pub(crate) realtime: Hub,
    /// Tasks of the connections over WebSocket.
    pub(crate) sockets: TaskTracker,
    /// URL of the API as clients reach it, if it is set.
    pub(crate) public_url: Option<String>,
    /// Path of the public URL, without the host.
    pub(crate) public_path: String,
    transactional_sends: GroupAppend,
    bulk_sends: GroupAppend,
    fullness: Fullness,
    /// Cancelled when the process starts to stop. From then on, every answer closes its connection.
    pub(crate) stopping: CancellationToken,
    pub(crate) readiness: Readiness,
    pub(crate) partitions: u32,
    pub(crate) waiting_room: WaitingRoom,
    pub(crate) body_room: Room,
    pub(crate) file_room: Room,
    pub(crate) callback_room: Room,
    pub(crate) answer_room: Room,
    /// Memory of the messages over WebSocket of which only a part has arrived.
    pub(crate) message_room: Room,
    pub(crate) connections: Connections,
    pub(crate) trusted_proxies: Vec<Network>,
    /// Time for which the log keeps messages that all consumers have read.
    pub(crate) retention: Duration,
    /// Counts the transactional sends of each app. Sends beyond the app's rate go to the bulk lane.
    pub(crate) transactional_rates: RateLimits,
    /// Transactional sends per second of an app without a configured rate.
    pub(crate) transactional_rate: NonZeroU32,
    /// Bytes that each app has added within a day.
    pub(crate) volumes: Arc<Volumes>,
}

impl Gateway {
    /// Builds the gateway and starts its background tasks, which run until `served` is cancelled. The caller cancels it after the
    /// last request.
    pub(crate) fn start(context: &Context, served: &CancellationToken) -> anyhow::Result<web::Data<Gateway>> {
        let partitions = context.partitions;
        let (reservations, reserving) = context.store.sends().reservations();
        context.spawn("idempotency keys", async {
            reserving.await;
            Ok(())
        });
        let positions = Positions::new(partitions);
        context.spawn("inbox positions", positions.clone().follow_until(served.clone(), context.clone()));
        let sends = Lane::ALL.iter().map(|&lane| StreamName::Send(lane));
        let streams = sends.chain((0..partitions).map(StreamName::Inbox));
        let fullness = Fullness::new(GATEWAY_STOPS, streams);
        context
            .spawn("fullness of the log", fullness.clone().follow_until(served.clone(), context.log.clone()));
        let volumes = Arc::new(Volumes::default());
        context.spawn("volumes of apps", follow(volumes.clone(), served.clone(), context.store.clone()));
        let config = &context.config.gateway;
        let connections = Connections::new(config);
        context.spawn("idle connections", connections.clone().sweep_until(served.clone()));
        let header_names = HeaderNames::new(&context.config.header_prefixes);
        let (realtime, exits) = Hub::new(config, partitions);
        let gateway = web::Data::new(Gateway {
            store: context.store.clone(),
            log: context.log.clone(),
            apps: Apps::new(context),
            categories: KnownCategories::new(),
            limits: Limits::new(&context.config.gateway),
            refusals: Refusals::new(),
            token_lifetime: config.token_lifetime,
            header_names: header_names.context("header_prefixes")?,
            callbacks: Callbacks::new(context),
            push_hosts: context.config.web_push.hosts.clone(),
            links: context.links.clone(),
            reservations,
            positions,
            realtime,
            sockets: TaskTracker::new(),
            public_url: context.public_url().map(str::to_owned),
            public_path: path_of(context.public_url().unwrap_or_default()).to_owned(),
            transactional_sends: start_group_append(context),
            bulk_sends: start_group_append(context),
            fullness,
            stopping: context.tasks.token().clone(),
            readiness: context.readiness.clone(),
            partitions,
            waiting_room: WaitingRoom::new(config.waiting_room, context.config.database.max_connections),
            body_room: Room::new(BODY_ROOM, PARTS),
            file_room: Room::new(FILE_ROOM, PARTS),
            callback_room: Room::new(CALLBACK_ROOM, FOR_STRANGERS),
            answer_room: Room::new(ANSWER_ROOM, PARTS),
            message_room: Room::new(MESSAGE_ROOM, FOR_STRANGERS),
            connections,
            trusted_proxies: config.trusted_proxies.clone(),
            retention: context.config.streams.retention,
            transactional_rates: RateLimits::new(),
            transactional_rate: NonZeroU32::new(config.transactional_rate).unwrap_or(NonZeroU32::MIN),
            volumes,
        });
        realtime::start(context, &gateway, exits, served);
        Ok(gateway)
    }

    /// Returns the gateway that serves this request.
    pub(crate) fn of(request: &HttpRequest) -> Result<&web::Data<Gateway>, Failure> {
        let gateway = request.app_data::<web::Data<Gateway>>();
        gateway.ok_or_else(|| Failure::Defect("the server was built without a gateway".to_owned()))
    }

    /// Appends an event to the log, waits for the log's confirmation and returns the event's sequence. 413 if the event is too
    /// large; 503 if the stream is nearly full or the log does not confirm in time.
    pub(crate) async fn append(&self, stream: StreamName, event: &Envelope) -> Result<u64, Failure> {
        let payload = self.encode(stream, event)?;
        Ok(confirmed(wait(self.log.publish(Message { stream, id: None, payload })).await)??.seq)
    }

    /// Appends an accepted send like [`append`](Self::append), together with the sends of concurrent requests. A large or repeated
    /// send is appended alone. If the send may be appended again, its id becomes the message id. The log then drops a duplicate,
    /// unless the first message contained other sends too; the dispatcher recognises such a duplicate. 429 if the app has reached
    /// its quota of bytes.
    pub(crate) async fn append_send(
        &self,
        lane: Lane,
        send: &Envelope,
        repeats: Repetition,
        limits: VolumeLimits,
    ) -> Result<(), Failure> {
        let stream = StreamName::Send(lane);
        let payload = self.encode(stream, send)?;
        let size = match &send.event {
            Event::SendAccepted(accepted) => accepted.fan_out(payload.len()),
            _ => payload.len(),
        };
        let store = self.fullness.store().limit;
        self.volumes.charge(send.app, VolumeQuota::Sends, size, limits, store)?;
        let appended = self.append_encoded(stream, lane, send, repeats, payload).await;
        if appended.is_err() {
            self.volumes.release(send.app, VolumeQuota::Sends, size);
        }
        appended
    }

    async fn append_encoded(
        &self,
        stream: StreamName,
        lane: Lane,
        send: &Envelope,
        repeats: Repetition,
        payload: Bytes,
    ) -> Result<(), Failure> {
        let message_id = (repeats != Repetition::Impossible).then(|| send.id.to_string());
        if payload.len() > MAX_GROUPED || repeats == Repetition::Actual {
            let message = Message { stream, id: message_id, payload };
            let published = Box::pin(self.log.publish(message));
            return Ok(confirmed(wait(published).await)?.map(drop)?);
        }
        let (kind, app, send_id) = (send.event.kind(), send.app, send.send_id);
        let event = NewEvent { stream, kind, message_id, app, send_id, payload };
        let group = match lane {
            Lane::Transactional => &self.transactional_sends,
            Lane::Bulk => &self.bulk_sends,
        };
        match confirmed(wait(group.call(event)).await)? {
            Ok(appended) => Ok(appended?),
            Err(unanswered) => Err(unconfirmed(unanswered)),
        }
    }

    fn encode(&self, stream: StreamName, event: &Envelope) -> Result<Bytes, Failure> {
        let payload = event.encode().map_err(|error| Failure::Defect(error.to_string()))?;
        if payload.len() > MAX_EVENT {
            return Err(too_large());
        }
        if self.fullness.is_full(stream) {
            let message = "the event log is nearly full; repeat the request later";
            return Err(Failure::unavailable(message, format_args!("{stream} or the store is nearly full")));
        }
        self.fullness.add(payload.len());
        Ok(payload.into())
    }
}

async fn follow(volumes: Arc<Volumes>, served: CancellationToken, store: Store) -> anyhow::Result<()> {
    volumes.follow_until(&served, &store).await;
    Ok(())
}

/// Returns the path of a URL; empty if it has none.
fn path_of(url: &str) -> &str {
    let host = url.split_once("://").map_or(url, |(_, host)| host);
    host.find('/').and_then(|path| host.get(path..)).unwrap_or_default()
}

fn confirmed<T>(waited: Result<T, WaitError>) -> Result<T, Failure> {
    waited.map_err(|error| match error {
        WaitError::Crowded => crowded(),
        WaitError::Overdue => unconfirmed("no acknowledgement in time"),
    })
}
