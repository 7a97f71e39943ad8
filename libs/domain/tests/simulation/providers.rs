//! Stand-ins of providers: what they answer, and what they have taken.

use std::time::Duration;

use domain::outcome::RetryLimit;
use domain::protocol::Token;
use domain::{Channel, DeliveryId, Gone, Outcome, SendId};

use crate::choice::Luck;
use crate::dice::Dice;

/// What is known of a provider.
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    pub(crate) channel: Channel,
    /// Calls a second.
    pub(crate) limit: Option<u32>,
    /// Whether it takes calls under the same id for the same message.
    pub(crate) keyed: bool,
}

/// Two for email, in the order in which they are tried, and two for text messages.
pub(crate) const PROVIDERS: [Profile; 4] = [
    Profile { name: "first", channel: Channel::Email, limit: Some(2), keyed: false },
    Profile { name: "second", channel: Channel::Email, limit: None, keyed: false },
    Profile { name: "texts", channel: Channel::Sms, limit: None, keyed: false },
    Profile { name: "keyed", channel: Channel::Sms, limit: None, keyed: true },
];

/// The provider of this name.
pub(crate) fn index_of(name: &str) -> Option<usize> {
    PROVIDERS.iter().position(|profile| profile.name == name)
}

/// How a provider answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// It takes everything.
    Fine,
    /// It asks to come again.
    Busy,
    /// It asks to come again, a few times only.
    Limited,
    /// It refuses the message.
    Refusing,
    /// It calls the target dead.
    Gone,
    /// It calls the target dead for itself.
    GoneHere,
    /// It does not know the account.
    Locked,
    /// It takes the message and does not say so.
    Silent,
    /// It is out of reach, and whether it took the message nobody knows.
    Away,
}

impl Weather {
    pub(crate) const ALL: [Weather; 9] = [
        Weather::Fine,
        Weather::Busy,
        Weather::Limited,
        Weather::Refusing,
        Weather::Gone,
        Weather::GoneHere,
        Weather::Locked,
        Weather::Silent,
        Weather::Away,
    ];

    /// Whether it takes a message, and what the worker hears of that.
    pub(crate) fn answer(self, luck: Luck, dice: &mut Dice) -> (bool, Outcome) {
        let sent = Outcome::Sent { provider_id: None };
        match (luck, self) {
            (Luck::Failed, _) => (false, Outcome::RETRY),
            (Luck::Unheard, Weather::Fine) | (_, Weather::Silent) => (true, Outcome::Unknown),
            (Luck::Unheard, _) | (_, Weather::Away) => (false, Outcome::Unknown),
            (_, Weather::Fine) => (true, sent),
            (_, Weather::Busy) => {
                let after = dice.percent(30).then_some(Duration::from_secs(60));
                (false, Outcome::Retry { after, limit: None })
            }
            (_, Weather::Limited) => {
                let limit = Some(RetryLimit { retries: 2, over: Duration::from_secs(3_600) });
                (false, Outcome::Retry { after: None, limit })
            }
            (_, Weather::Refusing) => (false, Outcome::Failed),
            (_, Weather::Gone) => (false, Outcome::GONE),
            (_, Weather::GoneHere) => (false, Outcome::TargetGone(Gone { since: None, here_only: true })),
            (_, Weather::Locked) => (false, Outcome::PauseProvider),
        }
    }
}

/// A message that a provider took.
#[derive(Clone, Debug)]
pub(crate) struct Accept {
    /// The id that it got.
    pub(crate) identity: DeliveryId,
    /// The delivery that it was taken for, and its attempt.
    pub(crate) delivery: DeliveryId,
    /// The send and the position of the recipient in it.
    pub(crate) recipient: (SendId, u32),
    pub(crate) channel: Channel,
    pub(crate) provider: usize,
    /// The claim under which it was handed over.
    pub(crate) token: Token,
    /// Whether nobody on our side can know of it.
    pub(crate) excused: bool,
}

/// All providers.
#[derive(Debug)]
pub(crate) struct Providers {
    pub(crate) weather: [Weather; PROVIDERS.len()],
    /// In the order in which they were taken.
    pub(crate) accepts: Vec<Accept>,
}

impl Providers {
    pub(crate) fn new() -> Providers {
        Providers { weather: [Weather::Fine; PROVIDERS.len()], accepts: Vec::new() }
    }

    /// Whether it takes a message, and what the worker hears of that. What it keeps apart by its id and knows is not taken
    /// again, and answered as before where anything is heard of it at all.
    pub(crate) fn answer(
        &self,
        provider: usize,
        identity: DeliveryId,
        luck: Luck,
        dice: &mut Dice,
    ) -> (bool, Outcome) {
        let (is_taken, outcome) = self.weather[provider].answer(luck, dice);
        if !PROVIDERS[provider].keyed {
            return (is_taken, outcome);
        }
        let is_known =
            self.accepts.iter().any(|accept| (accept.provider, accept.identity) == (provider, identity));
        let is_about_the_message = matches!(outcome, Outcome::Failed | Outcome::TargetGone(_))
            || matches!(outcome, Outcome::Retry { limit: Some(_), .. });
        let outcome = match outcome {
            Outcome::Unknown => Outcome::REPEAT,
            _ if is_known && is_about_the_message => Outcome::Sent { provider_id: None },
            outcome => outcome,
        };
        (is_taken && !is_known, outcome)
    }

    /// Nobody could know of what was handed over under a claim that has ended without an answer.
    pub(crate) fn excuse(&mut self, delivery: DeliveryId, token: Token) {
        for accept in &mut self.accepts {
            accept.excused |= accept.delivery == delivery && accept.token == token;
        }
    }
}
