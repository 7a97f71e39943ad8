//! The search field of every page: a person's identifier, or the id of a send or delivery.

use operations::{OperationError, people, sends::recent};
use uuid::Uuid;

use super::shell::Visit;
use crate::answer::{Answer, see_other};
use crate::console::Console;
use crate::query::Pairs;
use crate::route::encoded;

pub(crate) async fn find(console: &Console, visit: Visit, query: &Pairs) -> Answer {
    let text = query.text("q").unwrap_or_default();
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    if let Ok(id) = text.parse::<Uuid>()
        && let Some(send) = recent::send_of(&console.operations, caller, app, id).await?
    {
        return Ok(see_other(visit.send_path(&send)));
    }
    match people::find(&console.operations, caller, app, text).await {
        Ok(found) => Ok(see_other(visit.person_path(&found.person.identifier))),
        Err(OperationError::NotFound(_)) => {
            Ok(see_other(visit.path(&format!("/people?q={}", encoded(text)))))
        }
        Err(error) => Err(error.into()),
    }
}
