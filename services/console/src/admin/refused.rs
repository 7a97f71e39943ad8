//! Failures of the admin API.

use std::fmt::Display;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};
use domain::Role;
use operations::{Conflict, OperationError};
use serde::Serialize;
use utoipa::ToSchema;
use web::failure::Failure;

/// Reason why a call fails.
#[derive(Debug)]
pub(super) enum Refused {
    /// 403: the role of the token is too low. Contains the least role that suffices; None if no role does.
    Role {
        needs: Option<Role>,
        message: String,
    },
    Other(Failure),
}

/// The body of a 403.
#[derive(Serialize, ToSchema)]
#[schema(as = Forbidden, example = json!({
    "status": "error", "message": "the caller needs the role operator or a higher one", "code": "role_required", "needs": "operator",
}))]
pub(super) struct ForbiddenBody {
    #[schema(pattern = "^error$")]
    status: &'static str,
    /// One sentence about the cause.
    message: String,
    /// `role_required`, or `quota_reached`.
    code: &'static str,
    /// Least role that suffices; null if a higher role does not help.
    #[schema(value_type = Option<super::shape::Role>)]
    needs: Option<Role>,
}

impl Refused {
    pub(super) fn defect(error: &impl Display) -> Refused {
        Refused::Other(Failure::Defect(error.to_string()))
    }

    pub(super) fn response(self) -> HttpResponse {
        match self {
            Refused::Role { needs, message } => forbidden(message, "role_required", needs),
            Refused::Other(Failure::Refused { status: StatusCode::FORBIDDEN, code, message }) => {
                forbidden(message.into_owned(), code, None)
            }
            Refused::Other(failure) => failure.error_response(),
        }
    }
}

fn forbidden(message: String, code: &'static str, needs: Option<Role>) -> HttpResponse {
    HttpResponse::Forbidden().json(ForbiddenBody { status: "error", message, code, needs })
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused::Other(failure)
    }
}

impl From<OperationError> for Refused {
    fn from(error: OperationError) -> Refused {
        match error {
            OperationError::Denied(permission) => {
                Refused::Role { needs: permission.least_role(), message: error.to_string() }
            }
            OperationError::Conflict(Conflict::Changed | Conflict::TemplateChanged) => {
                let message =
                    "the object does not have the version in If-Match; read it again, and repeat the change";
                Refused::Other(Failure::refused(StatusCode::PRECONDITION_FAILED, "stale_version", message))
            }
            error => Refused::Other(error.into()),
        }
    }
}
