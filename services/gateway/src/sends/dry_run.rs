//! `POST /v3/notifications?dryRun=true`: the deliveries that a send would make, skip or fail to make, with the reasons.

use std::collections::BTreeMap;

use domain::{Channel, Reason, Status};
use operations::sends::dry_run;
use serde::Serialize;
use utoipa::ToSchema;

use crate::openapi::vocabulary::{self, Identifier};
use crate::sends::shown_content::ShownContent;

/// Effect that a send would have.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "recipients": 1, "more": false,
    "counts": {"email": {"queued": 1}, "sms": {"skipped": 1}},
    "data": [
        {
            "recipient": "ada", "channel": "email", "target": "a***@example.com", "status": "queued", "reason": null,
            "content": {
                "subject": "Hello", "text": "Hello\n\n-- \nThe shop\n", "html": "<!DOCTYPE html>…", "from": null, "fromName": "The shop",
                "replyTo": null, "cc": [], "bcc": [], "headers": {}, "attachments": [], "missingContentIds": [],
            },
        },
        {
            "recipient": "ada", "channel": "sms", "target": null, "status": "skipped", "reason": "no_provider",
            "content": null,
        },
    ],
    "ignored": [],
}))]
pub(crate) struct DryRun {
    /// Number of recipients that the dry run shows.
    recipients: usize,
    /// True if the topics of the send have more subscribers than the dry run shows: it ends after 10,000 recipients.
    more: bool,
    /// Number of deliveries by channel and status.
    #[schema(value_type = BTreeMap<String, BTreeMap<String, u32>>)]
    counts: BTreeMap<Channel, BTreeMap<Status, u32>>,
    /// Deliveries, sorted by the recipient's position in the send, then by channel.
    data: Vec<Pair>,
    /// Paths of members of `data.attachments` that the service does not know and ignores.
    ignored: Vec<String>,
}

/// Effect of a send for one recipient on one channel.
#[derive(Serialize, ToSchema)]
#[schema(as = DryRunDelivery)]
struct Pair {
    #[schema(value_type = Identifier)]
    recipient: String,
    #[schema(value_type = vocabulary::Channel)]
    channel: Channel,
    /// Address, token or subscription of the recipient, masked. Null for the inbox and for skipped deliveries.
    target: Option<String>,
    /// `queued` if the send would make the delivery, otherwise `skipped` or `failed`.
    #[schema(value_type = vocabulary::Status)]
    status: Status,
    #[schema(value_type = Option<vocabulary::Reason>)]
    reason: Option<Reason>,
    /// Rendered content for the recipient. Null if the status is not `queued`, and from the eleventh recipient on, to bound the
    /// size of the answer.
    content: Option<Box<ShownContent>>,
}

impl From<dry_run::DryRun> for DryRun {
    fn from(planned: dry_run::DryRun) -> DryRun {
        let dry_run::DryRun { recipients, more, counts, data, ignored } = planned;
        DryRun { recipients, more, counts, data: data.into_iter().map(Pair::from).collect(), ignored }
    }
}

impl From<dry_run::Pair> for Pair {
    fn from(planned: dry_run::Pair) -> Pair {
        let dry_run::Pair { recipient, channel, target, status, reason, content } = planned;
        let content = content.map(|content| Box::new(ShownContent::from(*content)));
        Pair { recipient, channel, target, status, reason, content }
    }
}
