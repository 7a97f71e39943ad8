use anyhow::bail;
use clap::Subcommand;
use credentials::signing::CreatedKey;
use domain::SigningAlgorithm;
use operations::apps::keys;
use operations::{Conflict, OperationError};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use store::control::signing_key::{MAX_SIGNING_KEYS, SigningKey};

use crate::control_plane::ControlPlane;
use crate::listing::Listing;
use crate::options::{AppArguments, Options};
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

async fn create(arguments: &CreateArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let algorithm = arguments.algorithm;
    let CreatedKey { kid, secret, public_key } = match keys::create_signing_key(
        &operations,
        &caller,
        app.id,
        algorithm,
    )
    .await
    {
        Err(OperationError::Conflict(Conflict::TooManySigningKeys)) => bail!(
            "app {} already has {MAX_SIGNING_KEYS} signing keys, the maximum; revoke one with `tidings app signing-key \
                 revoke`",
            app.name
        ),
        created => created?,
    };
    let secret = secret.expose_secret();
    let is_pair = public_key.is_some();
    if arguments.options.json {
        let (private_key, shared) = if is_pair { (Some(secret), None) } else { (None, Some(secret)) };
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
    Ok(Listing::new(app.signing_keys).render(arguments.options.json, as_json, header, |key| {
        [key.kid.clone(), key.algorithm.to_string(), key.created_at.to_string()]
    }))
}

/// Omits the key material.
pub(super) fn as_json(key: &SigningKey) -> Value {
    json!({"kid": key.kid, "algorithm": key.algorithm, "createdAt": key.created_at})
}

async fn revoke(arguments: &RevokeArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let kid = &arguments.kid;
    let ControlPlane { operations, caller, .. } = control_plane;
    keys::revoke_signing_key(&operations, &caller, app.id, kid).await.or_missing(|| {
        format!("app {} has no signing key {kid:?}; `tidings app signing-key list` lists its keys", app.name)
    })?;
    let report = json!({"kid": kid});
    Ok(arguments.options.report(&report, format!("Revoked signing key {kid} of app {}.\n", app.name)))
}
