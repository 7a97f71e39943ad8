//! Failures to send an email over SMTP.

use std::error::Error as _;

use lettre::transport::smtp::Error;

/// Stage of sending an email over SMTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// No usable connection yet: connecting, TLS, greeting, EHLO.
    Connect,
    /// AUTH.
    Login,
    /// MAIL.
    Mail,
    /// RCPT.
    Rcpt,
    /// DATA; no content was sent yet.
    Data,
    /// Content is being sent. From this stage on, the server may have accepted the email.
    Content,
}

/// Reply of a mail server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Basic code, such as 550.
    pub code: u16,
    /// Text, with its lines joined by spaces. It starts with the enhanced code if the server sent one.
    pub text: String,
}

/// Failure to send an email.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// All connections of the pool were in use until the time limit. The server was not called.
    Busy,
    /// The server has only private addresses, which the configuration forbids.
    Forbidden {
        /// The host, and the setting that would allow calling it.
        cause: String,
    },
    /// Requesting an access token failed.
    NoToken {
        /// True if the refusal is permanent, so that a retry would fail too.
        is_refused: bool,
        /// Error that the token endpoint returned, or the reason why the call failed.
        cause: String,
    },
    /// The server refused a command.
    Refused { stage: Stage, reply: Reply },
    /// The server lacks a feature that the login or the email needs.
    Unsupported {
        stage: Stage,
        /// The missing feature.
        what: &'static str,
    },
    /// The connection failed, was lost, or delivered an invalid reply.
    Broken { stage: Stage, cause: String },
    /// The server did not answer in time at this stage.
    TimedOut { stage: Stage },
}

/// Converts an error of the SMTP library. An error with a reply code is a refusal by the server.
pub(crate) fn failure(stage: Stage, error: &Error) -> Failure {
    match error.status() {
        Some(code) => {
            let text = error.source().map(ToString::to_string).unwrap_or_default();
            Failure::Refused { stage, reply: Reply { code: code.into(), text } }
        }
        None => Failure::Broken { stage, cause: error.to_string() },
    }
}
