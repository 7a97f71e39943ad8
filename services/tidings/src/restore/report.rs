//! What a restore brought back, and what it could not.

use std::fmt::{self, Display};

use domain::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::reach::Reach;

/// What the log does not hold.
const LOST: [&str; 11] = [
    "users' profiles, devices, push subscriptions, preferences and opt-outs as they were changed since the backup; users \
     who came since are known by their identifier, with what sends said of them",
    "users who came since the backup and were sent nothing",
    "apps, keys, secrets, providers, templates, categories' settings and webhook endpoints as they were changed since: set \
     them again before services start. A send whose template is not there, or not in its version, waits until it is put \
     again; one whose provider is not there goes without that channel",
    "files of sends that were accepted since: an email that needs one fails with the code attachment_gone",
    "what providers said of single attempts since, and which of their own ids a later receipt may name",
    "an erasure or a cancellation of the last moment before the database was lost, of which the log had no word yet",
    "what a full stream had refused since and waited in the database for room: items of inboxes are lost that way, jobs are \
     planned anew",
    "suppressions that were lifted since, and what came with that (START by SMS, a subscription registered anew): the log \
     tells of dead targets, not of their coming back",
    "rows of the audit log since",
    "the place of webhooks: what happened since is told again, under the same ids",
    "which provider a retry was to go to: it goes to the one that was asked last",
];

/// The numbers of a restore.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// `restored`, `planned` (nothing was changed) or `adopted` (nothing was lost).
    outcome: &'static str,
    /// When the backup was still at work, as far as it says itself.
    backup_marked_at: Option<Timestamp>,
    /// Messages of the log that the backup may not know.
    messages: u64,
    pub(super) unreadable: u64,
    pub(super) apps: Vec<i64>,
    pub(super) erased: u64,
    pub(super) requests: u64,
    pub(super) keys: u64,
    pub(super) deliveries: u64,
    pub(super) chunks: u64,
    pub(super) users: u64,
    pub(super) categories: u64,
    pub(super) outcomes: u64,
    pub(super) suppressed: u64,
    pub(super) cancelled: u64,
    pub(super) reopened: u64,
    pub(super) reopened_sends: u64,
    pub(super) unknown: u64,
    pub(super) attempts: u64,
    pub(super) parked: u64,
    pub(super) without_job: u64,
    pub(super) ordered: u64,
}

impl Report {
    pub(super) fn begun(reach: &Reach) -> Report {
        let messages = reach.ranges.iter().map(super::reach::Range::messages).sum();
        Report { backup_marked_at: reach.marked_at, messages, ..Report::default() }
    }

    pub(super) fn planned(reach: &Reach) -> Report {
        Report { outcome: "planned", ..Report::begun(reach) }
    }

    pub(super) fn adopted() -> Report {
        Report { outcome: "adopted", ..Report::default() }
    }

    pub(super) fn done(self) -> Report {
        Report { outcome: "restored", ..self }
    }

    pub(super) fn json(&self) -> String {
        let lost: &[&str] = if self.outcome == "restored" { &LOST } else { &[] };
        format!("{}\n", json!({"report": self, "lost": lost}))
    }

    fn lines(&self) -> [(u64, &'static str); 17] {
        [
            (self.requests, "requests"),
            (self.keys, "idempotency keys"),
            (self.chunks, "planned chunks of sends"),
            (self.users, "users"),
            (self.categories, "categories"),
            (self.deliveries, "deliveries, or attempts of them that had begun"),
            (self.outcomes, "states that deliveries have reached"),
            (self.suppressed, "dead targets"),
            (self.cancelled, "cancellations"),
            (self.erased, "erasures"),
            (self.reopened, "deliveries that were put back after they were parked"),
            (self.reopened_sends, "sends that were put back after they were set aside"),
            (self.parked, "deliveries that are parked"),
            (
                self.attempts,
                "deliveries that are attempted now; a provider may have had some of them, under the same id",
            ),
            (self.unknown, "SMS that may have been sent: they end as unknown"),
            (self.ordered, "sends that are planned now, or at their time"),
            (self.without_job, "deliveries whose message is not in the log any more: they stay as they are"),
        ]
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marked_at = self.backup_marked_at.map_or("an unknown time".to_owned(), |at| at.to_string());
        match self.outcome {
            "adopted" => return writeln!(f, "Taken as it is. Services may start."),
            "planned" => {
                return writeln!(
                    f,
                    "The log reaches back to the backup, which was at work at {marked_at}. {} messages would be read. \
                     Nothing was changed.",
                    self.messages
                );
            }
            _ => {}
        }
        writeln!(
            f,
            "Restored. The backup was at work at {marked_at}; {} messages were read.",
            self.messages
        )?;
        writeln!(f, "Came back, without what an interrupted run before this one brought back:")?;
        for (count, what) in self.lines().iter().filter(|(count, _)| *count > 0) {
            writeln!(f, "  {count:>9}  {what}")?;
        }
        if !self.apps.is_empty() {
            let apps: Vec<_> = self.apps.iter().map(i64::to_string).collect();
            writeln!(
                f,
                "Apps that the backup does not know: {}. They are turned off, under names that begin with `lost-`.",
                apps.join(", ")
            )?;
        }
        if self.unreadable > 0 {
            writeln!(f, "{} messages cannot be read by this release and were passed over.", self.unreadable)?;
        }
        writeln!(f, "Cannot come back:")?;
        for lost in LOST {
            writeln!(f, "  - {lost}")?;
        }
        writeln!(f, "Services may start.")
    }
}
