//! All answers and status callbacks from Twilio.

use std::time::Duration;

use domain::content::{Content, SmsContent};
use domain::{Answer, Channel, Outcome, UserNumber};
use stand_ins::http::{Reaction, Rule, status};
use stand_ins::outbox::Outbox;
use stand_ins::twilio::{TwilioSettings, TwilioStandIn, refusal};

use crate::state::check_row;
use crate::table::{Class, Provider, row_of};
use crate::world::World;

#[derive(Clone, Copy)]
pub(crate) enum TwilioAnswer {
    Yes,
    Status(u16),
    /// An HTTP status and an error code.
    Refusal(u16, u32),
    /// Accepted; a later status callback reports that the message was not delivered.
    Undelivered(u32),
    Nothing,
}

/// Name of the answer in the table, the answer that the stand-in gives, and the code that the ledger records.
#[rustfmt::skip]
pub(crate) const CASES: &[(&str, TwilioAnswer, &str)] = &[
    ("2xx", TwilioAnswer::Yes, "201"),
    ("429", TwilioAnswer::Status(429), "429"),
    ("20429", TwilioAnswer::Refusal(429, 20429), "20429"),
    ("30001", TwilioAnswer::Undelivered(30001), "30001"),
    ("30001", TwilioAnswer::Refusal(400, 30001), "30001"),
    ("30008", TwilioAnswer::Undelivered(30008), "30008"),
    ("20003", TwilioAnswer::Refusal(401, 20003), "20003"),
    ("30002", TwilioAnswer::Undelivered(30002), "30002"),
    ("30002", TwilioAnswer::Refusal(400, 30002), "30002"),
    ("21408", TwilioAnswer::Refusal(400, 21408), "21408"),
    ("21211", TwilioAnswer::Refusal(400, 21211), "21211"),
    ("21614", TwilioAnswer::Refusal(400, 21614), "21614"),
    ("30005", TwilioAnswer::Undelivered(30005), "30005"),
    ("30006", TwilioAnswer::Undelivered(30006), "30006"),
    ("21610", TwilioAnswer::Refusal(400, 21610), "21610"),
    ("21610", TwilioAnswer::Undelivered(21610), "21610"),
    ("30003", TwilioAnswer::Undelivered(30003), "30003"),
    ("30003", TwilioAnswer::Refusal(400, 30003), "30003"),
    ("30004", TwilioAnswer::Undelivered(30004), "30004"),
    ("30007", TwilioAnswer::Undelivered(30007), "30007"),
    ("21612", TwilioAnswer::Refusal(400, 21612), "21612"),
    ("5xx", TwilioAnswer::Status(500), "500"),
    ("5xx", TwilioAnswer::Refusal(503, 20503), "20503"),
    ("timeout", TwilioAnswer::Nothing, "timeout"),
];
/// Lease of a claim. The worker waits half of this time for an answer from Twilio.
const LEASE: Duration = Duration::from_secs(8);

#[tokio::test]
async fn every_answer_of_twilio_has_the_effect_in_the_table() {
    let world = World::start(Channel::Sms, |config| config.delivery.lease = LEASE).await;
    world.context.serve("sms", sms::run);
    let [first, second] = [twilio().await, twilio().await];
    let settings = [first.provider_settings(), second.provider_settings()];
    for (number, (answer, says, code)) in CASES.iter().enumerate() {
        println!("{answer}");
        let row = row_of(Provider::Twilio, answer);
        let (app, to) = (world.app("twilio", &settings).await, format!("+49151123456{number:02}"));
        let reaction = match *says {
            TwilioAnswer::Yes | TwilioAnswer::Undelivered(_) => None,
            TwilioAnswer::Status(code) => Some(Reaction::Answer(status(code))),
            TwilioAnswer::Refusal(status, code) => Some(Reaction::Answer(refusal(status, code, "as said"))),
            TwilioAnswer::Nothing => Some(Reaction::Stall),
        };
        if let Some(reaction) = reaction {
            first.script(Rule::new(reaction).to(&to).times(row.times()));
        }
        let content = Content::Sms(SmsContent { text: "Hello".to_owned(), from: None });
        let mut subject = world.deliver(app, UserNumber(1), &to, content).await;
        if let TwilioAnswer::Undelivered(code) = says {
            subject.report = Some((*code, row.times()));
        }
        check_row(&world, &subject, row, code, "201").await;
        let captures = second.outbox().captures();
        let taken = captures.iter().filter(|capture| capture.to[0] == to).count();
        assert_eq!(taken, usize::from(row.class == Class::Pause), "{answer}");
        if row.class == Class::Sent {
            let arrived = Answer::new(Outcome::Sent { provider_id: None }, "delivered", "delivered");
            world.report(&subject, 1, arrived).await;
            world.state(&subject).await.assert_ended("delivered", None, None);
        }
    }
}

async fn twilio() -> TwilioStandIn {
    let settings = TwilioSettings { reports: false, ..TwilioSettings::default() };
    TwilioStandIn::start(settings, Outbox::in_memory()).await.unwrap()
}
