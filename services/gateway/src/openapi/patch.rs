//! Changes to a profile.
#![expect(dead_code, reason = "these structs exist only for their schemas")]

use utoipa::ToSchema;

use crate::openapi::user::Profile;

/// Key-value pairs to merge into the profile, or a JSON Patch.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum ProfileChange {
    Pairs(Profile),
    Patch(JsonPatch),
}

/// A JSON Patch (RFC 6902): at most 1,000 operations with the API secret, otherwise 100. The number of operations times the
/// size of the profile in bytes must not exceed 1 MiB.
#[derive(ToSchema)]
#[schema(max_items = 1000, example = json!([
    {"op": "test", "path": "/plan", "value": "free"},
    {"op": "replace", "path": "/plan", "value": "pro"},
    {"op": "remove", "path": "/fcm/tokens/0"},
]))]
pub(crate) struct JsonPatch(Vec<PatchOperation>);

/// An operation of a JSON Patch.
#[derive(ToSchema)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(crate) enum PatchOperation {
    Add { path: Pointer, value: serde_json::Value },
    Remove { path: Pointer },
    Replace { path: Pointer, value: serde_json::Value },
    Move { from: Pointer, path: Pointer },
    Copy { from: Pointer, path: Pointer },
    Test { path: Pointer, value: serde_json::Value },
}

/// A JSON Pointer (RFC 6901).
#[derive(ToSchema)]
#[schema(pattern = "^(/([^~]|~[01])*)?$", example = "/plan")]
pub(crate) struct Pointer(String);
