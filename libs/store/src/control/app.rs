use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::app_setting::AppSettings;
use domain::problem::UnknownName;
use domain::{Action, Actor, AppId, Timestamp};
use sqlx::types::Json;
use sqlx::{PgConnection, Postgres, Transaction};

use crate::control::signing_key::{SigningKey, Verifier};
use crate::control::vapid_key::NewVapidKey;
use crate::control::{link_key, vapid_key};
use crate::{Control, Error, database::audit::AuditEntry};

/// Selects apps with their valid secrets and their signing keys. The first argument is the `WHERE` or `ORDER BY` clause.
macro_rules! select_apps {
    ($rest:literal $(, $parameter:expr)*) => {
        sqlx::query_as!(
            AppRow,
            r#"SELECT app.id, name, api_key, development, to_jsonb(app) AS "settings!: Json<AppSettings>", created_at,
                    live.digests, live.sealed_secrets,
                    live.expiries AS "expiries: Vec<Option<DateTime<Utc>>>", keys.kids, keys.algorithms,
                    keys.public_keys AS "public_keys: Vec<Option<String>>",
                    keys.sealed_keys AS "sealed_keys: Vec<Option<Vec<u8>>>", keys.key_times
             FROM app, LATERAL (
                 SELECT array_agg(digest ORDER BY id DESC) AS digests,
                        array_agg(sealed ORDER BY id DESC) AS sealed_secrets,
                        array_agg(expires_at ORDER BY id DESC) AS expiries
                 FROM app_secret WHERE app_id = app.id AND (expires_at IS NULL OR expires_at > now())
             ) AS live, LATERAL (
                 SELECT array_agg(kid ORDER BY created_at, kid) AS kids,
                        array_agg(algorithm ORDER BY created_at, kid) AS algorithms,
                        array_agg(public_key ORDER BY created_at, kid) AS public_keys,
                        array_agg(sealed ORDER BY created_at, kid) AS sealed_keys,
                        array_agg(created_at ORDER BY created_at, kid) AS key_times
                 FROM signing_key WHERE app_id = app.id
             ) AS keys "#
                + $rest
            $(, $parameter)*
        )
    };
}

#[derive(Clone, Copy, Debug)]
pub struct NewApp<'a> {
    /// Unique in the installation and not empty.
    pub name: &'a str,
    pub api_key: &'a str,
    /// In a development app, callers that have only the public API key may by default read and write the addresses in profiles.
    pub development: bool,
}

#[derive(Clone, Copy)]
pub struct NewSecret<'a> {
    pub digest: &'a [u8],
    /// Encrypted with the master key in the context `app-secret:{app}`. Stored only while the app's setting `hmac` is on, because the
    /// secret is then also the HMAC key of user signatures.
    pub sealed: &'a [u8],
}

/// An unexpired secret of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppSecret {
    /// Compare it in constant time.
    pub digest: Vec<u8>,
    /// As in [`NewSecret::sealed`]. Empty if the setting `hmac` was off at any time since the secret was created.
    pub sealed: Vec<u8>,
    /// None for the newest secret.
    pub expires_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    pub id: AppId,
    pub name: String,
    pub api_key: String,
    pub development: bool,
    pub settings: AppSettings,
    pub created_at: Timestamp,
    /// Secrets that had not expired when the app was read, newest first; at most two.
    pub secrets: Vec<AppSecret>,
    /// Oldest first; at most [`MAX_SIGNING_KEYS`](crate::control::signing_key::MAX_SIGNING_KEYS).
    pub signing_keys: Vec<SigningKey>,
}

impl App {
    /// Returns true if callers that have only the public API key may neither read nor write the addresses in a profile.
    #[must_use]
    pub fn guards_addresses(&self) -> bool {
        self.settings.guard_addresses.unwrap_or(!self.development)
    }
}

/// An app that is being created in an open transaction. Its id is already assigned, because the first secret is encrypted in a context that
/// contains the id. If the draft is dropped without a commit, the app is not created.
#[derive(Debug)]
pub struct AppDraft {
    transaction: Transaction<'static, Postgres>,
    id: AppId,
}

