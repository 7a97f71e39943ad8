//! The event that adds items to inboxes.

use domain::content::InAppContent;
use domain::event::ItemsAdded;
use domain::{AppId, Envelope, Event, SendId, UserNumber};
use service_kit::clock;

/// Builds the event that a new send adds items to inboxes. Each recipient has the index of its content.
pub fn items_added(app: AppId, contents: Vec<InAppContent>, recipients: Vec<(UserNumber, u32)>) -> Envelope {
    let created_at = clock::now();
    let added = ItemsAdded { created_at, category_id: None, first: 0, contents, recipients };
    Envelope {
        id: clock::new_id(),
        app,
        at: created_at,
        send_id: Some(SendId(clock::new_id())),
        caused_by: None,
        trace: None,
        event: Event::InboxItemsAdded(added),
    }
}
