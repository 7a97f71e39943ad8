//! Packets of Engine.IO 4 and Socket.IO 5, in their text form over WebSocket.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::realtime::update::{Kind, Moment, Update};
use crate::realtime::web_socket::MAX_FRAME;

/// Interval in milliseconds at which the server pings.
pub(super) const PING_INTERVAL: u64 = 25_000;
/// Time in milliseconds within which the client must answer a ping.
pub(super) const PING_TIMEOUT: u64 = 20_000;

/// Maximum number of digits of an acknowledgement id, those of the largest number of 64 bits.
const MAX_ACK_DIGITS: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    Pong,
    /// The client closes the connection, or leaves its namespace.
    Close,
    Connect {
        namespace: &'a str,
        payload: &'a str,
    },
    /// An event. `ack` is the id of the acknowledgement that the client expects.
    Event {
        namespace: &'a str,
        ack: Option<u64>,
    },
    /// A packet that needs no answer.
    Other,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Handshake<'a> {
    sid: &'a str,
    upgrades: [&'a str; 0],
    ping_interval: u64,
    ping_timeout: u64,
    max_payload: usize,
}

/// Parses a text frame. None if it is not a packet of the protocol.
pub(super) fn parse(frame: &str) -> Option<Packet<'_>> {
    let (engine, message) = first_of(frame)?;
    match engine {
        '4' => {}
        '1' => return Some(Packet::Close),
        '3' => return Some(Packet::Pong),
        '2' | '5' | '6' => return Some(Packet::Other),
        _ => return None,
    }
    let (kind, rest) = first_of(message)?;
    let (namespace, rest) = split_namespace(rest)?;
    Some(match kind {
        '0' => Packet::Connect { namespace, payload: rest },
        '1' => Packet::Close,
        '2' => Packet::Event { namespace, ack: ack_id(rest)? },
        '3' | '4' => Packet::Other,
        // Types 5 and 6 announce binary attachments.
        _ => return None,
    })
}

/// Splits the first character from a text.
fn first_of(text: &str) -> Option<(char, &str)> {
    let mut characters = text.chars();
    characters.next().map(|first| (first, characters.as_str()))
}

/// Parses the id of an acknowledgement at the start of an event. None if it does not fit into 64 bits, Some(None) if there is none.
/// The gateway returns the id, so its length must have a limit, and only that many digits are looked at.
fn ack_id(rest: &str) -> Option<Option<u64>> {
    let digits = rest.bytes().take(MAX_ACK_DIGITS + 1).take_while(u8::is_ascii_digit).count();
    match digits {
        0 => Some(None),
        1..=MAX_ACK_DIGITS => rest.get(..digits)?.parse().ok().map(Some),
        _ => None,
    }
}

/// Splits the namespace from the rest of a packet. Without one, the packet belongs to the namespace `/`. A query after the
/// namespace is ignored.
fn split_namespace(rest: &str) -> Option<(&str, &str)> {
    if !rest.starts_with('/') {
        return Some(("/", rest));
    }
    let (namespace, rest) = rest.split_once(',').unwrap_or((rest, ""));
    Some((namespace.split('?').next()?, rest))
}

pub(super) fn open(sid: &str) -> Result<String, serde_json::Error> {
    let handshake = Handshake {
        sid,
        upgrades: [],
        ping_interval: PING_INTERVAL,
        ping_timeout: PING_TIMEOUT,
        max_payload: MAX_FRAME,
    };
    Ok(format!("0{}", serde_json::to_string(&handshake)?))
}

/// Writes a packet of Socket.IO. `kind` is its type, for example `0` for the answer to CONNECT.
pub(super) fn message(kind: char, namespace: &str, data: &str) -> String {
    if namespace == "/" { format!("4{kind}{data}") } else { format!("4{kind}{namespace},{data}") }
}

/// An event for the client: its name and its argument.
type ClientEvent<'a> = (&'static str, Argument<'a>);

#[derive(Serialize)]
#[serde(untagged)]
enum Argument<'a> {
    None {},
    Id {
        id: domain::ItemId,
    },
    Notification {
        notification: &'a RawValue,
    },
    Bare(&'a RawValue),
    #[serde(rename_all = "camelCase")]
    Unseen {
        unread_notification_count: i64,
    },
}

