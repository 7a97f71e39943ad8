use anyhow::anyhow;
use credentials::secrets::SecretsError;
use domain::Problem;
use operations::OperationError;

use crate::admin_api::is_missing;

/// Ends a command with exit code 2. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidInput(pub(crate) String);

impl InvalidInput {
    pub(crate) fn document(origin: &str, problems: &[Problem]) -> Self {
        let count = problems.len();
        let plural = if count == 1 { "problem" } else { "problems" };
        let lines: String = problems.iter().map(|problem| format!("\n  - {}", problem.message)).collect();
        InvalidInput(format!("{origin} has {count} {plural}, and nothing was stored:{lines}"))
    }
}

/// Ends the command with exit code 2 for invalid input and for a missing master key.
pub(crate) fn from_operation(error: OperationError) -> anyhow::Error {
    match error {
        OperationError::Invalid(problems) => InvalidInput(domain::problem::joined(&problems)).into(),
        OperationError::Defect(cause) => match cause.downcast::<SecretsError>() {
            Ok(error) => from_secrets(*error),
            Err(cause) => anyhow!(OperationError::Defect(cause)),
        },
        error => error.into(),
    }
}

pub(crate) fn from_secrets(error: SecretsError) -> anyhow::Error {
    match error {
        SecretsError::NotConfigured => InvalidInput(
            "no master key is configured: set `[security] master_key_file` in the configuration file or \
             TIDINGS_SECURITY__MASTER_KEY_FILE to the key file of the services"
                .to_owned(),
        )
        .into(),
        error => error.into(),
    }
}

pub(crate) trait OrMissing<T> {
    /// Replaces the error for a missing object by this text.
    fn or_missing(self, text: impl FnOnce() -> String) -> anyhow::Result<T>;
}

impl<T> OrMissing<T> for Result<T, OperationError> {
    fn or_missing(self, text: impl FnOnce() -> String) -> anyhow::Result<T> {
        self.map_err(|error| if is_missing(&error) { anyhow!(text()) } else { from_operation(error) })
    }
}
