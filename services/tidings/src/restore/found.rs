//! The app, and the allocated numbers, that a message of the log names.

use domain::send::TemplateRef;
use domain::{CategoryId, Event, UserNumber};
use store::recovery::restore::Numbers;

use super::walk::Found;

/// Raises each of `numbers` to the highest number of its kind that the message contains.
pub(super) fn note(numbers: &mut Numbers, found: &Found) {
    numbers.app = numbers.app.max(found.envelope.app.0);
    let mut users = Vec::new();
    let mut category = None;
    match &found.envelope.event {
        Event::SendAccepted(send) => {
            if let Some(TemplateRef::Id(id)) = send.template {
                numbers.template = numbers.template.max(id.0);
            }
        }
        Event::SendContinues(_) | Event::RequestCancelled(_) => {}
        Event::DeliveryJob(job) => (users, category) = (vec![job.user], job.category),
        Event::InboxItemsAdded(added) => {
            users.extend(added.recipients.iter().map(|(user, _)| *user));
            category = added.category_id;
        }
        Event::InboxItemsChanged(_, changed) => users.push(changed.user),
        Event::InboxAllChanged(_, changed) => users.push(changed.user),
        Event::InboxItemStateSet(set) => users.push(set.user),
        Event::UserErased(erased) => users.push(erased.user),
        Event::DeliverySettled(settled) => users.push(settled.user),
        Event::TargetSuppressed(suppressed) => users.push(suppressed.user),
        Event::SendPlanned(planned) => {
            if let Some(decided) = &planned.decided {
                users.extend(decided.recipients.iter().filter_map(|(user, _)| *user));
                category = decided.category;
                numbers.template = numbers.template.max(decided.template.map_or(0, |(id, _)| id.0));
            }
        }
    }
    numbers.user = users.iter().map(|UserNumber(user)| *user).fold(numbers.user, i64::max);
    numbers.category = numbers.category.max(category.map_or(0, |CategoryId(category)| category));
}
