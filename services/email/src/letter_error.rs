//! Errors of content that cannot become an email.

use domain::{Answer, Outcome};

/// Content that cannot become an email.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LetterError {
    /// The target is not an address.
    #[error("the target is not an email address")]
    Address,
    /// A cc or bcc recipient is not an address.
    #[error("a recipient in cc or bcc is not an email address")]
    Copy,
    /// The send has an invalid sender.
    #[error(
        "from, fromName or replyTo of the send is not text, not an address, too long or has a line break"
    )]
    Sender,
    /// The send has a sender that the provider's settings do not allow.
    #[error("the provider does not allow this sender: add its address or @domain to settings.allowedFrom")]
    SenderNotAllowed,
    /// The subject would inject headers.
    #[error("the subject contains CR, LF or NUL")]
    Subject,
    /// A header of the send is reserved, or would inject others.
    #[error("a header of the send is not allowed")]
    Header,
    /// The name of an attachment would inject headers.
    #[error("the name of an attachment contains CR, LF or NUL")]
    AttachmentName,
    /// Neither text nor HTML.
    #[error("the content has neither text nor HTML")]
    Empty,
    /// The send overrides a reserved member of the provider's request.
    #[error("the send overrides a reserved member of the provider's request")]
    Member,
    /// The message could not be built.
    #[error("the message cannot be built")]
    Build,
}

impl LetterError {
    /// Code that is recorded for the attempt.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            LetterError::Address => "address",
            LetterError::Member => "override",
            LetterError::SenderNotAllowed => "sender_not_allowed",
            _ => "content",
        }
    }
}

impl From<LetterError> for Answer {
    fn from(error: LetterError) -> Answer {
        Answer::new(Outcome::Failed, error.code(), error.to_string())
    }
}
