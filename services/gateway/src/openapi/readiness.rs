//! The answer to a readiness probe, which `service_kit` makes.
#![expect(dead_code, reason = "these structs stand for their schemas alone")]

use utoipa::ToSchema;

/// Whether requests may come here.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"ready": true, "notReady": []}))]
pub(crate) struct Readiness {
    ready: bool,
    /// What is in the way.
    #[schema(inline)]
    not_ready: Vec<NotReady>,
}

/// One thing in the way.
#[derive(ToSchema)]
struct NotReady {
    /// `database`, `log` or `process`.
    name: String,
    /// `unreachable`, `no answer in time` or `stopping`.
    reason: String,
}
