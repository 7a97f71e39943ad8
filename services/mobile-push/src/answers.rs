use domain::Answer;
use worker::Verdict;
use worker::verdict::{AnswerDetails, presentable, row};

/// Length, in bytes, up to which an error code is recorded unchanged. Device tokens are longer, so no token is recorded.
const LONGEST_CODE: usize = 40;

pub(crate) struct ServiceReply<'a> {
    pub(crate) status: u16,
    /// Empty if the body has no error code.
    pub(crate) code: &'a str,
    pub(crate) words: &'a str,
    pub(crate) hints: AnswerDetails,
}

/// Removes the device token from the reply's texts. If no row of the table matches, the push is retried.
pub(crate) fn classify(
    table: &'static [(&'static str, Verdict)],
    service_reply: ServiceReply<'_>,
    token: &str,
) -> Answer {
    let verdict =
        row(table, service_reply.status, service_reply.code).map_or(Verdict::Retry, |(_, verdict)| *verdict);
    let is_word = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    let code = if service_reply.code.len() <= LONGEST_CODE && service_reply.code.bytes().all(is_word) {
        service_reply.code.to_owned()
    } else {
        presentable(service_reply.code, &[token])
    };
    let code = format!("{} {code}", service_reply.status);
    Answer::new(
        verdict.outcome(service_reply.hints),
        code.trim_end(),
        presentable(service_reply.words, &[token]),
    )
}
