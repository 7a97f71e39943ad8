//! The schema of the answer to a readiness probe. `service_kit` builds the answer.
#![expect(dead_code, reason = "these structs exist only for their schemas")]

use utoipa::ToSchema;

/// Answer to a readiness probe.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"ready": true, "notReady": []}))]
pub(crate) struct Readiness {
    /// False once the process is stopping.
    ready: bool,
    /// Unreachable servers, and `process` while the process is stopping.
    #[schema(inline)]
    not_ready: Vec<NotReady>,
}

/// A dependency that is not ready.
#[derive(ToSchema)]
struct NotReady {
    /// `database`, `log` or `process`.
    name: String,
    /// `unreachable`, `no answer in time` or `stopping`.
    reason: String,
}