impl AppDraft {
    #[must_use]
    pub fn id(&self) -> AppId {
        self.id
    }

    /// Sets safe values for an app whose users are not trusted. A bearer token must name its user as `user:{identifier}`. Templates can
    /// read only the profile data that the app's backend wrote. If `closed` is true, calls made on behalf of users also need a bearer token
    /// that expires.
    pub async fn distrust_users(&mut self, closed: bool) -> Result<(), Error> {
        sqlx::query!("UPDATE app SET token_subject = 'prefixed', template_profile = 'app', secure_mode = $2, require_exp = $2
             WHERE id = $1", self.id.0, closed)
        .execute(&mut *self.transaction)
        .await?;
        Ok(())
    }

    pub async fn add_vapid_key(&mut self, key: NewVapidKey<'_>) -> Result<(), Error> {
        vapid_key::insert(&mut self.transaction, self.id, key).await
    }

    /// Expects the key encrypted with the master key in the context `link-key:{app}`.
    pub async fn add_link_key(&mut self, sealed: &[u8]) -> Result<(), Error> {
        link_key::insert_first(&mut self.transaction, self.id, sealed).await
    }

    pub async fn commit(mut self, secret: NewSecret<'_>) -> Result<AppId, Error> {
        insert_secret(&mut self.transaction, self.id, secret).await?;
        self.transaction.commit().await?;
        Ok(self.id)
    }
}

impl Control<'_> {
    /// Returns None if the name is taken.
    pub async fn create_app(self, app: NewApp<'_>, actor: &Actor) -> Result<Option<AppDraft>, Error> {
        let mut transaction = self.0.begin().await?;
        let id: Option<i64> = sqlx::query_scalar!(
            "INSERT INTO app (name, api_key, development) VALUES ($1, $2, $3)
             ON CONFLICT (name) DO NOTHING RETURNING id",
            app.name,
            app.api_key,
            app.development
        )
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(id) = id.map(AppId) else { return Ok(None) };
        AuditEntry::new(id, actor, Action::AppCreate, app.name).write(&mut transaction).await?;
        Ok(Some(AppDraft { transaction, id }))
    }

    /// Like [`Control::rotate_seen_secret`], whatever the newest secret is.
    pub async fn rotate_secret(
        self,
        app: AppId,
        secret: NewSecret<'_>,
        grace: Duration,
        actor: &Actor,
    ) -> Result<bool, Error> {
        self.rotate_seen_secret(app, secret, (grace, None), actor).await
    }

    /// The newest previous secret stays valid for `grace`. Older secrets are deleted, so at most two secrets are valid at a time. Returns
    /// false if the app does not exist, or if the digest of its newest secret is not `seen`.
    pub async fn rotate_seen_secret(
        self,
        app: AppId,
        secret: NewSecret<'_>,
        (grace, seen): (Duration, Option<&[u8]>),
        actor: &Actor,
    ) -> Result<bool, Error> {
        let mut transaction = self.0.begin().await?;
        // The row lock serializes rotations of one app, so that at most two secrets are valid.
        let name: Option<String> =
            sqlx::query_scalar!("SELECT name FROM app WHERE id = $1 FOR UPDATE", app.0)
                .fetch_optional(&mut *transaction)
                .await?;
        let Some(name) = name else { return Ok(false) };
        if seen.is_some() {
            let newest = sqlx::query_scalar!(
                "SELECT digest FROM app_secret WHERE app_id = $1 ORDER BY id DESC LIMIT 1",
                app.0
            )
            .fetch_optional(&mut *transaction)
            .await?;
            if newest.as_deref() != seen {
                return Ok(false);
            }
        }
        sqlx::query!("DELETE FROM app_secret WHERE app_id = $1 AND expires_at IS NOT NULL", app.0)
            .execute(&mut *transaction)
            .await?;
        sqlx::query!(
            "UPDATE app_secret SET expires_at = now() + make_interval(secs => $2) WHERE app_id = $1",
            app.0,
            grace.as_secs_f64()
        )
        .execute(&mut *transaction)
        .await?;
        insert_secret(&mut transaction, app, secret).await?;
        AuditEntry::new(app, actor, Action::AppRotateSecret, &name).write(&mut transaction).await?;
        transaction.commit().await?;
        Ok(true)
    }

