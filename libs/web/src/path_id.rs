//! Ids in request paths. The pattern of a route marks the segment of the id with `{id}`.

use std::future::{Ready, ready};
use std::str::FromStr;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use domain::fields::check_identifier;
use domain::topic::check_topic_identifier;
use domain::{CategoryId, ItemId, SendId};
use percent_encoding::percent_decode_str;

use crate::failure::{Failure, valid_or_problems};

const PLACE: &str = "{id";
/// Start of the segment of a user in a path that also has an id.
const USER_PLACE: &str = "{user";

/// Id in a path, not validated yet. The path is split at slashes before the id is percent-decoded, so that an id may contain a
/// slash, sent as `%2F`.
pub struct PathId {
    text: Option<String>,
}

impl FromRequest for PathId {
    type Error = Failure;
    type Future = Ready<Result<PathId, Failure>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(PathId::at(request, PLACE)))
    }
}

/// Identifier of a user in a path that also has a [`PathId`].
pub struct PathUser(PathId);

impl FromRequest for PathUser {
    type Error = Failure;
    type Future = Ready<Result<PathUser, Failure>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(PathUser(PathId::at(request, USER_PLACE))))
    }
}

impl PathUser {
    /// Returns the identifier; 400 if it is invalid.
    pub fn identifier(self) -> Result<String, Failure> {
        self.0.user()
    }
}

impl PathId {
    fn at(request: &HttpRequest, start: &str) -> PathId {
        let pattern = request.match_pattern();
        let place =
            pattern.and_then(|pattern| pattern.split('/').position(|segment| segment.starts_with(start)));
        let segment = place.and_then(|place| request.uri().path().split('/').nth(place));
        let text = segment.and_then(|text| percent_decode_str(text).decode_utf8().ok());
        PathId { text: text.map(|text| text.into_owned()) }
    }

    /// Parses the id as a user's identifier; 400 if it is invalid.
    pub fn user(self) -> Result<String, Failure> {
        self.identifier("identifier")
    }

    /// Parses the id as the identifier that a client chose for a device; 400 if it is invalid.
    pub fn device(self) -> Result<String, Failure> {
        self.identifier("deviceId")
    }

    /// Parses the id as the identifier of a topic; 400 if it is invalid.
    pub fn topic(self) -> Result<String, Failure> {
        let mut problems = Vec::new();
        let topic = check_topic_identifier("topic", self.text.unwrap_or_default(), &mut problems);
        valid_or_problems(topic, problems)
    }

    /// Parses the id as the identifier of a workflow; 400 if it is invalid.
    pub fn workflow(self) -> Result<String, Failure> {
        self.identifier("identifier")
    }

    /// Parses the id as the identifier of a category; 400 if it is invalid.
    pub fn category_identifier(self) -> Result<String, Failure> {
        self.identifier("id")
    }

    fn identifier(self, name: &'static str) -> Result<String, Failure> {
        let Some(text) = self.text else {
            return Err(Failure::problem(name, "invalid_character", format!("{name} must be UTF-8")));
        };
        let mut problems = Vec::new();
        valid_or_problems(check_identifier(name, text, &mut problems), problems)
    }

    /// Parses the id as the id of a notification; 400 if it is not a whole number.
    pub fn item(&self) -> Result<ItemId, Failure> {
        self.number()
    }

    /// Parses the id as the id of a category; 400 if it is not a whole number.
    pub fn category(&self) -> Result<CategoryId, Failure> {
        self.number()
    }

    fn number<Id: FromStr>(&self) -> Result<Id, Failure> {
        let id = self.text.as_deref().and_then(|text| text.parse().ok());
        id.ok_or_else(|| Failure::problem("id", "invalid_number", "id must be a whole number"))
    }

    /// Returns the id as the token of a link in a message; None if it is not UTF-8.
    pub fn token(self) -> Option<String> {
        self.text
    }

    /// Parses the id as the id of a request; 404 if it is not a UUID.
    pub fn request(&self) -> Result<SendId, Failure> {
        let id = self.text.as_deref().and_then(|text| text.parse().ok());
        id.ok_or_else(no_such_request)
    }
}

/// Creates the 404 for an unknown topic.
pub fn no_such_topic() -> Failure {
    Failure::not_found("no such topic")
}

/// Creates the 404 for an unknown request.
pub fn no_such_request() -> Failure {
    Failure::not_found("no such request")
}