/// Writes the events of an update. The last has the update's position as its last argument, from which clients resume.
pub(super) fn events(namespace: &str, update: &Update) -> Result<Vec<String>, serde_json::Error> {
    let events = of_kind(&update.kind);
    let last = events.len().saturating_sub(1);
    let position = |index| update.moment.filter(|_| index == last);
    events.into_iter().enumerate().map(|(index, event)| written(namespace, event, position(index))).collect()
}

fn written(
    namespace: &str,
    (name, argument): ClientEvent<'_>,
    position: Option<Moment>,
) -> Result<String, serde_json::Error> {
    let data = match position {
        Some(position) => serde_json::to_string(&(name, argument, position.to_string())),
        None => serde_json::to_string(&(name, argument)),
    };
    Ok(message('2', namespace, &data?))
}

fn of_kind(kind: &Kind) -> Vec<ClientEvent<'_>> {
    match kind {
        Kind::Created { content, .. } => {
            vec![("NEW_NOTIFICATION", Argument::Notification { notification: content })]
        }
        Kind::Updated { item, content, changes, counts } => {
            let mut events = Vec::new();
            if changes.state {
                events.push(("NOTIFICATION_INTERACTED", Argument::Bare(content)));
            }
            if changes.read {
                events.push(("NOTIFICATION_READ", Argument::Id { id: *item }));
            } else if changes.seen || changes.unseen || changes.unread {
                events.push(unseen(counts.unseen));
            }
            events
        }
        Kind::Deleted { item, .. } => vec![("NOTIFICATION_DELETED", Argument::Id { id: *item })],
        Kind::AllChanged { change, counts, .. } => vec![match change {
            domain::inbox::AllChange::Seen => unseen(counts.unseen),
            domain::inbox::AllChange::Read => ("ALL_NOTIFICATION_READ", Argument::None {}),
            domain::inbox::AllChange::Deleted => ("ALL_NOTIFICATION_DELETED", Argument::None {}),
        }],
        Kind::Ready { .. } | Kind::Reset(_) | Kind::Bye { .. } | Kind::KeepAlive => Vec::new(),
    }
}

/// The event with the number of unseen notifications. Its member is called unread in this protocol.
fn unseen(count: i64) -> ClientEvent<'static> {
    ("NOTIFICATION_SEEN", Argument::Unseen { unread_notification_count: count })
}

pub(super) fn unseen_event(
    namespace: &str,
    count: i64,
    position: Option<Moment>,
) -> Result<String, serde_json::Error> {
    written(namespace, unseen(count), position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_parsed_with_and_without_namespace_and_ack_and_in_any_script() {
        let connect = |namespace, payload| Some(Packet::Connect { namespace, payload });
        let event = |namespace, ack| Some(Packet::Event { namespace, ack });
        let cases = [
            ("3", Some(Packet::Pong)),
            ("1", Some(Packet::Close)),
            ("41", Some(Packet::Close)),
            ("2", Some(Packet::Other)),
            ("40", connect("/", "")),
            (r#"40{"token":"t"}"#, connect("/", r#"{"token":"t"}"#)),
            (r#"40/notify/,{"a":1}"#, connect("/notify/", r#"{"a":1}"#)),
            ("40/notify", connect("/notify", "")),
            ("40/notify?x=1,{}", connect("/notify", "{}")),
            (r#"42["a"]"#, event("/", None)),
            (r#"4212["a"]"#, event("/", Some(12))),
            (r#"42/n,7["a",1]"#, event("/n", Some(7))),
            (r#"4218446744073709551615["a"]"#, event("/", Some(u64::MAX))),
            (r#"4218446744073709551616["a"]"#, None),
            (r#"4200000000000000000012["a"]"#, event("/", Some(12))),
            (r#"42000000000000000000012["a"]"#, None),
            ("42", event("/", None)),
            ("421", event("/", Some(1))),
            ("42é1", event("/", None)),
            ("4é", None),
            ("4é0", None),
            ("2é", Some(Packet::Other)),
            ("40é", connect("/", "é")),
            ("40/é", connect("/é", "")),
            ("43[]", Some(Packet::Other)),
            ("451-[]", None),
            ("", None),
            ("4", None),
            ("x", None),
            ("é", None),
        ];
        for (frame, expected) in cases {
            assert_eq!(parse(frame), expected, "{frame}");
        }
    }
    proptest::proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(frame in "[0-6]{0,2}(/?\\PC{0,8},?)[0-9]{0,25}\\PC{0,20}") {
            if let Some(Packet::Event { ack: Some(ack), .. }) = parse(&frame) {
                proptest::prop_assert!(frame.contains(&ack.to_string()));
            }
        }
    }
}
