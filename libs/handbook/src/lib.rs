//! The guides and the API reference as HTML pages.
//!
//! The crate contains the Markdown files of the repository and renders them; it renders the reference from the OpenAPI document.
//! It knows no server: the gateway serves the pages, and the example `site` writes them to a folder.

mod guide;
mod highlight;
mod layout;
mod llms;
mod markdown;
mod reference;
mod search;
mod slug;
mod sources;

pub use guide::{Guide, images, missing_page, pages};
pub use layout::Site;
pub use llms::{llms, llms_full};
pub use reference::{Operation, linked, missing_guides, operations, render as reference};
pub use search::index as search_index;

/// Stylesheet of all pages.
pub const STYLE: &str = include_str!("style.css");
/// Script of all pages: search, menu, copying, and the reader's own credentials in examples.
pub const SCRIPT: &str = include_str!("script.js");
