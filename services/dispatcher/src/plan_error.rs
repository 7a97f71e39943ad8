use domain::{AppId, SendId};
use event_log::{PublishError, Refusal};
use service_kit::append::AppendError;

/// Plans that are frozen stay frozen, and a retry publishes their messages.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error("cannot encode a message: {0}")]
    Encode(#[from] serde_json::Error),
    /// A restored backup, for example, may lack the template.
    #[error(
        "the template of send {send_id} of app {app}, or the version it was planned with, is missing: PUT the template again"
    )]
    NoTemplate { app: AppId, send_id: SendId },
    /// Another process froze the same chunk for other subscribers. The next attempt reads them from the database.
    #[error("another dispatcher has planned a chunk of send {send_id} for other subscribers")]
    FrozenMeanwhile { send_id: SendId },
}

impl PlanError {
    pub(crate) fn is_outage(&self) -> bool {
        match self {
            PlanError::Store(error) => error.is_unavailable(),
            PlanError::Append(AppendError::Timers(error)) => error.is_unavailable(),
            PlanError::Append(AppendError::Publish(_)) => !self.is_own_failure(),
            PlanError::Encode(_) | PlanError::NoTemplate { .. } | PlanError::FrozenMeanwhile { .. } => false,
        }
    }

    pub(crate) fn is_lock_timeout(&self) -> bool {
        matches!(self, PlanError::Store(error) if error.is_lock_timeout())
    }

    /// Returns true if the messages themselves are at fault. A retry then cannot help.
    pub(crate) fn is_own_failure(&self) -> bool {
        match self {
            PlanError::Store(error) => error.is_refused_data(),
            PlanError::Append(AppendError::Timers(error)) => error.is_refused_data(),
            PlanError::Append(AppendError::Publish(PublishError::Refused {
                refusal: Refusal::TooLarge,
                ..
            }))
            | PlanError::Encode(_) => true,
            PlanError::Append(_) | PlanError::NoTemplate { .. } | PlanError::FrozenMeanwhile { .. } => false,
        }
    }
}
