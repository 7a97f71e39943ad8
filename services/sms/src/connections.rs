use domain::content::SmsContent;
use domain::sms::segment::SegmentedText;
use domain::{Answer, Outcome};
use tokio::sync::mpsc;
use worker::ChannelResources;
use worker::exchange::Caller;

use crate::keywords::KeywordMessage;
use crate::limits::Limits;
use crate::recorder::Receipt;
use crate::smpp::sessions::Sessions;

pub struct Connections {
    pub(crate) caller: Caller,
    pub(crate) public_url: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) sessions: Sessions,
    pub(crate) receipts: mpsc::Sender<Receipt>,
    pub(crate) keywords: mpsc::Sender<KeywordMessage>,
}

impl ChannelResources for Connections {
    type Input<'a> = &'a SmsContent;
}

/// Adds the number of segments to the answer if the message was accepted or may have been accepted.
pub(crate) fn counted(answer: Answer, segments: &SegmentedText<'_>) -> Answer {
    match answer.outcome {
        Outcome::Sent { .. } | Outcome::Unknown | Outcome::Repeat { .. } => {
            Answer { segments: Some(segments.count()), ..answer }
        }
        _ => answer,
    }
}
