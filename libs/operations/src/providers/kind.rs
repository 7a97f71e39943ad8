//! Kinds of providers.

use std::fmt;

use domain::{Channel, Problem};
use serde_json::Value;

type Check = Box<dyn Fn(&Value) -> Result<(), Vec<Problem>> + Send + Sync>;

/// A kind of provider, as the crate of its channel describes it.
pub struct KnownKind {
    pub channel: Channel,
    /// Name in the document of a provider, such as `smtp`.
    pub name: &'static str,
    /// Settings as JSON with comments, from which forms are made: a member begins each line, and a comment may follow its value.
    pub example: &'static str,
    /// Members of the settings that are stored encrypted and never shown; dots separate the names of nested members.
    pub secrets: &'static [&'static str],
    /// Checks complete settings, with their secrets, and returns every problem.
    pub check: Check,
}

impl fmt::Debug for KnownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.channel, self.name)
    }
}
