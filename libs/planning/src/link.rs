//! Checks links after rendering, because variables can decide what a link contains.

use domain::link::{is_icon, is_link};

/// The error names the refused link: `the icon` or `the url`.
pub(crate) fn check(icon: Option<&str>, url: Option<&str>) -> Result<(), &'static str> {
    if !icon.is_none_or(is_icon) {
        return Err("the icon");
    }
    if !url.is_none_or(is_link) {
        return Err("the url");
    }
    Ok(())
}
