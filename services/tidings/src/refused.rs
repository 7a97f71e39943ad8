//! Error for invalid input, which ends a command with exit code 2.

use domain::Problem;

/// Error for an invalid command line, configuration or document. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidInput(pub(crate) String);

impl InvalidInput {
    /// Creates an error that lists all problems of a document. `origin` names the document.
    pub(crate) fn document(origin: &str, problems: &[Problem]) -> Self {
        let count = problems.len();
        let plural = if count == 1 { "problem" } else { "problems" };
        let lines: String = problems.iter().map(|problem| format!("\n  - {}", problem.message)).collect();
        InvalidInput(format!("{origin} has {count} {plural}, and nothing was stored:{lines}"))
    }
}
