use crate::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Claim,
    /// A claim finds that the delivery must not be attempted, or that its last call must not be repeated.
    Refuse,
    /// A worker releases a claim without having called the provider.
    GiveBack,
    Settle,
    /// A late outcome is recorded for a delivery that has already ended without it.
    Correct,
    Report,
    FailToRender,
    Cancel,
    Erase,
    Redrive,
}

#[derive(Clone, Copy, Debug)]
pub struct Transition {
    pub step: Step,
    pub from: &'static [Status],
    pub to: &'static [Status],
}

/// Statuses to which a provider's answer can lead.
const ANSWERED: [Status; 8] = [
    Status::Sent,
    Status::Failed,
    Status::Unknown,
    Status::Retrying,
    Status::Parked,
    Status::Expired,
    Status::Cancelled,
    Status::Skipped,
];

/// Every legal change of a delivery's status. The SQL statements restrict most steps further, by token, lease and attempt number.
/// Restoring a backup is not a step: `tidings restore` writes the statuses that the log contains.
pub const TRANSITIONS: [Transition; 10] = [
    Transition { step: Step::Claim, from: &Status::OPEN, to: &[Status::Sending] },
    Transition {
        step: Step::Refuse,
        from: &Status::OPEN,
        to: &[Status::Unknown, Status::Skipped, Status::Cancelled, Status::Expired],
    },
    Transition { step: Step::GiveBack, from: &[Status::Sending], to: &Status::WAITING },
    Transition { step: Step::Settle, from: &[Status::Sending], to: &ANSWERED },
    Transition {
        step: Step::Correct,
        from: &[Status::Unknown, Status::Cancelled, Status::Expired, Status::Skipped],
        to: &ANSWERED,
    },
    Transition {
        step: Step::Report,
        from: &Status::REPORTABLE,
        to: &[
            Status::Delivered,
            Status::Failed,
            Status::Retrying,
            Status::Parked,
            Status::Expired,
            Status::Cancelled,
            Status::Skipped,
        ],
    },
    Transition { step: Step::FailToRender, from: &[Status::Queued], to: &[Status::Failed] },
    Transition {
        step: Step::Cancel,
        from: &[Status::Queued, Status::Retrying, Status::Sending],
        to: &[Status::Cancelled],
    },
    Transition {
        step: Step::Erase,
        from: &[Status::Queued, Status::Retrying, Status::Sending, Status::Parked],
        to: &[Status::Skipped, Status::Unknown],
    },
    Transition { step: Step::Redrive, from: &[Status::Parked], to: &[Status::Retrying] },
];

impl Step {
    fn transition(self) -> Option<&'static Transition> {
        TRANSITIONS.iter().find(|transition| transition.step == self)
    }

    #[must_use]
    pub fn starts_from(self, status: Status) -> bool {
        self.transition().is_some_and(|transition| transition.from.contains(&status))
    }

    #[must_use]
    pub fn allows(self, from: Status, to: Status) -> bool {
        self.starts_from(from) && self.transition().is_some_and(|transition| transition.to.contains(&to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_receipt_delivers_and_nothing_follows_a_delivered_or_failed_delivery() {
        for transition in &TRANSITIONS {
            let delivers = transition.to.contains(&Status::Delivered);
            assert_eq!(delivers, transition.step == Step::Report, "{transition:?}");
            let is_final = |status: &Status| [Status::Delivered, Status::Failed].contains(status);
            assert!(!transition.from.iter().any(is_final), "{transition:?}");
        }
    }

    #[test]
    fn a_late_answer_replaces_every_end_without_an_answer() {
        let refused = TRANSITIONS.iter().filter(|transition| transition.step == Step::Refuse);
        for status in refused.flat_map(|transition| transition.to) {
            assert!(Step::Correct.starts_from(*status), "{status}");
        }
        assert!(Status::CORRECTABLE.iter().all(|status| Step::Correct.starts_from(*status)));
    }

    #[test]
    fn a_parked_delivery_leaves_only_by_redrive_or_erasure() {
        let leaving: Vec<Step> = TRANSITIONS
            .iter()
            .filter(|transition| transition.from.contains(&Status::Parked))
            .map(|transition| transition.step)
            .collect();
        assert_eq!(leaving, [Step::Erase, Step::Redrive]);
    }
}
