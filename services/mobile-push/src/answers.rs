//! Classification of the replies of APNs and FCM by their tables.

use domain::Answer;
use worker::Verdict;
use worker::verdict::{AnswerDetails, presentable, row};

/// Maximum length of an error code that is recorded unchanged, in bytes. Device tokens are longer, so no token is
/// recorded.
const LONGEST_CODE: usize = 40;

/// Reply of a push service.
pub(crate) struct ServiceReply<'a> {
    pub(crate) status: u16,
    /// The service's error code; empty if the body has none.
    pub(crate) code: &'a str,
    pub(crate) words: &'a str,
    pub(crate) hints: AnswerDetails,
}

/// Looks up the verdict on a reply, and removes the device token from the reply's texts. If no row of the table
/// matches, the push is retried.
pub(crate) fn judge(
    table: &'static [(&'static str, Verdict)],
    said: ServiceReply<'_>,
    token: &str,
) -> Answer {
    let verdict = row(table, said.status, said.code).map_or(Verdict::Retry, |(_, verdict)| *verdict);
    let is_word = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    let code = if said.code.len() <= LONGEST_CODE && said.code.bytes().all(is_word) {
        said.code.to_owned()
    } else {
        presentable(said.code, &[token])
    };
    let code = format!("{} {code}", said.status);
    Answer::new(verdict.outcome(said.hints), code.trim_end(), presentable(said.words, &[token]))
}
