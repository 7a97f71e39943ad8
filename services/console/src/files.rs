//! The stylesheet, the scripts and the icon.

use std::io;

use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpRequest, HttpResponse};
use credentials::secrets::sha256;
use web::file::File;

const STYLE: &str = include_str!("../assets/console.css");
const SCRIPT: &str = include_str!("../assets/console.js");
/// Script of the editor of a template.
const EDITOR: &str = include_str!("../assets/editor.js");
const ICON: &str = include_str!("../assets/icon.svg");

pub(crate) struct Files {
    files: [(&'static str, File); 4],
    /// Changes with every change of a file. It is part of their URLs, so that browsers may keep them.
    pub(crate) version: String,
}

impl Files {
    pub(crate) fn new() -> io::Result<Files> {
        let digest = sha256([STYLE, SCRIPT, EDITOR, ICON].concat().as_bytes());
        Ok(Files {
            files: [
                ("console.css", File::new("text/css; charset=utf-8", STYLE)?),
                ("console.js", File::new("text/javascript; charset=utf-8", SCRIPT)?),
                ("editor.js", File::new("text/javascript; charset=utf-8", EDITOR)?),
                ("icon.svg", File::new("image/svg+xml", ICON)?),
            ],
            version: digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect(),
        })
    }

    pub(crate) fn answer(&self, name: &str, request: &HttpRequest) -> Option<HttpResponse> {
        let (_, file) = self.files.iter().find(|(known, _)| *known == name)?;
        Some(file.answer(request, &[(CACHE_CONTROL, "public, max-age=31536000, immutable")]))
    }
}
