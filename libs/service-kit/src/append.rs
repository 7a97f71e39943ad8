use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use domain::event::bundle;
use domain::{AppId, Envelope, Event, Reason, SendId, StreamName};
use event_log::{EventLog, Message, PublishError, Refusal};
use store::Store;
use store::database::batch::Batcher;
use store::deliveries::timer::{NewTimer, Wait};
use uuid::Uuid;

use crate::connections::LOG_ACK_LIMIT;
use crate::{Context, clock};

const SEND_CONTINUES: &str = "SendContinues";
/// Limit of a bundle, which one process handles.
const MAX_EVENTS: usize = 64;
/// Jobs of a bundle: fewer, so that several workers share the jobs of a large send.
pub const MAX_JOBS: usize = 16;
/// Size of a bundle in bytes, below the broker's limit of 1 MiB. A larger event is a message of its own.
const MAX_BYTES: usize = 256 * 1024;

const MAX_GROUP: usize = 2 * MAX_EVENTS;

/// Time limit for an event that is appended together with others: the log may take its time for the events before it, and then for this
/// one.
pub const APPEND_LIMIT: Duration = Duration::from_secs(2 * LOG_ACK_LIMIT.as_secs() + 1);

#[derive(Clone, Debug)]
pub struct NewEvent {
    pub stream: StreamName,
    pub kind: &'static str,
    /// Id for de-duplication by the log. A bundle is a duplicate only if it has exactly the same events.
    pub message_id: Option<String>,
    pub app: AppId,
    pub send_id: Option<SendId>,
    pub payload: Bytes,
}

impl NewEvent {
    pub fn new(
        stream: StreamName,
        message_id: Option<String>,
        envelope: &Envelope,
    ) -> Result<NewEvent, serde_json::Error> {
        let payload = envelope.encode()?.into();
        let Envelope { app, send_id, .. } = *envelope;
        Ok(NewEvent { stream, kind: envelope.event.kind(), message_id, app, send_id, payload })
    }
}

/// Some of the events may be in the log.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AppendError {
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error("cannot store the events of a full stream: {0}")]
    Timers(std::sync::Arc<store::Error>),
}

/// Appends events as few messages; the events of a stream keep their order. Returns a result for each event.
pub async fn append(log: &EventLog, events: &[NewEvent]) -> Vec<Result<(), PublishError>> {
    let bundles = bundles(events);
    let results = log.publish_all(bundles.iter().map(|bundle| bundle.message(events)).collect()).await;
    let mut of_events: Vec<_> = events.iter().map(|_| Ok(())).collect();
    let mut separate = Vec::new();
    for (Bundle(places), result) in bundles.into_iter().zip(results) {
        match result {
            Ok(_) => {}
            // The broker allows only smaller messages than usual.
            Err(PublishError::Refused { refusal: Refusal::TooLarge, .. }) if places.len() > 1 => {
                separate.extend(places);
            }
            Err(error) => places.into_iter().for_each(|place| of_events[place] = Err(error.clone())),
        }
    }
    let messages = separate.iter().map(|&place| Bundle(vec![place]).message(events)).collect();
    for (place, result) in separate.iter().zip(log.publish_all(messages).await) {
        of_events[*place] = result.map(drop);
    }
    of_events
}

/// Appends events like [`append`], but the events of a full stream become timers. After an error, appending all events again is safe.
pub async fn append_or_set_timers(
    log: &EventLog,
    store: &Store,
    events: &[NewEvent],
) -> Result<(), AppendError> {
    let mut refused = Vec::new();
    for (event, result) in events.iter().zip(append(log, events).await) {
        match result {
            Ok(()) => {}
            Err(PublishError::Refused { refusal: Refusal::Full, .. }) => refused.push(NewTimer {
                id: clock::new_id(),
                due_at: clock::now(),
                stream: event.stream,
                message: event.payload.to_vec(),
                app: event.app,
                send_id: event.send_id,
                user: None,
                wait: waiting_job(&event.payload),
            }),
            Err(error) => return Err(error.into()),
        }
    }
    store.deliveries().set_timers(&refused).await.map_err(|error| AppendError::Timers(error.into()))
}

/// Returns the delivery that waits until its stream has room, if the message is a job.
fn waiting_job(message: &[u8]) -> Option<Wait> {
    let Event::DeliveryJob(job) = Envelope::decode(message).ok()?.event else { return None };
    Some(Wait { delivery: job.delivery_id, reason: Reason::LogFull, provider: None, code: None })
}

/// Appends the events of concurrent callers together: while the log confirms events, further ones wait and share the next messages.
pub type GroupAppend = Batcher<NewEvent, Result<(), PublishError>>;

