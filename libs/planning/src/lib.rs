//! Planning of a send: the channels for each of its recipients, and the content for each channel. Sends and dry runs take the same steps:
//! [`Template::compile`], [`decide_chunk`] and [`ContentRenderer`].
#![cfg_attr(not(test), warn(clippy::string_slice))]

mod channels;
mod check;
mod decision;
mod expansion;
mod filters;
mod growth;
mod link;
mod mjml;
mod needs;
mod nesting;
mod plain;
mod renderer;
mod template;

pub use check::{check, check_sample, texts, variables};
pub use decision::decide_chunk;
pub use expansion::{next_expansion, no_further_subscribers};
pub use mjml::compile_mjml;
pub use needs::TemplateNeeds;
pub use plain::EmailLook;
pub use renderer::{ContentRenderer, item_size};
pub use template::{Template, TemplateError};
