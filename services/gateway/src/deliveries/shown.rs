//! A delivery, its attempts and their receipts, as answers show them.

use domain::target::masked;
use domain::{Channel, DeliveryId, Reason, SendId, Status, Timestamp};
use serde::Serialize;
use store::sends::pairs::{AttemptReceipt, AttemptRecord, PairStatus};
use utoipa::ToSchema;

use crate::openapi::vocabulary::{self, Identifier, Time, Uuid};

/// Status of a send for one recipient on one channel.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Delivery)]
pub(crate) struct DeliveryBody<'a> {
    /// Null for inbox items and for skipped deliveries.
    #[schema(value_type = Option<Uuid>)]
    id: Option<DeliveryId>,
    #[schema(value_type = Uuid)]
    request_id: SendId,
    /// Identifier of the user; null if the user was erased.
    #[schema(value_type = Option<Identifier>)]
    recipient: Option<&'a str>,
    #[schema(value_type = vocabulary::Channel)]
    channel: Channel,
    /// Address, token or subscription of the recipient, masked. Null for inbox items, for skipped deliveries, and if the user was
    /// erased.
    target: Option<String>,
    provider: Option<&'a str>,
    #[schema(value_type = vocabulary::Status)]
    status: Status,
    #[schema(value_type = Option<vocabulary::Reason>)]
    reason: Option<Reason>,
    /// Code of the provider's last answer, or of the answer for which the delivery waits; null if there is none.
    code: Option<&'a str>,
    /// Earliest time of the next attempt, if the status is `waiting`.
    #[schema(value_type = Option<Time>)]
    next_attempt_at: Option<Timestamp>,
    /// Time at which the delivery was planned.
    #[schema(value_type = Option<Time>)]
    planned_at: Option<Timestamp>,
    /// Time at which the delivery ended; null until then, and always null for inbox items.
    #[schema(value_type = Option<Time>)]
    settled_at: Option<Timestamp>,
    attempts: Vec<AttemptBody<'a>>,
}

/// One provider call for a delivery, and the provider's answer.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Attempt)]
struct AttemptBody<'a> {
    /// Number of the attempt, from 1.
    #[schema(minimum = 1)]
    number: i32,
    #[schema(value_type = Time)]
    started_at: Timestamp,
    #[schema(value_type = Time)]
    ended_at: Timestamp,
    /// Null if no provider could be called.
    provider: Option<&'a str>,
    outcome: &'a str,
    provider_code: &'a str,
    provider_message: &'a str,
    provider_id: Option<&'a str>,
    /// Number of SMS parts that the text was split into; null for other channels, or if the number is unknown.
    segments: Option<i32>,
    /// The provider's later report about the message; null if there is none.
    receipt: Option<ReceiptBody<'a>>,
}

/// Later report from the provider about a message that it accepted.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AttemptReceipt)]
struct ReceiptBody<'a> {
    /// `delivered`, or the class of the failure.
    outcome: &'a str,
    provider_code: &'a str,
    provider_message: &'a str,
    #[schema(value_type = Time)]
    received_at: Timestamp,
}

pub(crate) fn present(request_id: SendId, delivery: &PairStatus) -> DeliveryBody<'_> {
    let wait = delivery.wait.as_ref();
    let last = delivery.attempts.last();
    DeliveryBody {
        id: delivery.id,
        request_id,
        recipient: delivery.recipient.as_deref(),
        channel: delivery.position.channel,
        target: delivery.target.as_deref().map(masked),
        provider: wait.and_then(|wait| wait.provider.as_deref()).or(delivery.provider.as_deref()),
        status: delivery.status,
        reason: delivery.reason,
        code: wait
            .and_then(|wait| wait.code.as_deref())
            .or_else(|| last.map(|attempt| attempt.provider_code.as_str())),
        next_attempt_at: wait.map(|wait| wait.next_attempt_at),
        planned_at: delivery.planned_at,
        settled_at: delivery.settled_at,
        attempts: delivery.attempts.iter().map(present_attempt).collect(),
    }
}

fn present_attempt(attempt: &AttemptRecord) -> AttemptBody<'_> {
    AttemptBody {
        number: attempt.number,
        started_at: attempt.started_at,
        ended_at: attempt.ended_at,
        provider: attempt.provider.as_deref(),
        outcome: &attempt.outcome,
        provider_code: &attempt.provider_code,
        provider_message: &attempt.provider_message,
        provider_id: attempt.provider_id.as_deref(),
        segments: attempt.segments,
        receipt: attempt.receipt.as_ref().map(present_receipt),
    }
}

fn present_receipt(receipt: &AttemptReceipt) -> ReceiptBody<'_> {
    ReceiptBody {
        outcome: &receipt.outcome,
        provider_code: &receipt.provider_code,
        provider_message: &receipt.provider_message,
        received_at: receipt.received_at,
    }
}
