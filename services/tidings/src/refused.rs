//! Invalid input: exit code 2, with all problems listed at once.

use domain::Problem;

/// Error for an invalid command line, configuration or document. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidInput(pub(crate) String);

impl InvalidInput {
    /// Lists the problems of a document from `origin`.
    pub(crate) fn document(origin: &str, problems: &[Problem]) -> Self {
        let count = problems.len();
        let plural = if count == 1 { "problem" } else { "problems" };
        let lines: String = problems.iter().map(|problem| format!("\n  - {}", problem.message)).collect();
        InvalidInput(format!("{origin} has {count} {plural}, and nothing was stored:{lines}"))
    }
}
