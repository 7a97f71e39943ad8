//! Requests about users.
#![expect(dead_code, reason = "these structs stand for their schemas alone")]

use utoipa::ToSchema;

use crate::openapi::vocabulary::{FreeObject, Identifier};

/// A user to create.
#[derive(ToSchema)]
#[schema(example = json!({"identifier": "ada", "profile": {"email": "ada@example.com", "name": "Ada"}}))]
pub(crate) struct NewUser {
    #[schema(value_type = Identifier)]
    identifier: String,
    #[schema(value_type = Option<Profile>)]
    profile: Option<FreeObject>,
}

/// Users to create or to merge: the array alone, or in an object.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(example = json!({"users": [{"identifier": "ada", "profile": {"name": "Ada"}}, {"identifier": "bob"}]}))]
pub(crate) enum ManyUsers {
    Object(UsersObject),
    Array(UsersArray),
}

#[derive(ToSchema)]
pub(crate) struct UsersObject {
    users: UsersArray,
}

/// At most 1,000 users.
#[derive(ToSchema)]
#[schema(max_items = 1000)]
pub(crate) struct UsersArray(Vec<NewUser>);

/// Pairs of a profile, of which these mean something to the service. `null` is a value like any other; at most 64 KiB
/// in all.
#[derive(ToSchema)]
#[schema(
    rename_all = "camelCase",
    example = json!({"email": "ada@example.com", "phoneNumber": "+4915112345678", "name": "Ada"})
)]
pub(crate) struct Profile {
    /// The address of the channel `email`.
    email: Option<String>,
    /// The number of the channel `sms`, as E.164.
    phone_number: Option<String>,
    /// The same by another name.
    phone: Option<String>,
    /// Tokens of Firebase Cloud Messaging, for `mobilePush`.
    #[schema(inline)]
    fcm: Option<Tokens>,
    /// Tokens of Apple's push service, for `mobilePush`.
    #[schema(inline)]
    apns: Option<Tokens>,
}

/// Push tokens.
#[derive(ToSchema)]
pub(crate) struct Tokens {
    /// Every token. They are united with those that are there.
    tokens: Option<Vec<String>>,
    /// One more token.
    token: Option<String>,
}
