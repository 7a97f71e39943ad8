//! The id in a path: the third segment of every path that has one.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use domain::fields::check_identifier;
use domain::{ItemId, SendId};
use percent_encoding::percent_decode_str;

use crate::http::failure::{Failure, sound};

/// `/v3/{collection}/{id}`
const SEGMENT: usize = 3;

/// The id in a path, not checked before it is asked for. It is taken from the path as it was sent and decoded once,
/// so that `%2F` stays part of it.
pub(crate) struct PathId {
    text: Option<String>,
}

impl FromRequest for PathId {
    type Error = Failure;
    type Future = Ready<Result<PathId, Failure>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let segment = request.uri().path().split('/').nth(SEGMENT);
        let text = segment.and_then(|text| percent_decode_str(text).decode_utf8().ok());
        ready(Ok(PathId { text: text.map(|text| text.into_owned()) }))
    }
}

impl PathId {
    /// As a user's identifier.
    pub(crate) fn user(self) -> Result<String, Failure> {
        let Some(text) = self.text else {
            return Err(Failure::problem("identifier", "invalid_character", "identifier must be UTF-8"));
        };
        let mut problems = Vec::new();
        sound(check_identifier("identifier", text, &mut problems), problems)
    }

    /// As a notification's id.
    pub(crate) fn item(&self) -> Result<ItemId, Failure> {
        let id = self.text.as_deref().and_then(|text| text.parse().ok());
        id.ok_or_else(|| Failure::problem("id", "invalid_number", "id must be a whole number"))
    }

    /// As a request's id. What is none is the id of no request.
    pub(crate) fn request(&self) -> Result<SendId, Failure> {
        let id = self.text.as_deref().and_then(|text| text.parse().ok());
        id.ok_or_else(no_such_request)
    }
}

/// 404 for a request.
pub(crate) fn no_such_request() -> Failure {
    Failure::not_found("no such request")
}
