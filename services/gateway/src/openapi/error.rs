//! The bodies of errors.
#![expect(dead_code, reason = "these structs exist only for their schemas")]

use utoipa::ToSchema;

/// The body of a 400. `errors` lists every problem; `message` contains only the messages of these problems.
#[derive(ToSchema)]
#[schema(example = json!({
    "status": "error",
    "message": ["notification is required"],
    "errors": [{"field": "notification", "code": "required", "message": "notification is required"}],
}))]
pub(crate) struct Problems {
    #[schema(pattern = "^error$")]
    status: String,
    message: Vec<String>,
    errors: Vec<Problem>,
}

/// One problem of a request.
#[derive(ToSchema)]
pub(crate) struct Problem {
    /// Path of the member, such as `sendTo.recipients[3]`, or the name of a parameter or header; empty for the whole body.
    field: String,
    /// Stable code, such as `too_long`.
    code: String,
    /// One sentence that names the field and the fix.
    message: String,
}

/// The body of every error except 400 and 500.
#[derive(ToSchema)]
#[schema(as = Error, example = json!({"status": "error", "message": "no such notification", "code": "not_found"}))]
pub(crate) struct Refusal {
    #[schema(pattern = "^error$")]
    status: String,
    /// One sentence about the cause.
    message: String,
    /// Stable code, such as `not_found`.
    code: String,
}

/// The body of a 500.
#[derive(ToSchema)]
#[schema(example = json!({
    "status": "error",
    "message": "internal error",
    "code": "internal",
    "errorId": "018f3c6e-7d1a-7cc2-b3a4-9a1f0f6f2b11",
}))]
#[schema(rename_all = "camelCase")]
pub(crate) struct Defect {
    #[schema(pattern = "^error$")]
    status: String,
    message: String,
    code: String,
    /// Id of this error in the service's log, where the cause is recorded.
    #[schema(format = "uuid")]
    error_id: String,
}
