use std::fmt::{self, Display};

use domain::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::reach::Reach;

const LOST: [&str; 8] = [
    "changes since the backup to users' profiles, devices, push subscriptions, preferences and opt-outs; of users created \
     since then, only the identifiers that sends contain are recovered",
    "changes since the backup to apps, keys, secrets, providers, templates, categories and webhook endpoints: set them again \
     before services start. A send whose template or template version is missing waits until it is put again; a send whose \
     provider is missing skips that channel",
    "files of sends that were accepted since the backup: an email that needs one fails with the code attachment_gone",
    "retries since the backup: deliveries that waited for a retry, or that a worker was processing, end as unknown",
    "the messages of deliveries that were parked since the backup: these deliveries stay parked and cannot be redriven",
    "attempts since the backup, with the providers' answers and message ids: a later receipt with such an id matches no \
     attempt",
    "changes that had not reached the log: erasures and cancellations right before the loss, and inbox items that a full \
     stream had refused",
    "suppressions lifted since the backup, which apply again; rows of the audit log written since the backup; and the \
     progress of webhooks, which report the events since the backup again under the same ids",
];

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// `restored`, `planned` (dry run, nothing was changed) or `adopted` (the database was accepted as it is).
    outcome: &'static str,
    backup_marked_at: Option<Timestamp>,
    /// Messages whose effects the backup may lack.
    messages: u64,
    pub(super) unreadable: u64,
    pub(super) apps: Vec<i64>,
    pub(super) erased: u64,
    pub(super) requests: u64,
    pub(super) keys: u64,
    pub(super) deliveries: u64,
    pub(super) chunks: u64,
    pub(super) users: u64,
    pub(super) outcomes: u64,
    pub(super) suppressed: u64,
    pub(super) cancelled: u64,
    pub(super) unknown: u64,
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

    fn lines(&self) -> [(u64, &'static str); 10] {
        [
            (self.requests, "requests"),
            (self.keys, "idempotency keys"),
            (self.chunks, "planned chunks of sends"),
            (self.users, "users"),
            (self.deliveries, "deliveries, or attempts that workers started"),
            (self.outcomes, "outcomes of deliveries"),
            (self.suppressed, "dead targets"),
            (self.cancelled, "cancellations"),
            (self.erased, "erasures"),
            (self.ordered, "sends to plan, now or at their scheduled time"),
        ]
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marked_at = self.backup_marked_at.map_or("an unknown time".to_owned(), |at| at.to_string());
        match self.outcome {
            "adopted" => return writeln!(f, "Accepted as it is. Services may start."),
            "planned" => {
                return writeln!(
                    f,
                    "The log reaches back to the backup, whose database was still in use at {marked_at}. {} messages would \
                     be read. Nothing was changed.",
                    self.messages
                );
            }
            _ => {}
        }
        writeln!(
            f,
            "Restored. The backed-up database was still in use at {marked_at}; {} messages were read.",
            self.messages
        )?;
        writeln!(f, "Recovered by this run (earlier, interrupted runs are not counted):")?;
        for (count, what) in self.lines().iter().filter(|(count, _)| *count > 0) {
            writeln!(f, "  {count:>9}  {what}")?;
        }
        writeln!(
            f,
            "{} deliveries end as unknown, because the log does not contain their outcome. They are not sent again.",
            self.unknown
        )?;
        if !self.apps.is_empty() {
            let apps: Vec<_> = self.apps.iter().map(i64::to_string).collect();
            writeln!(
                f,
                "Apps that are missing in the backup: {}. They are disabled, under names that begin with `lost-`.",
                apps.join(", ")
            )?;
        }
        if self.unreadable > 0 {
            writeln!(f, "{} messages cannot be read by this release and were skipped.", self.unreadable)?;
        }
        writeln!(f, "Cannot be recovered:")?;
        for lost in LOST {
            writeln!(f, "  - {lost}")?;
        }
        writeln!(f, "Services may start.")
    }
}
