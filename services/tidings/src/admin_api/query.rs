//! Parameters of a call.

use std::fmt::Display;

#[derive(Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Adds a parameter if it has a value.
    pub(crate) fn with(mut self, name: &str, value: Option<impl Display>) -> Query {
        self.0.extend(value.map(|value| (name.to_owned(), value.to_string())));
        self
    }

    pub(super) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }
}
