//! What a send comes to for each of its recipients: which channels it takes, and what it says there.
//!
//! Whoever sends and whoever only wants to know what a send would do go the same way: [`Template::compile`] what
//! the send names, [`decide`] its chunks, and have a [`Writer`] write the content of what was decided.

mod channels;
mod decision;
mod filters;
mod growth;
pub mod html;
mod link;
mod template;
mod writer;

pub use decision::decide;
pub use template::{Template, TemplateError, check, check_sample};
pub use writer::{Writer, item_size};
