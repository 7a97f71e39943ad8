//! The decisions for the recipients of a chunk, as published in `SendPlanned`. If the database loses a plan, `tidings restore` restores it
//! from these decisions, the jobs and the accepted send.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::id::TemplateId;
use crate::plan::Decision;
use crate::{CategoryId, Channel, Reason, UserNumber};

/// The decision for each recipient of a chunk, without the deliveries, which are published as jobs. Each distinct decision is written once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChunkDecisions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<CategoryId>,
    /// All chunks of the send use this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<(TemplateId, i32)>,
    pub shapes: Vec<Shape>,
    /// In the order of the chunk: the user (None if the app has no such user) and the index of the decision in `shapes`.
    pub recipients: Vec<(Option<UserNumber>, u32)>,
}

/// The decision for a recipient, without its deliveries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenShape", into = "WrittenShape")]
pub struct Shape {
    pub in_app: bool,
    pub skips: Vec<(Channel, Reason)>,
}

/// Wire format: the previous release reads `skips` and ignores `details`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenShape {
    in_app: bool,
    skips: Vec<(Channel, Reason)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    details: Vec<(Channel, String)>,
}

impl From<WrittenShape> for Shape {
    fn from(written: WrittenShape) -> Shape {
        let WrittenShape { in_app, skips, details } = written;
        let detail =
            |channel| details.iter().find(|(of, _)| *of == channel).map(|(_, detail)| detail.as_str());
        let skips = skips.into_iter().map(|(channel, reason)| (channel, reason.with_detail(detail(channel))));
        Shape { in_app, skips: skips.collect() }
    }
}

impl From<Shape> for WrittenShape {
    fn from(Shape { in_app, skips }: Shape) -> WrittenShape {
        let detail =
            |(channel, reason): &(Channel, Reason)| Some((*channel, reason.detail()?.as_str().to_owned()));
        let details = skips.iter().filter_map(detail).collect();
        let skips = skips.into_iter().map(|(channel, reason)| (channel, reason.known_before())).collect();
        WrittenShape { in_app, skips, details }
    }
}

impl ChunkDecisions {
    /// Adds the next recipient of the chunk. The content of the channels in `unwritten` could not be rendered.
    pub fn push(&mut self, decision: &Decision, unwritten: &HashSet<Channel>) {
        let mut skips = decision.skips.clone();
        let ordered = decision.deliveries.iter().map(|delivery| delivery.channel);
        let ordered = ordered.chain(decision.in_app.then_some(Channel::InApp));
        let failed: HashSet<Channel> = ordered.filter(|channel| unwritten.contains(channel)).collect();
        let failed = Channel::ALL.iter().filter(|channel| failed.contains(channel));
        skips.extend(failed.map(|channel| (*channel, Reason::TemplateError)));
        let shape = Shape { in_app: decision.in_app && !unwritten.contains(&Channel::InApp), skips };
        let place = self.shapes.iter().rposition(|known| *known == shape).unwrap_or_else(|| {
            self.shapes.push(shape);
            self.shapes.len() - 1
        });
        self.recipients.push((decision.user, u32::try_from(place).unwrap_or(u32::MAX)));
    }

    /// Returns the recipients in the order of the chunk. The decision is None if its index is not in `shapes`.
    pub fn each(&self) -> impl Iterator<Item = (Option<UserNumber>, Option<&Shape>)> {
        self.recipients.iter().map(|(user, shape)| (*user, self.shapes.get(*shape as usize)))
    }
}

impl Shape {
    /// True if the recipient was already erased at the time of the decision.
    #[must_use]
    pub fn is_of_erased(&self) -> bool {
        self.skips.iter().any(|(_, reason)| *reason == Reason::RecipientErased)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::DeliveryId;
    use crate::plan::PlannedDelivery;

    fn decision(user: i64, deliveries: &[Channel]) -> Decision {
        let delivery = |channel: &Channel| PlannedDelivery {
            id: DeliveryId(Uuid::nil()),
            channel: *channel,
            target: "somewhere".to_owned(),
        };
        Decision {
            identifier: format!("user-{user}"),
            user: Some(UserNumber(user)),
            in_app: true,
            deliveries: deliveries.iter().map(delivery).collect(),
            skips: vec![(Channel::Sms, Reason::NoAddress)],
            missing: Vec::new(),
        }
    }

    #[test]
    fn recipients_with_equal_decisions_share_a_shape() {
        let mut decided = ChunkDecisions::default();
        for user in 1..=500 {
            decided.push(&decision(user, &[Channel::Email]), &HashSet::new());
        }
        assert_eq!((decided.shapes.len(), decided.recipients.len()), (1, 500));
        let size = serde_json::to_string(&decided).unwrap().len();
        assert!(size < 500 * 10, "{size} bytes");
        assert!(
            decided.each().all(|(user, shape)| user.is_some() && shape.is_some_and(|shape| shape.in_app))
        );
    }

    #[test]
    fn the_previous_release_reads_a_reason_that_it_does_not_know_as_one_that_it_knows() {
        let shape = Shape { in_app: true, skips: vec![(Channel::Email, Reason::InvalidAddress)] };
        let text = serde_json::to_string(&shape).unwrap();
        let expected =
            r#"{"inApp":true,"skips":[["email","no_address"]],"details":[["email","invalid_address"]]}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Shape>(&text).unwrap(), shape);
    }

    #[test]
    fn channels_that_could_not_be_rendered_are_template_errors() {
        let mut decided = ChunkDecisions::default();
        let unwritten = HashSet::from([Channel::InApp, Channel::Email, Channel::WebPush]);
        decided.push(&decision(1, &[Channel::Email, Channel::MobilePush]), &unwritten);
        let skips = [
            (Channel::Sms, Reason::NoAddress),
            (Channel::InApp, Reason::TemplateError),
            (Channel::Email, Reason::TemplateError),
        ];
        assert_eq!(decided.shapes, [Shape { in_app: false, skips: skips.to_vec() }]);
    }
}
