//! Deciding a turn from the facts.

use domain::plan::{self, Person, SendFacts, Suppressed};
use domain::send::TURN_RECIPIENTS;
use domain::{Channel, Send};
use store::sends::facts::Facts;
use store::sends::plan::Decisions;
use store::sends::turn::Turn;

use crate::Template;

/// Decides for each recipient of the turn at `position` among the facts. A send whose template is missing, or cannot
/// be compiled, has content for no channel.
#[must_use]
pub fn decide(turn: &Turn, facts: &Facts, position: usize, template: Option<&Template>) -> Decisions {
    let offered = offered(&turn.send, template);
    let send = SendFacts {
        send_id: turn.send_id,
        selected: turn.send.channels.as_deref(),
        content: &offered,
        providers: facts.providers(turn.app),
        push_kinds: facts.push_kinds(turn.app),
    };
    let nothing = Suppressed::new();
    let suppressed = facts.suppressed(turn.app).unwrap_or(&nothing);
    let category = facts.category(position).filter(|category| !category.critical);
    let first = turn.turn as usize * TURN_RECIPIENTS;
    let recipients = turn.send.turn(turn.turn).iter().enumerate();
    recipients
        .map(|(place, recipient)| {
            let index = u32::try_from(first + place).unwrap_or(u32::MAX);
            if facts.is_erased(turn, &recipient.identifier) {
                return (index, plan::decide_erased(&send));
            }
            let person = facts.user(turn.app, &recipient.identifier).map(|(number, profile)| Person {
                number,
                profile,
                turned_off: category.map_or(&[], |category| facts.turned_off(turn.app, category.id, number)),
                endpoints: facts.endpoints(turn.app, number),
            });
            let decision = match facts.is_cancelled(turn) {
                true => plan::decide_cancelled(&send, recipient, person),
                false => plan::decide(&send, recipient, person, suppressed),
            };
            (index, decision)
        })
        .collect()
}

/// The channels that a send has content for: plainly all, else those of its template, and those that it says enough for
/// by itself.
fn offered(send: &Send, template: Option<&Template>) -> Vec<Channel> {
    match (&send.template, template) {
        (None, _) => Channel::DELIVERED.to_vec(),
        (Some(_), None) => Vec::new(),
        (Some(_), Some(template)) => {
            let (mut offered, title) = (template.offered(), send.content.title.as_deref());
            let own = Channel::EXTERNAL.into_iter().filter(|channel| send.overrides.offers(*channel, title));
            offered.extend(own.filter(|channel| !template.offered().contains(channel)));
            offered
        }
    }
}
