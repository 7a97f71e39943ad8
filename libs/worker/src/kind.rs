//! The kinds of providers of a channel.

use domain::Problem;
use serde_json::Value;

/// A kind of provider.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Name in the settings, such as `smtp`.
    pub name: &'static str,
    /// Members of its settings that are stored encrypted and never shown; dots separate the names of nested members
    /// (`dkim.privateKey`).
    pub secrets: &'static [&'static str],
    /// Checks complete settings, including secrets. Returns every problem; none repeats a secret.
    pub check: fn(&Value) -> Result<(), Vec<Problem>>,
    /// Settings that pass the check, as JSON with comments, for the command's help.
    pub example: &'static str,
}
