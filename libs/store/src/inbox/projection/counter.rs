//! Counters of inboxes.

use std::collections::BTreeMap;

use domain::inbox::Counts;
use domain::{AppId, UserNumber};
use sqlx::PgConnection;

use crate::Error;
use crate::database::columns::columns;

/// Adds to the counters in key order.
///
/// The transaction must hold the lock on the checkpoint of the users' partition, so no other transaction writes these counters.
/// The first statement finds the newest version of each row, as described in [`crate::database::checkpoint`]. The second
/// adds the rows that are missing, and needs no check for duplicates because of the lock.
pub(super) async fn add(
    connection: &mut PgConnection,
    mut counts: BTreeMap<(AppId, UserNumber), Counts>,
) -> Result<(), Error> {
    counts.retain(|_, counts| *counts != Counts::default());
    if counts.is_empty() {
        return Ok(());
    }
    columns! { ((app, user), counts) in &counts =>
        app_id = app.0,
        user_number = user.0,
        total = counts.total,
        unread = counts.unread,
        unseen = counts.unseen,
        hidden = counts.hidden,
    }
    let updated = sqlx::query!(
        "UPDATE inbox_counter c SET total = c.total + new.total, unread = c.unread + new.unread,
           unseen = c.unseen + new.unseen, hidden = c.hidden + new.hidden
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
           AS new (app_id, user_number, total, unread, unseen, hidden)
         CROSS JOIN LATERAL (
           SELECT w.ctid AS place FROM inbox_counter w
           WHERE w.app_id = new.app_id AND w.app_id BETWEEN new.app_id AND new.app_id
             AND w.user_number BETWEEN new.user_number AND new.user_number
           ORDER BY w.user_number DESC LIMIT 1
         ) AS newest
         WHERE c.ctid = newest.place RETURNING c.app_id, c.user_number",
        &app_id,
        &user_number,
        &total,
        &unread,
        &unseen,
        &hidden
    )
    .fetch_all(&mut *connection)
    .await?;
    for row in updated {
        counts.remove(&(AppId(row.app_id), UserNumber(row.user_number)));
    }
    insert(connection, &counts).await
}

async fn insert(
    connection: &mut PgConnection,
    counts: &BTreeMap<(AppId, UserNumber), Counts>,
) -> Result<(), Error> {
    if counts.is_empty() {
        return Ok(());
    }
    columns! { ((app, user), counts) in counts =>
        app_id = app.0,
        user_number = user.0,
        total = counts.total,
        unread = counts.unread,
        unseen = counts.unseen,
        hidden = counts.hidden,
    }
    sqlx::query!(
        "INSERT INTO inbox_counter (app_id, user_number, total, unread, unseen, hidden)
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])",
        &app_id,
        &user_number,
        &total,
        &unread,
        &unseen,
        &hidden
    )
    .execute(connection)
    .await?;
    Ok(())
}
