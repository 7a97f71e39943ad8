//! Final status of every (recipient, channel) of confirmed sends.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Channel, Status};
use uuid::Uuid;

use crate::record::{Delivery, IntendedSend, Record, Request, User};

fn by_send(record: &Record) -> BTreeMap<Uuid, Vec<(&Uuid, &Delivery)>> {
    let mut deliveries: BTreeMap<Uuid, Vec<_>> = BTreeMap::new();
    for (id, delivery) in &record.tables.deliveries {
        deliveries.entry(delivery.send).or_default().push((id, delivery));
    }
    deliveries
}

pub(crate) fn every_confirmed_send_has_ended(record: &Record) -> Vec<String> {
    let deliveries = by_send(record);
    let items: BTreeSet<(Uuid, i64)> =
        record.tables.items.values().map(|item| (item.send, item.user)).collect();
    let numbers = record.numbers();
    let mut wrong = Vec::new();
    for (id, asked) in record.confirmed_sends() {
        let Some(request) = record.tables.requests.get(&id) else {
            wrong.push(format!("{id} ({}) was confirmed, but never planned", asked.title));
            continue;
        };
        let of_send = deliveries.get(&id).map(Vec::as_slice).unwrap_or_default();
        for recipient in &asked.recipients {
            let user = (asked.app, recipient.clone());
            let in_inbox = numbers.get(&user).is_some_and(|number| items.contains(&(id, *number)));
            let whom = Recipient { record, user: &user, asked, of_send, in_inbox };
            let open = Channel::DELIVERED.into_iter().filter(|channel| whom.is_open(request, *channel));
            wrong.extend(open.map(|channel| {
                format!("{id} ({}) for {recipient} over {channel}: no valid final status", asked.title)
            }));
        }
    }
    let waiting = record.tables.deliveries.iter().filter(|(_, delivery)| !has_ended(delivery));
    wrong.extend(waiting.map(|(id, delivery)| format!("{id} has no valid final status: {delivery:?}")));
    wrong
}

/// Returns true if the delivery has a final status that is possible in the crash run. No send is cancelled, and no delivery
/// expires. Only an SMS, or an email whose outcome was unknown three times, may end as `unknown`. A planned delivery is skipped only
/// if its target was suppressed after the planning.
fn has_ended(delivery: &Delivery) -> bool {
    match delivery.status {
        Status::Sent | Status::Delivered | Status::Failed | Status::Parked => true,
        Status::Unknown => match delivery.channel {
            Channel::Sms => true,
            Channel::Email => has_been_in_doubt_thrice(delivery),
            _ => false,
        },
        Status::Skipped => delivery.reason.as_deref() == Some("suppressed"),
        Status::Queued
        | Status::Sending
        | Status::Retrying
        | Status::Waiting
        | Status::Cancelled
        | Status::Expired => false,
    }
}

/// Returns true if the last attempt has an unknown outcome, and at least three calls may have been accepted. A worker that died during
/// its call left a claim and no attempt.
fn has_been_in_doubt_thrice(delivery: &Delivery) -> bool {
    let is_last_unknown = delivery.attempts.last().is_some_and(|last| last.outcome == "unknown");
    is_last_unknown && delivery.claims.len() >= 3
}

/// A recipient of a send.
struct Recipient<'r> {
    record: &'r Record,
    user: &'r User,
    asked: &'r IntendedSend,
    of_send: &'r [(&'r Uuid, &'r Delivery)],
    in_inbox: bool,
}

impl Recipient<'_> {
    /// Returns true if the tables have no final status, or an impossible one, for this recipient and channel.
    fn is_open(&self, request: &Request, channel: Channel) -> bool {
        let Some(planned) = request.recipients.get(&self.user.1) else { return true };
        let skipped = planned.skips.iter().find(|(skipped, _)| skipped == channel.as_str());
        let of_channel = || {
            let deliveries = self.of_send.iter().map(|(_, delivery)| *delivery);
            deliveries.filter(move |delivery| (delivery.index, delivery.channel) == (planned.index, channel))
        };
        match (skipped, channel) {
            (Some((_, reason)), _) => !self.may_be_skipped(channel, reason) || of_channel().next().is_some(),
            (None, _) if !self.asked.channels.contains(&channel) => true,
            (None, Channel::InApp) => !(planned.in_app && self.in_inbox),
            (None, _) => !of_channel().any(|delivery| delivery.status.is_terminal()),
        }
    }

    /// Returns true if the channel may be skipped for this reason. Dead push tokens and browser subscriptions are removed, so
    /// their users have no address any more. Dead email addresses and phone numbers stay in the profile.
    fn may_be_skipped(&self, channel: Channel, reason: &str) -> bool {
        if !self.asked.channels.contains(&channel) {
            return reason == "not_selected";
        }
        let had_none =
            || !self.record.targets.get(self.user).is_some_and(|targets| targets.contains_key(&channel));
        let is_dead = || self.record.has_dead_target(self.user, channel);
        match (channel, reason) {
            (Channel::InApp, _) => false,
            (_, "suppressed") => is_dead(),
            (Channel::WebPush | Channel::MobilePush, "no_address") => had_none() || is_dead(),
            (_, "no_address") => had_none(),
            _ => false,
        }
    }
}
