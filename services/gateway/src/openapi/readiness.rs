//! The answer to a readiness probe, which `service_kit` makes.
#![expect(dead_code, reason = "these structs stand for their schemas alone")]

use utoipa::ToSchema;

/// Answer to a readiness probe.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"ready": true, "notReady": []}))]
pub(crate) struct Readiness {
    /// False once the process is stopping.
    ready: bool,
    /// Servers that are away, and `process` while it stops.
    #[schema(inline)]
    not_ready: Vec<NotReady>,
}

/// One thing that does not work.
#[derive(ToSchema)]
struct NotReady {
    /// `database`, `log` or `process`.
    name: String,
    /// `unreachable`, `no answer in time` or `stopping`.
    reason: String,
}
