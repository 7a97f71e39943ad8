//! Requests about users.
#![expect(dead_code, reason = "these structs exist only for their schemas")]

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

/// Users to create or merge: an array, or an object with the array in `users`.
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

/// Key-value pairs of a profile, at most 64 KiB in total. Any key is allowed; the service itself uses the keys listed here.
/// `null` is stored like any other value.
#[derive(ToSchema)]
#[schema(
    rename_all = "camelCase",
    example = json!({"email": "ada@example.com", "phoneNumber": "+4915112345678", "name": "Ada"})
)]
pub(crate) struct Profile {
    /// Address for the channel `email`.
    email: Option<String>,
    /// Phone number for the channel `sms`, in E.164 format.
    phone_number: Option<String>,
    /// Alias of `phoneNumber`.
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
    /// Tokens to add to those that the profile already has.
    tokens: Option<Vec<String>>,
    /// One token to add.
    token: Option<String>,
}
