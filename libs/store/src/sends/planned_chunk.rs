use std::sync::Arc;

use domain::plan::Decision;
use domain::{CategoryId, Channel};

use crate::control::template::TemplateVersion;
use crate::sends::chunk::Chunk;

/// Each element has the index of the recipient in the send.
pub type Decisions = Vec<(u32, Decision)>;

/// A chunk that a transaction freezes, or that a dry run plans.
#[derive(Clone, Debug)]
pub struct PlannedChunk {
    pub chunk: Chunk,
    /// True if the chunk was not frozen before, and does not repeat an earlier chunk of the transaction. The caller must then make the
    /// decisions for its recipients.
    pub is_new: bool,
    /// None if the send names no template or the template does not exist.
    pub template: Option<TemplateVersion>,
    pub category: Option<Arc<PlanCategory>>,
    /// Empty until the caller has made the decisions, or [`Freeze::read_stored_decisions`] has read them.
    ///
    /// [`Freeze::read_stored_decisions`]: crate::sends::plan::Freeze::read_stored_decisions
    pub decisions: Decisions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanCategory {
    pub id: CategoryId,
    pub identifier: String,
    pub name: String,
    /// User preferences are ignored for a critical category.
    pub critical: bool,
}

impl PlannedChunk {
    pub(crate) fn new(chunk: Chunk, is_new: bool) -> PlannedChunk {
        PlannedChunk { chunk, is_new, template: None, category: None, decisions: Decisions::new() }
    }

    /// Returns true if the send names a template that does not exist.
    #[must_use]
    pub fn lacks_template(&self) -> bool {
        self.chunk.send.template.is_some() && self.template.is_none()
    }

    /// None if user preferences are ignored for the category.
    #[must_use]
    pub fn category_with_preferences(&self) -> Option<&PlanCategory> {
        self.category.as_deref().filter(|category| !category.critical)
    }

    /// Returns the channels on which the send's topics may reach the recipient at an index of the chunk. None if on all, also because the
    /// category is critical.
    #[must_use]
    pub fn topic_channels(&self, index: usize) -> Option<&[Channel]> {
        let is_critical = self.category.as_deref().is_some_and(|category| category.critical);
        let expansion = self.chunk.expansion.as_deref().filter(|_| !is_critical);
        expansion.and_then(|expansion| expansion.channels_of(index))
    }

    /// Returns true if the decisions are about the recipients of the chunk. Always true if the send names the recipients.
    pub(crate) fn is_of_recipients(&self) -> bool {
        let decided = self.decisions.iter().map(|(_, decision)| decision.identifier.as_str());
        let recipients = self.chunk.recipients().iter().map(|recipient| recipient.identifier.as_str());
        self.chunk.expansion.is_none() || decided.eq(recipients)
    }
}
