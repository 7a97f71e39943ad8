//! The kinds of providers that a channel knows.

use domain::Problem;
use serde_json::Value;

/// A kind of provider, as operators name it.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name, such as `smtp`.
    pub name: &'static str,
    /// Members of its settings that are kept encrypted and never shown; dots lead into objects (`dkim.privateKey`).
    pub secrets: &'static [&'static str],
    /// Checks complete settings, secrets included: every problem, none of which repeats a secret.
    pub check: fn(&Value) -> Result<(), Vec<Problem>>,
    /// Settings that pass the check, as JSON with a comment a line, for the command's help.
    pub example: &'static str,
}
