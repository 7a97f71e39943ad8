//! Checks that a mail server accepts the login, without sending an email.

use std::time::Duration;

use super::failure::Failure;
use super::pool::Pool;
use super::settings::{Login, Proof};

/// Time limit of a call for an access token.
pub(crate) const TOKEN_LIMIT: Duration = Duration::from_secs(30);

/// Connects, logs in, sends NOOP and QUIT. Returns one sentence that describes the successful check.
pub(crate) async fn probe(pool: &Pool) -> Result<String, Failure> {
    let mut connection = pool.open(pool.deadline()).await?;
    connection.noop().await?;
    connection.quit().await;
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
