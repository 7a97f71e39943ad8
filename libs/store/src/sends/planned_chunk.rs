//! A chunk on its way through planning, with the facts and decisions that belong to it alone.

use std::sync::Arc;

use domain::CategoryId;
use domain::plan::Decision;

use crate::control::template::TemplateVersion;
use crate::sends::chunk::Chunk;

/// Decisions of a chunk. Each element is the index of a recipient in the send and the decision for this recipient.
pub type Decisions = Vec<(u32, Decision)>;

/// A chunk that a transaction freezes, or that a dry run plans.
#[derive(Clone, Debug)]
pub struct PlannedChunk {
    pub chunk: Chunk,
    /// True if the chunk was not frozen before, and does not repeat an earlier chunk of the transaction. The caller must then make
    /// the decisions for its recipients.
    pub is_new: bool,
    /// Template version that the chunk's send is planned with; None if the send names no template or the template does not exist.
    pub template: Option<TemplateVersion>,
    pub category: Option<Arc<PlanCategory>>,
    /// Empty until the caller has made the decisions, or [`Freeze::read_stored_decisions`] has read them.
    ///
    /// [`Freeze::read_stored_decisions`]: crate::sends::plan::Freeze::read_stored_decisions
    pub decisions: Decisions,
}

/// The properties of a category that planning uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanCategory {
    pub id: CategoryId,
    /// Unique in the app.
    pub identifier: String,
    /// Display name.
    pub name: String,
    /// True if user preferences are ignored for this category.
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

    /// The chunk's category, unless user preferences are ignored for it.
    #[must_use]
    pub fn category_with_preferences(&self) -> Option<&PlanCategory> {
        self.category.as_deref().filter(|category| !category.critical)
    }

    /// Returns true if the decisions are about the recipients of the chunk. Always true if the send names the recipients.
    pub(crate) fn is_of_recipients(&self) -> bool {
        let decided = self.decisions.iter().map(|(_, decision)| decision.identifier.as_str());
        let recipients = self.chunk.recipients().iter().map(|recipient| recipient.identifier.as_str());
        self.chunk.expansion.is_none() || decided.eq(recipients)
    }
}
