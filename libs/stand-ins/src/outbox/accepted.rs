//! File of accepted messages that a test checks later.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::Capture;
use crate::twilio::form::Form;

/// An open file of accepted messages. Each line is written with a single call, and lines are never removed.
#[derive(Debug)]
pub(super) struct AcceptedFile(File);

#[derive(Serialize)]
struct Line<'a> {
    at: i64,
    channel: &'a str,
    delivery: String,
    target: &'a str,
}

impl AcceptedFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(AcceptedFile(OpenOptions::new().create(true).append(true).open(path)?))
    }

    /// Appends a message. Fails if the message has no delivery id, or does not have exactly one recipient. The stand-in must not
    /// confirm a message that cannot be appended.
    pub(super) fn append(&mut self, capture: &Capture) -> io::Result<()> {
        let delivery = delivery(capture).ok_or(io::Error::from(io::ErrorKind::InvalidData))?;
        let [target] = &capture.to[..] else { return Err(io::ErrorKind::InvalidData.into()) };
        // The stand-ins for mobile push add these prefixes to the device token.
        let target = target.strip_prefix("apns:").or(target.strip_prefix("fcm:")).unwrap_or(target);
        let at = capture.received_at.millis();
        let mut line = serde_json::to_vec(&Line { at, channel: &capture.channel, delivery, target })?;
        line.push(b'\n');
        self.0.write_all(&line)
    }
}

fn delivery(capture: &Capture) -> Option<String> {
    let header = |name: &str| capture.summary.headers.get(name)?.first().map(String::as_str);
    let member = |pointer: &str| {
        let body: Value = serde_json::from_slice(&capture.raw).ok()?;
        body.pointer(pointer)?.as_str().map(str::to_owned)
    };
    let id = match capture.channel.as_str() {
        "email" => message_id(&capture.raw),
        "webPush" => header("topic").map(str::to_owned),
        "mobilePush" => header("apns-id").map(str::to_owned).or_else(|| member("/message/data/deliveryId")),
        "sms" => status_callback(&capture.raw).or_else(|| member("/ref")),
        _ => None,
    };
    Some(Uuid::parse_str(&id?).ok()?.to_string())
}

/// Returns the delivery id in `Message-ID: <{delivery}@example.com>`.
fn message_id(raw: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(raw);
    let mut headers = text.lines().take_while(|line| !line.is_empty());
    let value = headers.find_map(|line| line.strip_prefix("Message-ID: <"))?;
    Some(value.split('@').next()?.to_owned())
}

/// Returns the delivery id in `StatusCallback=https://…/{delivery}?attempt=1`.
fn status_callback(raw: &[u8]) -> Option<String> {
    let form = Form::read(raw)?;
    let path = form.get("StatusCallback")?.split('?').next()?;
    path.rsplit('/').next().map(str::to_owned)
}
