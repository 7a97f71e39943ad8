//! Check that a mail server accepts the login, without sending an email.

use std::time::Duration;

use tokio::time::timeout;

use super::failure::{Failure, Stage};
use super::pool::Pool;
use super::settings::{Login, Proof};

/// Time limit of a probe.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Connects, logs in, sends NOOP and QUIT. Returns one sentence that describes the successful check.
pub(crate) async fn probe(pool: &Pool) -> Result<String, Failure> {
    let mut stage = Stage::Connect;
    let talk = async {
        let mut connection = pool.open(&mut stage).await?;
        connection.noop().await?;
        connection.quit().await;
        Ok(())
    };
    timeout(LIMIT, talk).await.unwrap_or(Err(Failure::TimedOut { stage }))?;
    let server = pool.describe();
    Ok(match &pool.settings().login {
        Some(Login { username, proof: Proof::Password(..) }) => {
            format!("{server} accepted the password of {username}")
        }
        Some(Login { username, proof: Proof::Token(_) }) => {
            format!("{server} accepted an access token of {username}")
        }
        None => format!("{server} answers as a mail server; no login is configured"),
    })
}
