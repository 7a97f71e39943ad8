//! Failures to send a message over SMTP.

use std::error::Error as _;

use lettre::transport::smtp::Error;

/// Stage of an exchange.
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
    /// DATA; no content was sent.
    Data,
    /// Content is being sent: from here on the server may have accepted the message.
    Content,
}

/// Reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Basic code, such as 550.
    pub code: u16,
    /// Text with lines joined by spaces; starts with the enhanced code, if any.
    pub text: String,
}

/// Failure to send a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// All allowed connections stayed in use; the server was not called.
    Busy,
    /// The server's addresses must not be called.
    Forbidden {
        /// The addresses, and the setting that would allow them.
        cause: String,
    },
    /// No access token is available.
    NoToken {
        /// True if the token endpoint refused permanently.
        is_refused: bool,
        /// Error of the token endpoint, or of the call.
        cause: String,
    },
    /// The server refused a command.
    Refused { stage: Stage, reply: Reply },
    /// The server lacks a feature that the exchange needs.
    Unsupported {
        stage: Stage,
        /// The missing feature.
        what: &'static str,
    },
    /// The connection failed, was lost, or delivered an invalid reply.
    Broken { stage: Stage, cause: String },
    /// A part of the exchange timed out.
    TimedOut { stage: Stage },
}

/// Converts an error of the library.
pub(crate) fn failure(stage: Stage, error: &Error) -> Failure {
    match error.status() {
        Some(code) => {
            let text = error.source().map(ToString::to_string).unwrap_or_default();
            Failure::Refused { stage, reply: Reply { code: code.into(), text } }
        }
        None => Failure::Broken { stage, cause: error.to_string() },
    }
}
