//! Errors of use cases.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use credentials::link::LinkError;
use credentials::secrets::SecretsError;
use credentials::signing::SigningKeyError;
use credentials::vapid::VapidError;
use domain::{Problem, profile};
use store::control::quota::Quota;

use crate::Permission;

/// Failure of a use case. Nothing was changed, unless the use case documents otherwise.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// The input is invalid; contains every problem.
    #[error("{}", domain::problem::joined(.0))]
    Invalid(Vec<Problem>),
    /// The object does not exist, or the caller may not know that it exists.
    #[error("the {0} does not exist")]
    NotFound(Object),
    /// The state of the installation does not allow the change.
    #[error("{0}")]
    Conflict(Conflict),
    /// The caller does not have this permission.
    #[error("{}", denied(*.0))]
    Denied(Permission),
    /// The secret of a device is wrong, or a caller with a proof has ended it.
    #[error("the device secret is wrong, or revoked by a call with a proof: send a bearer token of the user")]
    WrongDeviceSecret,
    /// A profile or a change to one is not allowed.
    #[error(transparent)]
    Profile(profile::Refusal),
    /// The app has reached a quota. An operator can raise it.
    #[error("the app has reached its quota of {0}")]
    Quota(Quota),
    /// The app has reached a quota of bytes per day.
    #[error("{message}")]
    Volume {
        /// One sentence for the caller that names the quota.
        message: String,
        /// Time until the app may add as many bytes.
        wait: Duration,
    },
    /// The event of the change exceeds the maximum message size of the log.
    #[error("the request is too large for the event log; split it")]
    TooLarge,
    /// The database is not available. A retry may help.
    #[error(transparent)]
    Unavailable(store::Error),
    /// The log or the time of the request does not suffice now. A retry may help.
    #[error("{cause}")]
    Later {
        /// One sentence for the caller.
        message: &'static str,
        /// Cause, for the log of the service only.
        cause: String,
    },
    /// An error of Tidings or of its configuration. A retry does not help.
    #[error(transparent)]
    Defect(Box<dyn Error + Send + Sync>),
}

/// A kind of object that may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    App,
    Provider,
    Template,
    TemplateVersion,
    SigningKey,
    Endpoint,
    Suppression,
    ParkedMessage,
    /// A redrive that the dispatcher makes page by page.
    Redrive,
    User,
    Request,
    CancellationKey,
    Topic,
    /// A topic to which users may subscribe themselves.
    OpenTopic,
    /// The subscription of a user to a topic.
    TopicSubscription,
    Category,
    /// An item of an inbox.
    Notification,
    /// The web-push subscription of a device.
    Subscription,
    PushToken,
    Delivery,
    /// The user or the category of a link.
    Link,
    /// A person who signs in to the console.
    Operator,
    /// A valid token of the admin API.
    Token,
    /// An identity of an operator at an OpenID provider.
    Identity,
    /// A role that an operator was given by hand.
    OperatorRole,
    /// A session of the operator who asks.
    Session,
    /// An address or token of a person.
    Target,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Object::App => "app",
            Object::Provider => "provider",
            Object::Template => "template",
            Object::TemplateVersion => "version of the template",
            Object::SigningKey => "signing key",
            Object::Endpoint => "endpoint",
            Object::Suppression => "suppression",
            Object::ParkedMessage => "parked message",
            Object::Redrive => "redrive",
            Object::User => "user",
            Object::Request => "request",
            Object::CancellationKey => "send with this cancellationKey",
            Object::Topic => "topic",
            Object::OpenTopic => "open topic",
            Object::TopicSubscription => "subscription of the user",
            Object::Category => "category",
            Object::Notification => "notification",
            Object::Subscription => "subscription",
            Object::PushToken => "push token",
            Object::Delivery => "delivery",
            Object::Link => "link",
            Object::Operator => "operator",
            Object::Token => "token",
            Object::Identity => "identity of the operator",
            Object::OperatorRole => "role of the operator",
            Object::Session => "session",
            Object::Target => "target",
        })
    }
}

/// A reason why the state of the installation does not allow a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Another object has the name.
    NameTaken,
    /// The app has the maximum number of signing keys.
    TooManySigningKeys,
    /// The app has the maximum number of webhook endpoints.
    TooManyEndpoints,
    /// The endpoint is disabled.
    EndpointDisabled,
    /// The idempotency key was used with another body.
    IdempotencyKeyReused,
    UserExists,
    CategoryExists,
    TopicExists,
    /// Users may not subscribe themselves to the topic.
    TopicClosed,
    /// The preview of a redrive is too old.
    PreviewExpired,
    /// An unfinished redrive may select the same messages.
    RedriveOverlaps,
    RedriveEnded,
    /// The redrive is in this state already.
    RedriveUnchanged,
    /// Another version of the template was added since the caller read it.
    TemplateChanged,
    /// The object has another version than the one that the caller saw.
    Changed,
    /// No enabled operator would be left with the role admin in all apps.
    LastAdministrator,
    /// The operator has another role than the form showed.
    RoleOvertaken,
    /// The person has another target than the form showed.
    TargetOvertaken,
}

