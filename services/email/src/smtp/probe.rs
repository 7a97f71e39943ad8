use std::time::Duration;

use super::failure::Failure;
use super::pool::Pool;
use super::settings::{Login, Proof};

pub(crate) const TOKEN_LIMIT: Duration = Duration::from_secs(30);

/// Checks the login without an email. Returns one sentence for the operator.
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
