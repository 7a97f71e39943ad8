//! Push tokens: registration time and user of each.

use domain::profile::TokenChange;
use domain::{AppId, UserNumber};
use sqlx::PgConnection;

use crate::Error;

/// Meaning of a write for the tokens that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// The app or the device has the token now: the token is alive, even if it was suppressed.
    Registers,
    /// A send contains the profile as its sender stored it: this says nothing about a token that is already known.
    Mentions,
}

/// Removes and adds tokens in the transaction that writes their profiles. The caller has locked the users.
const RECORD: &str = "
    WITH dropped AS (
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
    DO UPDATE SET registered_at = excluded.registered_at WHERE $7";

/// Records the changes that writes made to the tokens of profiles. A token that is registered again is no longer suppressed,
/// and a device can no longer replace it with its secret, unless the caller binds it again.
pub(crate) async fn record(
    connection: &mut PgConnection,
    changes: &[(AppId, UserNumber, TokenChange)],
    naming: Naming,
) -> Result<(), Error> {
    if changes.iter().all(|(.., change)| change.is_empty()) {
        return Ok(());
    }
    let mut dropped: (Vec<i64>, Vec<i64>, Vec<&str>) = Default::default();
    let mut named: (Vec<i64>, Vec<i64>, Vec<&str>) = Default::default();
    for (app, user, change) in changes {
        for (columns, targets) in [(&mut dropped, &change.dropped), (&mut named, &change.named)] {
            for target in targets {
                columns.0.push(app.0);
                columns.1.push(user.0);
                columns.2.push(target);
            }
        }
    }
    sqlx::query(RECORD)
        .bind(dropped.0)
        .bind(dropped.1)
        .bind(dropped.2)
        .bind(named.0)
        .bind(named.1)
        .bind(named.2)
        .bind(naming == Naming::Registers)
        .execute(connection)
        .await?;
    Ok(())
}
