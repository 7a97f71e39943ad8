use domain::{Answer, Reason};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LetterError {
    #[error("the target is not an email address")]
    Address,
    #[error("a recipient in cc or bcc is not an email address")]
    Copy,
    #[error(
        "from, fromName or replyTo of the send is not text, not an address, too long or has a line break"
    )]
    Sender,
    #[error("the provider does not allow this sender: add its address or @domain to settings.allowedFrom")]
    SenderNotAllowed,
    #[error("the subject contains CR, LF or NUL")]
    Subject,
    /// A header of the send is reserved, or its value could inject further headers.
    #[error("a header of the send is not allowed")]
    Header,
    #[error("the name of an attachment contains CR, LF or NUL")]
    AttachmentName,
    #[error("the contentId of an attachment is not one that a header can contain")]
    ContentId,
    #[error("the content has neither text nor HTML")]
    Empty,
    #[error("the send overrides a reserved member of the provider's request")]
    Member,
    #[error("the message cannot be built")]
    Build,
}

impl LetterError {
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
        let reason = match error {
            LetterError::Address => Reason::InvalidAddress,
            LetterError::SenderNotAllowed => Reason::SenderNotAllowed,
            _ => Reason::InvalidContent,
        };
        Answer::refused(reason, error.code(), error.to_string())
    }
}
