//! `override.channel.sms`.

use super::MAX_SENDER;
use crate::Problem;
use crate::body::kind::{Line, Text};
use crate::overrides::SmsOverride;
use crate::request::MAX_MESSAGE;
use crate::sms::segment::{MOST_SEGMENTS, SegmentedText};
use crate::sms::sender::{SENDER, is_sender};

crate::body! {
    /// Overrides for SMS.
    pub(super) struct SmsBody as "SmsOverride" {
        optional text: Text<MAX_MESSAGE>,
        /// Sender instead of the one in the provider's settings.
        optional from: Line<MAX_SENDER>,
    }
}

impl SmsBody {
    pub(super) fn read(mut self, strict: bool, problems: &mut Vec<Problem>) -> SmsOverride {
        let text = self.text(problems);
        let from = self.from(problems);
        if let Some(text) = &text {
            let path = self.fields.path("text");
            if text.trim().is_empty() {
                problems.push(Problem::new(&path, "empty", format!("{path} must not be blank")));
            } else if SegmentedText::of(text).parts.len() > MOST_SEGMENTS {
                let message = format!("{path} has more than {MOST_SEGMENTS} segments");
                problems.push(Problem::new(&path, "too_long", message));
            }
        }
        if from.as_deref().is_some_and(|from| !is_sender(from)) {
            let path = self.fields.path("from");
            problems.push(Problem::new(&path, "invalid_sender", format!("{path} {SENDER}")));
        }
        self.fields.finish(strict, problems);
        SmsOverride { text, from }
    }
}
