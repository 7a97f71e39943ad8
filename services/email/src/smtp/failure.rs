use std::fmt;

use super::reply::Reply;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Connect,
    Login,
    Mail,
    Rcpt,
    /// DATA; no content was sent yet.
    Data,
    /// Content is being sent, but not the final dot, so the server has not accepted the email.
    Content,
    /// The final dot was sent. The server may have accepted the email.
    Dot,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// All connections of the pool were in use until the time limit. The server was not called.
    Busy,
    /// The claim of the delivery ended, or the process stops, and the email was not sent up to its final dot.
    Abandoned,
    /// The server has only private addresses, which the configuration forbids.
    Forbidden {
        /// The host, and the setting that would allow calling it.
        cause: String,
    },
    /// Requesting an access token failed.
    NoToken {
        /// True if the refusal is permanent, so that a retry would fail too.
        is_refused: bool,
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
    /// The connection failed, was lost, or delivered something that is not the reply to a command.
    Broken { stage: Stage, cause: String },
    /// The server did not answer in time at this stage.
    TimedOut { stage: Stage },
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Connect => "the connection",
            Stage::Login => "AUTH",
            Stage::Mail => "MAIL",
            Stage::Rcpt => "RCPT",
            Stage::Data => "DATA",
            Stage::Content => "the content",
            Stage::Dot => "the final dot",
        })
    }
}

impl Reply {
    /// Fails for any code but 2xx: 4xx and 5xx are a refusal, others a broken conversation.
    pub(crate) fn success(self, stage: Stage) -> Result<Reply, Failure> {
        match self.code {
            200..300 => Ok(self),
            _ => Err(self.failure(stage)),
        }
    }

    /// Fails for any code but 3xx, as [`success`](Self::success) does.
    pub(crate) fn go_on(self, stage: Stage) -> Result<Reply, Failure> {
        match self.code {
            300..400 => Ok(self),
            _ => Err(self.failure(stage)),
        }
    }

    fn failure(self, stage: Stage) -> Failure {
        match self.code {
            400..600 => Failure::Refused { stage, reply: self },
            code => Failure::Broken { stage, cause: format!("unexpected answer {code} to {stage}") },
        }
    }
}
