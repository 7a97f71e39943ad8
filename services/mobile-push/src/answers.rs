//! Look-up in the answer tables of the services.

use domain::{Answer, Outcome};
use worker::Verdict;
use worker::verdict::{Hints, fits, presentable};

/// HTTP status (`x` stands for any digit), the service's own code (`*` for any), and what they mean.
pub type Row = (&'static str, &'static str, Verdict);

/// The longest code that a service gives, in bytes; no token is so short.
const LONGEST_CODE: usize = 40;

/// The row that decides: the first that fits.
#[must_use]
pub fn row(table: &'static [Row], status: u16, code: &str) -> Option<&'static Row> {
    let status = status.to_string();
    table.iter().find(|(pattern, named, _)| fits(pattern, &status) && (*named == "*" || *named == code))
}

/// Reply of a service.
pub(crate) struct ServiceReply<'a> {
    pub(crate) status: u16,
    /// Its own code, empty where it gave none.
    pub(crate) code: &'a str,
    pub(crate) words: &'a str,
    pub(crate) hints: Hints,
}

/// The answer of a table to what was said, without the token in it.
pub(crate) fn judge(table: &'static [Row], said: ServiceReply<'_>, token: &str) -> Answer {
    let verdict = row(table, said.status, said.code).map_or(Verdict::Retry, |(_, _, verdict)| *verdict);
    let is_word = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    let code = if said.code.len() <= LONGEST_CODE && said.code.bytes().all(is_word) {
        said.code.to_owned()
    } else {
        presentable(said.code, &[token])
    };
    let code = format!("{} {code}", said.status);
    Answer::new(verdict.outcome(said.hints), code.trim_end(), presentable(said.words, &[token]))
}

/// An answer for which the service was not asked.
pub(crate) fn ours(outcome: Outcome, code: &str, message: impl Into<String>) -> Answer {
    Answer::new(outcome, code, message)
}

/// Problems in one line.
pub(crate) fn told(problems: Vec<domain::Problem>) -> String {
    problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; ")
}
