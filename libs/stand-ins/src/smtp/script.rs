use std::collections::HashSet;
use std::sync::Arc;

use crate::faults::{Fault, Faults};
use crate::recipient::is_same;
use crate::script::{self, Protocol};

#[derive(Clone, Copy, Debug)]
pub enum Smtp {}

pub type Rule = script::Rule<Smtp>;
pub(crate) type Script = script::Script<Smtp>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A connection was opened, before the greeting.
    Connect,
    /// `EHLO` or `HELO` was received.
    Hello,
    /// `STARTTLS` was received. If the rule's answer begins with 220, TLS starts after it.
    StartTls,
    Auth,
    Mail,
    Rcpt,
    /// `DATA` was received, before the answer 354.
    Data,
    /// The first line of the content was received.
    Content,
    /// The final dot was received. If the reaction is not an answer, the email is captured first.
    Dot,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Sends this reply, such as `450 4.2.0 later`. The connection stays usable, except after a 421.
    Answer(String),
    /// Sends these octets as they are, and then nothing more until the client disconnects. After the final dot, the email is captured
    /// first.
    Raw(Vec<u8>),
    /// Closes the connection without a reply.
    Cut,
    /// Sends nothing more until the client disconnects.
    Stall,
}

/// A member that is None allows everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    stage: Option<Stage>,
    to: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Chance {
    faults: Arc<Faults>,
    /// Recipients whose fault is [`Fault::CutAfter`]. The connection is closed after their email is captured.
    cut_after: HashSet<String>,
}

impl Protocol for Smtp {
    type Moment<'a> = (Stage, &'a [String]);
    type Filter = Filter;
    type Reaction = Reaction;
    type Chance = Chance;

    fn applies(filter: &Filter, (stage, recipients): (Stage, &[String])) -> bool {
        filter.stage.is_none_or(|wanted| wanted == stage)
            && filter.to.as_deref().is_none_or(|pattern| recipients.iter().any(|to| matches(pattern, to)))
    }

    fn by_chance(chance: &mut Chance, (stage, recipients): (Stage, &[String])) -> Option<Reaction> {
        by_chance(&chance.faults, &mut chance.cut_after, stage, recipients.last())
    }
}

impl Rule {
    pub fn answer(stage: Stage, text: impl Into<String>) -> Self {
        Rule::at(stage, Reaction::Answer(text.into()))
    }

    /// Creates a rule that sends `octets` at `stage` once, and then nothing more.
    pub fn raw(stage: Stage, octets: impl Into<Vec<u8>>) -> Self {
        Rule::at(stage, Reaction::Raw(octets.into()))
    }

    #[must_use]
    pub fn cut(stage: Stage) -> Self {
        Rule::at(stage, Reaction::Cut)
    }

    #[must_use]
    pub fn stall(stage: Stage) -> Self {
        Rule::at(stage, Reaction::Stall)
    }

    /// Lets `faults` choose the fault of every recipient, until the stand-in stops.
    #[must_use]
    pub fn by_chance(faults: Arc<Faults>) -> Self {
        Rule::always(Filter::default(), Chance { faults, cut_after: HashSet::new() })
    }

    fn at(stage: Stage, reaction: Reaction) -> Self {
        Rule::once(Filter { stage: Some(stage), to: None }, reaction)
    }

    /// Restricts the rule to emails for this recipient: an address, or `*@example.com` for a whole domain. Such a rule
    /// applies only from [`Stage::Rcpt`] on, because the recipient is unknown at earlier stages.
    #[must_use]
    pub fn to(mut self, recipient: impl Into<String>) -> Self {
        self.filter.to = Some(recipient.into());
        self
    }
}

fn by_chance(
    faults: &Faults,
    cut_after: &mut HashSet<String>,
    at: Stage,
    recipient: Option<&String>,
) -> Option<Reaction> {
    let answer = |text: &str| Some(Reaction::Answer(text.to_owned()));
    match (at, recipient) {
        (Stage::Connect | Stage::Mail, _) if faults.rejects_caller() => answer("421 4.3.2 down by chance"),
        (Stage::Rcpt, Some(recipient)) => match faults.next(recipient)? {
            Fault::Temporary => answer("450 4.2.0 not now by chance"),
            Fault::Busy => answer("452 4.3.1 too busy by chance"),
            Fault::Gone => answer("550 5.1.1 gone by chance"),
            Fault::Down => answer("421 4.3.2 down by chance"),
            Fault::Refused => answer("554 5.6.0 refused by chance"),
            Fault::Pause => answer("535 5.7.8 no login by chance"),
            Fault::Stall => Some(Reaction::Stall),
            Fault::CutBefore => Some(Reaction::Cut),
            Fault::CutAfter => {
                cut_after.insert(recipient.clone());
                None
            }
        },
        (Stage::Dot, Some(recipient)) => cut_after.remove(recipient).then_some(Reaction::Cut),
        _ => None,
    }
}

fn matches(pattern: &str, recipient: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => recipient.ends_with(end),
        None => is_same(pattern, recipient),
    }
}

/// If the local part of the recipient is an enhanced code (RFC 3463), as in `5.1.1@example.com`, returns a reply that
/// refuses the recipient with this code. Otherwise returns None.
pub(super) fn reply_by_name(recipient: &str) -> Option<String> {
    let (code, _) = recipient.split_once('@')?;
    let numbers = code.split('.').map(|part| part.parse::<u16>().ok()).collect::<Option<Vec<_>>>()?;
    let basic = match numbers[..] {
        [4, _, _] => "450",
        [5, 2, 2] => "552",
        [5, _, _] => "550",
        _ => return None,
    };
    Some(format!("{basic} {code} scripted by the recipient's name"))
}
