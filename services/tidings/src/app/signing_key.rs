use anyhow::bail;
use clap::Subcommand;
use credentials::signing::CreatedKey;
use domain::SigningAlgorithm;
use operations::apps::keys;
use operations::{Conflict, OperationError};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::json;
use store::control::signing_key::MAX_SIGNING_KEYS;

use crate::listing::Listing;
use crate::options::{AppArguments, Options};
use crate::place::Place;
use crate::refused::OrMissing as _;

/// Create, list and revoke the keys with which an app's backend signs bearer tokens.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:
  tidings app signing-key create shop")]
pub(crate) enum Command {
    Create(CreateArguments),
    /// List the signing keys of an app.
    #[command(after_help = "Example:
  tidings app signing-key list shop --json")]
    List(AppArguments),
    Revoke(RevokeArguments),
}

/// Create a signing key, and print its private key or secret, which is not shown again. Several keys can be valid at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings app signing-key create shop
  tidings app signing-key create shop --algorithm ES256 --json")]
pub(crate) struct CreateArguments {
    /// Name or id of the app
    app: String,
    /// RS256 or ES256 (only the public key is stored), or HS256 (the secret is stored encrypted)
    #[arg(long, value_name = "NAME", default_value = "RS256", value_parser = parse_algorithm)]
    algorithm: SigningAlgorithm,
    #[command(flatten)]
    options: Options,
}

/// Revoke a signing key. Tokens signed with it are refused within five seconds.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidings app signing-key revoke shop key_3bXhBQ9mPq2w")]
pub(crate) struct RevokeArguments {
    /// Name or id of the app
    app: String,
    /// Id of the key, as `list` shows it
    kid: String,
    #[command(flatten)]
    options: Options,
}

fn parse_algorithm(text: &str) -> Result<SigningAlgorithm, String> {
    let algorithm = text.to_ascii_uppercase().parse();
    algorithm.map_err(|_| "expected RS256, ES256 or HS256".to_owned())
}

pub(crate) async fn run(command: Command) -> anyhow::Result<String> {
    match command {
        Command::Create(arguments) => create(&arguments).await,
        Command::List(arguments) => list(&arguments).await,
        Command::Revoke(arguments) => revoke(&arguments).await,
    }
}

/// A new key, with its private key or secret.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    kid: String,
    secret: String,
    /// None for a shared secret.
    public_key: Option<String>,
}

impl From<CreatedKey> for Created {
    fn from(created: CreatedKey) -> Created {
        let secret = created.secret.expose_secret().to_owned();
        Created { kid: created.kid, secret, public_key: created.public_key }
    }
}

async fn create(arguments: &CreateArguments) -> anyhow::Result<String> {
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let algorithm = arguments.algorithm;
    let created = match place {
        Place::Database(database) => {
            let (operations, caller) = (&database.operations, &database.caller);
            keys::create_signing_key(operations, caller, app.id, algorithm).await.map(Created::from)
        }
        Place::Console(api) => {
            api.post(&[&"apps", &app.id, &"signing-keys"], &json!({"algorithm": algorithm})).await
        }
    };
    let Created { kid, secret, public_key } = match created {
        Err(OperationError::Conflict(Conflict::TooManySigningKeys)) => bail!(
            "app {} already has {MAX_SIGNING_KEYS} signing keys, the maximum; revoke one with `tidings app signing-key \
             revoke`",
            app.name
        ),
        created => created?,
    };
    let is_pair = public_key.is_some();
    if arguments.options.json {
        let (private_key, shared) = if is_pair { (Some(&secret), None) } else { (None, Some(&secret)) };
        let key = json!({
            "kid": kid, "algorithm": algorithm, "privateKey": private_key, "publicKey": public_key, "secret": shared,
        });
        return Ok(format!("{key}\n"));
    }
    let what =
        if is_pair { "private key" } else { "secret, whose characters are the key (do not decode them)" };
    Ok(format!(
        "Created signing key {kid} of app {}. The {what}:\n\n{}\n\nKeep it: it is not shown again. Tokens signed \
         with it have\n  the header  {{\"alg\": \"{algorithm}\", \"kid\": \"{kid}\"}}\n  the claims  {{\"sub\": \
         \"user:<identifier>\", \"apiKey\": \"{}\", \"exp\": <seconds since 1970>}}\n",
        app.name,
        secret.trim_end(),
        app.api_key,
    ))
}

async fn list(arguments: &AppArguments) -> anyhow::Result<String> {
    let (_, app) = arguments.open().await?;
    let header = ["KID", "ALGORITHM", "CREATED"];
    Ok(Listing::new(app.signing_keys).render(arguments.options.json, header, |key| {
        [key.kid.clone(), key.algorithm.to_string(), key.created_at.to_string()]
    }))
}

async fn revoke(arguments: &RevokeArguments) -> anyhow::Result<String> {
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let kid = &arguments.kid;
    let revoked = match place {
        Place::Database(database) => {
            keys::revoke_signing_key(&database.operations, &database.caller, app.id, kid).await
        }
        Place::Console(api) => api.delete(&[&"apps", &app.id, &"signing-keys", kid]).await,
    };
    revoked.or_missing(|| {
        format!("app {} has no signing key {kid:?}; `tidings app signing-key list` lists its keys", app.name)
    })?;
    let report = json!({"kid": kid});
    Ok(arguments.options.report(&report, format!("Revoked signing key {kid} of app {}.\n", app.name)))
}