    pub async fn app_by_key(self, api_key: &str) -> Result<Option<App>, Error> {
        let row = select_apps!("WHERE api_key = $1", api_key).fetch_optional(&self.0.pool).await?;
        row.map(App::try_from).transpose()
    }

    /// Prefers the app with this name over one with this id.
    pub async fn app_by_name_or_id(self, name_or_id: &str) -> Result<Option<App>, Error> {
        let row =
            select_apps!("WHERE name = $1 OR id::text = $1 ORDER BY name = $1 DESC LIMIT 1", name_or_id)
                .fetch_optional(&self.0.pool)
                .await?;
        row.map(App::try_from).transpose()
    }

    pub async fn app(self, id: AppId) -> Result<Option<App>, Error> {
        let row = select_apps!("WHERE app.id = $1", id.0).fetch_optional(&self.0.pool).await?;
        row.map(App::try_from).transpose()
    }

    pub async fn list_apps(self) -> Result<Vec<App>, Error> {
        let rows = select_apps!("ORDER BY id").fetch_all(&self.0.pool).await?;
        rows.into_iter().map(App::try_from).collect()
    }
}

async fn insert_secret(
    connection: &mut PgConnection,
    app: AppId,
    secret: NewSecret<'_>,
) -> Result<(), Error> {
    sqlx::query!(
        "INSERT INTO app_secret (app_id, digest, sealed)
         SELECT id, $2, CASE WHEN hmac THEN $3::bytea ELSE ''::bytea END FROM app WHERE id = $1",
        app.0,
        secret.digest,
        secret.sealed
    )
    .execute(connection)
    .await?;
    Ok(())
}

struct AppRow {
    id: AppId,
    name: String,
    api_key: String,
    development: bool,
    settings: Json<AppSettings>,
    created_at: Timestamp,
    digests: Option<Vec<Vec<u8>>>,
    sealed_secrets: Option<Vec<Vec<u8>>>,
    expiries: Option<Vec<Option<DateTime<Utc>>>>,
    kids: Option<Vec<String>>,
    algorithms: Option<Vec<String>>,
    public_keys: Option<Vec<Option<String>>>,
    sealed_keys: Option<Vec<Option<Vec<u8>>>>,
    key_times: Option<Vec<DateTime<Utc>>>,
}

impl TryFrom<AppRow> for App {
    type Error = Error;

    fn try_from(row: AppRow) -> Result<App, Error> {
        let secrets = row.digests.unwrap_or_default().into_iter().zip(row.sealed_secrets.unwrap_or_default());
        let secrets = secrets.zip(row.expiries.unwrap_or_default());
        let verifiers =
            row.public_keys.unwrap_or_default().into_iter().zip(row.sealed_keys.unwrap_or_default());
        let keys = row.kids.unwrap_or_default().into_iter().zip(row.algorithms.unwrap_or_default());
        let keys = keys.zip(verifiers).zip(row.key_times.unwrap_or_default());
        Ok(App {
            id: row.id,
            name: row.name,
            api_key: row.api_key,
            development: row.development,
            settings: row.settings.0,
            created_at: row.created_at,
            secrets: secrets
                .map(|((digest, sealed), expires_at)| AppSecret {
                    digest,
                    sealed,
                    expires_at: expires_at.map(Into::into),
                })
                .collect(),
            signing_keys: keys
                .map(|(((kid, algorithm), (public_key, sealed)), created_at)| {
                    Ok(SigningKey {
                        kid,
                        algorithm: parse(&algorithm)?,
                        verifier: match public_key {
                            Some(pem) => Verifier::PublicKey(pem),
                            None => Verifier::Sealed(sealed.unwrap_or_default()),
                        },
                        created_at: created_at.into(),
                    })
                })
                .collect::<Result<_, sqlx::Error>>()?,
        })
    }
}

fn parse<T: FromStr<Err = UnknownName>>(name: &str) -> Result<T, sqlx::Error> {
    name.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))
}
