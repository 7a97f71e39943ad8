//! A send: its request, content, overrides and plan.

pub mod content;
pub mod content_ids;
pub mod expansion;
pub mod link;
pub mod overrides;
pub mod plan;
pub mod request;
pub mod send;