/// The task ends with the last clone.
#[must_use]
pub fn start_group_append(context: &Context) -> GroupAppend {
    let log = context.log.clone();
    let (group, running) = Batcher::new(MAX_GROUP, move |events: Vec<NewEvent>| {
        let log = log.clone();
        async move { Ok(append(&log, &events).await) }
    });
    context.spawn("group append", async {
        running.await;
        Ok(())
    });
    group.with_limit(APPEND_LIMIT)
}

#[derive(Debug, PartialEq, Eq)]
struct Bundle(Vec<usize>);

fn most_events(event: &NewEvent) -> usize {
    match event.stream {
        // The ids of the items depend on the places of the events in their message, so the dispatcher combines these events.
        StreamName::Inbox(_) => 1,
        StreamName::Job(..) => MAX_JOBS,
        // The message id prevents that the rest of a send is planned twice. And each event makes a dispatcher load a large send.
        StreamName::Send(_) if event.kind == SEND_CONTINUES => 1,
        StreamName::Send(_) | StreamName::Outcome => MAX_EVENTS,
    }
}

/// A message comes after all messages that contain only earlier events, so the event that a chunk is planned comes after the jobs of the
/// chunk.
fn bundles(events: &[NewEvent]) -> Vec<Bundle> {
    let mut bundles: Vec<Bundle> = Vec::new();
    // For each stream, the last bundle and its size in bytes.
    let mut open: BTreeMap<StreamName, (usize, usize)> = BTreeMap::new();
    for (place, event) in events.iter().enumerate() {
        let (size, most) = (event.payload.len(), most_events(event));
        if most == 1 {
            bundles.push(Bundle(vec![place]));
            continue;
        }
        match open.get_mut(&event.stream) {
            Some((last, bytes)) if bundles[*last].0.len() < most && *bytes + size <= MAX_BYTES => {
                bundles[*last].0.push(place);
                *bytes += size;
            }
            _ => {
                open.insert(event.stream, (bundles.len(), size));
                bundles.push(Bundle(vec![place]));
            }
        }
    }
    bundles.sort_by_key(|bundle| bundle.0.last().copied());
    bundles
}

impl Bundle {
    fn message(&self, events: &[NewEvent]) -> Message {
        let of_bundle: Vec<&NewEvent> = self.0.iter().map(|&place| &events[place]).collect();
        let payloads: Vec<Bytes> = of_bundle.iter().map(|event| event.payload.clone()).collect();
        let ids: Option<Vec<&str>> = of_bundle.iter().map(|event| event.message_id.as_deref()).collect();
        let first = of_bundle[0];
        Message {
            stream: first.stream,
            id: ids.map(|ids| message_id(&ids)),
            payload: bundle::encode(first.kind, &payloads),
        }
    }
}

fn message_id(ids: &[&str]) -> String {
    match ids {
        [alone] => (*alone).to_owned(),
        _ => Uuid::new_v5(&Uuid::nil(), ids.join("\n").as_bytes()).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use domain::event::SendContinues;
    use domain::{Channel, Event, Lane};

    use super::*;

    fn event(stream: StreamName, size: usize) -> NewEvent {
        let payload = Bytes::from(vec![b' '; size]);
        NewEvent { stream, kind: "Any", message_id: None, app: AppId(1), send_id: None, payload }
    }

    #[test]
    fn events_of_a_stream_keep_their_order_and_fill_messages() {
        let (outcome, job) = (StreamName::Outcome, StreamName::Job(Channel::Email, Lane::Bulk));
        let events = [
            event(outcome, 1),
            event(job, 1),
            event(outcome, 1),
            event(outcome, MAX_BYTES),
            event(outcome, 1),
            event(job, 1),
        ];
        let places: Vec<_> = bundles(&events).into_iter().map(|bundle| bundle.0).collect();
        assert_eq!(places, [vec![0, 2], vec![3], vec![4], vec![1, 5]]);
        let sizes = |stream| -> Vec<_> {
            let many: Vec<_> = (0..40).map(|_| event(stream, 1)).collect();
            bundles(&many).into_iter().map(|bundle| bundle.0.len()).collect()
        };
        assert_eq!(sizes(outcome), [40]);
        assert_eq!(sizes(job), [16, 16, 8]);
        assert_eq!(sizes(StreamName::Inbox(0)), [1; 40]);
        let continued =
            Event::SendContinues(SendContinues { chunk: 1, expansion: None, has_topics: false }).kind();
        let sends = StreamName::Send(Lane::Bulk);
        let continued = NewEvent { kind: continued, ..event(sends, 1) };
        assert_eq!(bundles(&[event(sends, 1), continued.clone(), continued, event(sends, 1)]).len(), 3);
        assert_eq!(bundles(&[]), []);
    }
}
