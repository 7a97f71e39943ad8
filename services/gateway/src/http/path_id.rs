//! The id in a path: what stands where its pattern says `{id}`, or `{id:…}` for an id of some form.

use std::future::{Ready, ready};
use std::str::FromStr;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use domain::fields::check_identifier;
use domain::{CategoryId, ItemId, SendId};
use percent_encoding::percent_decode_str;

use crate::http::failure::{Failure, sound};

const PLACE: &str = "{id";

/// The id in a path, not checked before it is asked for. It is taken from the path as it was sent and decoded once,
/// so that `%2F` stays part of it.
pub(crate) struct PathId {
    text: Option<String>,
}

impl FromRequest for PathId {
    type Error = Failure;
    type Future = Ready<Result<PathId, Failure>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let pattern = request.match_pattern();
        let place =
            pattern.and_then(|pattern| pattern.split('/').position(|segment| segment.starts_with(PLACE)));
        let segment = place.and_then(|place| request.uri().path().split('/').nth(place));
        let text = segment.and_then(|text| percent_decode_str(text).decode_utf8().ok());
        ready(Ok(PathId { text: text.map(|text| text.into_owned()) }))
    }
}

impl PathId {
    /// As a user's identifier.
    pub(crate) fn user(self) -> Result<String, Failure> {
        self.identifier("identifier")
    }

    /// As a client's own name of a device.
    pub(crate) fn device(self) -> Result<String, Failure> {
        self.identifier("deviceId")
    }

    fn identifier(self, name: &'static str) -> Result<String, Failure> {
        let Some(text) = self.text else {
            return Err(Failure::problem(name, "invalid_character", format!("{name} must be UTF-8")));
        };
        let mut problems = Vec::new();
        sound(check_identifier(name, text, &mut problems), problems)
    }

    /// As a notification's id.
    pub(crate) fn item(&self) -> Result<ItemId, Failure> {
        self.number()
    }

    /// As a category's id.
    pub(crate) fn category(&self) -> Result<CategoryId, Failure> {
        self.number()
    }

    fn number<Id: FromStr>(&self) -> Result<Id, Failure> {
        let id = self.text.as_deref().and_then(|text| text.parse().ok());
        id.ok_or_else(|| Failure::problem("id", "invalid_number", "id must be a whole number"))
    }

    /// As the token of a link.
    pub(crate) fn token(self) -> Option<String> {
        self.text
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