impl Conflict {
    /// Conflicts that programs can meet.
    const OF_PROGRAMS: [Conflict; 9] = [
        Conflict::NameTaken,
        Conflict::TooManySigningKeys,
        Conflict::TooManyEndpoints,
        Conflict::EndpointDisabled,
        Conflict::PreviewExpired,
        Conflict::RedriveOverlaps,
        Conflict::RedriveEnded,
        Conflict::RedriveUnchanged,
        Conflict::LastAdministrator,
    ];

    /// Returns the conflict with this code, if an operator's program can meet it.
    #[must_use]
    pub fn of_code(code: &str) -> Option<Conflict> {
        Conflict::OF_PROGRAMS.into_iter().find(|conflict| conflict.code() == code)
    }

    /// Stable code for programs.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Conflict::NameTaken => "name_taken",
            Conflict::TooManySigningKeys => "too_many_signing_keys",
            Conflict::TooManyEndpoints => "too_many_endpoints",
            Conflict::EndpointDisabled => "endpoint_disabled",
            Conflict::IdempotencyKeyReused => "idempotency_key_reused",
            Conflict::UserExists => "user_exists",
            Conflict::CategoryExists => "category_exists",
            Conflict::TopicExists => "topic_exists",
            Conflict::TopicClosed => "topic_closed",
            Conflict::PreviewExpired => "preview_expired",
            Conflict::RedriveOverlaps => "redrive_overlaps",
            Conflict::RedriveEnded => "redrive_ended",
            Conflict::RedriveUnchanged => "redrive_unchanged",
            Conflict::TemplateChanged => "template_changed",
            Conflict::Changed => "changed",
            Conflict::LastAdministrator => "last_administrator",
            Conflict::RoleOvertaken => "role_overtaken",
            Conflict::TargetOvertaken => "target_overtaken",
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Conflict::NameTaken => "the name is taken",
            Conflict::TooManySigningKeys => "the app has the maximum number of signing keys",
            Conflict::TooManyEndpoints => "the app has the maximum number of endpoints",
            Conflict::EndpointDisabled => "the endpoint is disabled",
            Conflict::UserExists => "a user with this identifier already exists",
            Conflict::CategoryExists => "a category with this identifier already exists",
            Conflict::TopicExists => "a topic with this identifier already exists",
            Conflict::TopicClosed => "the topic is not open",
            Conflict::PreviewExpired => "the preview is older than 15 minutes; open it again",
            Conflict::RedriveOverlaps => "another redrive that is not finished may select the same messages",
            Conflict::RedriveEnded => "the redrive has ended",
            Conflict::RedriveUnchanged => "the redrive is in this state already",
            Conflict::TemplateChanged => {
                "another version of the template was published meanwhile; open the page again"
            }
            Conflict::Changed => "it was changed or removed since the page was opened; open it again",
            Conflict::LastAdministrator => {
                "no other enabled operator is an administrator of all apps by hand; make another one an administrator first"
            }
            Conflict::RoleOvertaken => "the role was changed meanwhile; open the page again",
            Conflict::TargetOvertaken => "the targets of the person were changed meanwhile; open the page again",
            Conflict::IdempotencyKeyReused => {
                "the Idempotency-Key was used with another body within 24 hours"
            }
        })
    }
}

fn denied(permission: Permission) -> String {
    match permission.least_role() {
        Some(role) => format!("the caller needs the role {role} or a higher one"),
        None => "the caller does not act for the owner of the data".to_owned(),
    }
}

impl OperationError {
    pub(crate) fn later(message: &'static str, cause: impl fmt::Display) -> OperationError {
        OperationError::Later { message, cause: cause.to_string() }
    }

    /// Creates the error for a caller that already uses its whole share of the waiting requests.
    pub(crate) fn crowded() -> OperationError {
        OperationError::later(
            "too many requests are being served; repeat this one",
            "no room for another request",
        )
    }

    pub(crate) fn defect(error: impl Error + Send + Sync + 'static) -> OperationError {
        OperationError::Defect(Box::new(error))
    }
}

impl From<store::Error> for OperationError {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Refused(refusal) => OperationError::Profile(refusal),
            store::Error::QuotaReached(quota) => OperationError::Quota(quota),
            error if error.is_unavailable() => OperationError::Unavailable(error),
            error if error.is_overtaken() => OperationError::later(
                "the resource was removed while the request was served; repeat the request",
                error,
            ),
            // A newer release wrote the row. During an upgrade, a process of that release may serve the retry.
            error if error.is_unreadable() => {
                OperationError::later("a newer release wrote the resource; repeat the request", error)
            }
            error => OperationError::defect(error),
        }
    }
}

impl From<LinkError> for OperationError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Store(error) => error.into(),
            error => OperationError::Defect(Box::new(error)),
        }
    }
}

impl From<SigningKeyError> for OperationError {
    fn from(error: SigningKeyError) -> Self {
        match error {
            SigningKeyError::Store(error) => error.into(),
            SigningKeyError::Secrets(error) => error.into(),
        }
    }
}

impl From<VapidError> for OperationError {
    fn from(error: VapidError) -> Self {
        match error {
            VapidError::Store(error) => error.into(),
            VapidError::Secrets(error) => error.into(),
        }
    }
}

impl From<SecretsError> for OperationError {
    fn from(error: SecretsError) -> Self {
        OperationError::Defect(Box::new(error))
    }
}
