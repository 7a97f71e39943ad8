use domain::profile::TokenChange;
use domain::{AppId, UserNumber};
use sqlx::PgConnection;

use crate::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// The app or the device registers the token, which proves that it is valid now, even if it was suppressed.
    Registers,
    /// The token is in a recipient's inline profile in a send. The sender may have stored it long ago, so it may no longer be valid.
    Mentions,
}

/// Records the changes to the tokens of profiles. With [`Naming::Registers`], also lifts the suppression of each written token, and unbinds
/// the token from the device that registered it, so that a caller with that device's secret cannot replace the token. The caller of this
/// function may bind the token to a device afterwards.
///
/// The caller must have locked the users in the same transaction, which also writes their profiles.
pub(crate) async fn record(
    connection: &mut PgConnection,
    changes: &[(AppId, UserNumber, TokenChange)],
    naming: Naming,
) -> Result<(), Error> {
    if changes.iter().all(|(.., change)| change.is_empty()) {
        return Ok(());
    }
    let mut dropped: (Vec<i64>, Vec<i64>, Vec<String>) = Default::default();
    let mut named: (Vec<i64>, Vec<i64>, Vec<String>) = Default::default();
    for (app, user, change) in changes {
        for (columns, targets) in [(&mut dropped, &change.dropped), (&mut named, &change.named)] {
            for target in targets {
                columns.0.push(app.0);
                columns.1.push(user.0);
                columns.2.push(target.clone());
            }
        }
    }
    sqlx::query!(
        "WITH dropped AS (
           DELETE FROM push_token t USING unnest($1::bigint[], $2::bigint[], $3::text[]) AS gone (app_id, user_number, target)
           WHERE (t.app_id, t.target, t.user_number) = (gone.app_id, gone.target, gone.user_number)
         ), named AS (
           SELECT * FROM unnest($4::bigint[], $5::bigint[], $6::text[]) AS named (app_id, user_number, target)
         ), lifted AS (
           DELETE FROM suppression s USING named
           WHERE $7 AND (s.app_id, s.channel, s.target) = (named.app_id, 'mobilePush', named.target)
         ), unbound AS (
           UPDATE device d SET push_target = NULL FROM named
           WHERE $7 AND (d.app_id, d.user_number) = (named.app_id, named.user_number) AND d.push_target = named.target
         )
         INSERT INTO push_token AS t (app_id, target, user_number, registered_at)
         SELECT app_id, target, user_number, clock_timestamp() FROM named ORDER BY app_id, target, user_number
         ON CONFLICT (app_id, target, user_number)
         DO UPDATE SET registered_at = excluded.registered_at WHERE $7",
        &dropped.0,
        &dropped.1,
        &dropped.2,
        &named.0,
        &named.1,
        &named.2,
        naming == Naming::Registers
    )
    .execute(connection)
    .await?;
    Ok(())
}
