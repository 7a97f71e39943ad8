use domain::content::Object;
use domain::plan::{self, Decision, Person, SendFacts, SuppressedTargets};
use domain::profile::{Unproven, lacks_proof};
use domain::send::{CHUNK_RECIPIENTS, Recipient};
use domain::{Channel, Reason, SendRequest};
use store::sends::facts::Facts;
use store::sends::planned_chunk::{Decisions, PlannedChunk};

use crate::Template;

/// If the send names a template but `template` is None (it is missing or cannot be compiled), no channel has content.
#[must_use]
pub fn decide_chunk(planned: &PlannedChunk, facts: &Facts, template: Option<&Template>) -> Decisions {
    let chunk = &planned.chunk;
    let offered = offered_channels(&chunk.send, template);
    let send = SendFacts {
        send_id: chunk.send_id,
        ids: facts.delivery_ids(chunk),
        selected: chunk.send.channels.as_deref(),
        content: &offered,
        providers: facts.provider_channels(chunk.app),
        push_kinds: facts.push_kinds(chunk.app),
    };
    let nothing = SuppressedTargets::new();
    let suppressed = facts.suppressed(chunk.app).unwrap_or(&nothing);
    let category = planned.category_with_preferences();
    let first = chunk.chunk as usize * CHUNK_RECIPIENTS;
    let missing = |own: &Object| missing_variables(&chunk.send, template, own);
    let missing_for_all = missing(&Object::new());
    let seen = facts.template_profile(chunk.app);
    let missing_in_profile = |profile: &Object| {
        let missing = template.map(|template| template.needs.missing_in_profile(&chunk.send, profile, seen));
        missing.unwrap_or_default().into_keys().map(str::to_owned).collect::<Vec<_>>()
    };
    let recipients = chunk.recipients().iter().enumerate();
    recipients
        .map(|(place, recipient)| {
            let index = u32::try_from(first + place).unwrap_or(u32::MAX);
            if facts.is_erased(chunk, &recipient.identifier) {
                return (index, plan::decide_erased(&send));
            }
            let person = facts.user(chunk.app, &recipient.identifier).map(|(number, profile)| Person {
                number,
                profile,
                turned_off: category.map_or(&[], |category| facts.turned_off(chunk.app, category.id, number)),
                topic_channels: planned.topic_channels(place),
                endpoints: facts.endpoints(chunk.app, number),
            });
            let unproven = person.and_then(|person| facts.unproven(chunk.app, person.number));
            let mut decision = match (person, unproven.filter(|_| chunk.send.proven_targets)) {
                _ if facts.is_cancelled(chunk) => plan::decide_cancelled(&send, recipient, person),
                (Some(person), Some(unproven)) => {
                    decide_proven(&send, recipient, person, unproven, suppressed)
                }
                _ => plan::decide_recipient(&send, recipient, person, suppressed),
            };
            if let Some(Person { profile, .. }) = person
                && (decision.in_app || !decision.deliveries.is_empty())
            {
                let has_own = !recipient.data.is_empty();
                decision.missing = if has_own { missing(&recipient.data) } else { missing_for_all.clone() };
                decision.missing.extend(missing_in_profile(profile));
            }
            (index, decision)
        })
        .collect()
}

fn missing_variables(send: &SendRequest, template: Option<&Template>, own: &Object) -> Vec<String> {
    let missing = template.map(|template| template.needs.missing(send, own)).unwrap_or_default();
    missing.into_keys().map(str::to_owned).collect()
}

/// Decides as if the user had no unproven targets.
fn decide_proven(
    send: &SendFacts<'_>,
    recipient: &Recipient,
    person: Person<'_>,
    unproven: &Unproven,
    suppressed: &SuppressedTargets,
) -> Decision {
    let profile = unproven.removed_from(person.profile);
    let is_proven = |endpoint: &&String| !unproven.has_endpoint(endpoint);
    let endpoints: Vec<String> = person.endpoints.iter().filter(is_proven).cloned().collect();
    let proven = Person { profile: &profile, endpoints: &endpoints, ..person };
    let mut decision = plan::decide_recipient(send, recipient, Some(proven), suppressed);
    for (channel, reason) in &mut decision.skips {
        if *reason == Reason::NoAddress && lacks_proof(*channel, unproven) {
            *reason = Reason::UnprovenTarget;
        }
    }
    decision
}

/// Without a template, these are all channels on which Tidings sends; otherwise the channels of the template, and those for which the
/// send's overrides contain enough content.
fn offered_channels(send: &SendRequest, template: Option<&Template>) -> Vec<Channel> {
    match (&send.template, template) {
        (None, _) => Channel::DELIVERED.to_vec(),
        (Some(_), None) => Vec::new(),
        (Some(_), Some(template)) => {
            let mut offered = template.offered_channels();
            let title = send.content.title.as_deref();
            let own = Channel::EXTERNAL.into_iter().filter(|channel| send.overrides.offers(*channel, title));
            offered.extend(own.filter(|channel| !template.offered_channels().contains(channel)));
            offered
        }
    }
}
