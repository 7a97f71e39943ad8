//! Switches of an app, set by operators.

use std::fmt;
use std::num::NonZeroU32;

use domain::{Action, Actor, AppId, TemplateProfile, TokenSubject};
use sqlx::PgConnection;

use crate::directory::user::proof;
use crate::{Control, Error, database::audit::AuditEntry};

/// A switch of an app and its value. `Display` uses the syntax of the command line, for instance `secure-mode=on`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Switch {
    /// If true, calls made on behalf of users need a bearer token.
    SecureMode(bool),
    /// If true, calls made on behalf of users need a bearer token or a signature of the user's identifier.
    Hmac(bool),
    /// If true, bearer tokens without an expiry time (`exp`) are refused.
    RequireExp(bool),
    /// Format in which bearer tokens name their user.
    TokenSubject(TokenSubject),
    /// The part of a user's profile that templates can read.
    TemplateProfile(TemplateProfile),
    /// If true, callers that have only the public API key may neither read nor write a user's addresses.
    GuardAddresses(bool),
    /// Web origins (CORS) whose pages may make calls on behalf of users. None allows all origins; an empty list allows none.
    CorsOrigins(Option<Vec<String>>),
    /// Requests per second, at most `i32::MAX`; None for the configured default.
    RateLimit(Option<NonZeroU32>),
    /// Sends per second in the transactional lane, at most `i32::MAX`; None for the configured default.
    TransactionalRate(Option<NonZeroU32>),
    /// Maximum number of users; None for the default.
    MaxUsers(Option<NonZeroU32>),
    /// Maximum number of categories; None for the default.
    MaxCategories(Option<NonZeroU32>),
    /// Maximum number of devices across all users; None for the default.
    MaxDevices(Option<NonZeroU32>),
    /// Maximum number of topics; None for the default.
    MaxTopics(Option<NonZeroU32>),
    /// Maximum number of subscriptions to all topics; None for the default.
    MaxSubscriptions(Option<NonZeroU32>),
    /// Megabytes of sends within 24 hours; None for the default.
    MaxSendMegabytes(Option<NonZeroU32>),
    /// Megabytes of files of sends within 24 hours; None for the default.
    MaxFileMegabytes(Option<NonZeroU32>),
    /// Maximum number of live connections at each gateway; None for the share that the gateway gives each app.
    RealtimeConnections(Option<NonZeroU32>),
    /// Number of days for which sends are kept, if that is shorter than the configured time; None for the configured time.
    KeepSends(Option<NonZeroU32>),
    /// If true, the app is disabled: all of its API calls are refused.
    Disabled(bool),
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = |set: &bool| if *set { "on" } else { "off" };
        let number = |set: &Option<NonZeroU32>| set.map_or("default".to_owned(), |number| number.to_string());
        match self {
            Switch::SecureMode(set) => write!(f, "secure-mode={}", on(set)),
            Switch::Hmac(set) => write!(f, "hmac={}", on(set)),
            Switch::RequireExp(set) => write!(f, "require-exp={}", on(set)),
            Switch::TokenSubject(form) => write!(f, "token-subject={form}"),
            Switch::TemplateProfile(seen) => write!(f, "template-profile={seen}"),
            Switch::MaxUsers(most) => write!(f, "max-users={}", number(most)),
            Switch::MaxCategories(most) => write!(f, "max-categories={}", number(most)),
            Switch::MaxDevices(most) => write!(f, "max-devices={}", number(most)),
            Switch::MaxTopics(most) => write!(f, "max-topics={}", number(most)),
            Switch::MaxSubscriptions(most) => write!(f, "max-subscriptions={}", number(most)),
            Switch::MaxSendMegabytes(most) => write!(f, "max-send-megabytes={}", number(most)),
            Switch::MaxFileMegabytes(most) => write!(f, "max-file-megabytes={}", number(most)),
            Switch::RealtimeConnections(most) => write!(f, "realtime-connections={}", number(most)),
            Switch::KeepSends(days) => write!(f, "keep-sends={}", number(days)),
            Switch::GuardAddresses(true) => f.write_str("address-keys=guarded"),
            Switch::GuardAddresses(false) => f.write_str("address-keys=open"),
            Switch::CorsOrigins(None) => f.write_str("cors-origins=any"),
            Switch::CorsOrigins(Some(origins)) if origins.is_empty() => f.write_str("cors-origins=none"),
            Switch::CorsOrigins(Some(origins)) => write!(f, "cors-origins={}", origins.join(",")),
            Switch::RateLimit(limit) => write!(f, "rate-limit={}", number(limit)),
            Switch::TransactionalRate(rate) => write!(f, "transactional-rate={}", number(rate)),
            Switch::Disabled(set) => write!(f, "disabled={}", on(set)),
        }
    }
}

impl Control<'_> {
    /// Sets switches of an app in one transaction. Returns false if the app does not exist. If the app demands proofs from now
    /// on, then ends the targets that callers without a proof registered.
    ///
    /// # Errors
    /// Returns an error and changes no switch if the database fails or rejects a value. Also returns an error if the switches
    /// are set, but the unproven targets of some users have not ended; repeat the call.
    pub async fn set_switches(self, app: AppId, switches: &[Switch], actor: &Actor) -> Result<bool, Error> {
        let demands_proofs =
            switches.iter().any(|switch| matches!(switch, Switch::SecureMode(true) | Switch::Hmac(true)));
        let mut transaction = self.0.begin().await?;
        if demands_proofs {
            proof::block_unproven(&mut transaction, app).await?;
        }
        for switch in switches {
            if !set(&mut transaction, app, switch).await? {
                return Ok(false);
            }
            if *switch == Switch::Hmac(false) {
                forget_secrets(&mut transaction, app).await?;
            }
            AuditEntry::new(app, actor, Action::AppSet, &switch.to_string()).write(&mut transaction).await?;
        }
        transaction.commit().await?;
        if demands_proofs {
            self.0.directory().end_unproven(app).await?;
        }
        Ok(true)
    }
}

/// Removes the encrypted secrets of the app, which are needed only to verify user signatures. The digests stay, so callers
/// can still authenticate with the secrets.
async fn forget_secrets(connection: &mut PgConnection, app: AppId) -> Result<(), Error> {
    sqlx::query!("UPDATE app_secret SET sealed = '' WHERE app_id = $1", app.0).execute(connection).await?;
    Ok(())
}

async fn set(connection: &mut PgConnection, app: AppId, switch: &Switch) -> Result<bool, Error> {
    let most = |number: &Option<NonZeroU32>| number.map(|number| i64::from(number.get()));
    macro_rules! update {
        ($statement:literal, $value:expr) => {
            sqlx::query!($statement, app.0, $value).execute(connection).await
        };
    }
    let done = match switch {
        Switch::SecureMode(on) => update!("UPDATE app SET secure_mode = $2 WHERE id = $1", on),
        Switch::Hmac(on) => update!("UPDATE app SET hmac = $2 WHERE id = $1", on),
        Switch::RequireExp(on) => update!("UPDATE app SET require_exp = $2 WHERE id = $1", on),
        Switch::TokenSubject(form) => {
            update!("UPDATE app SET token_subject = $2 WHERE id = $1", form.as_str())
        }
        Switch::TemplateProfile(seen) => {
            update!("UPDATE app SET template_profile = $2 WHERE id = $1", seen.as_str())
        }
        Switch::MaxUsers(number) => update!("UPDATE app SET max_users = $2 WHERE id = $1", most(number)),
        Switch::MaxCategories(number) => {
            update!("UPDATE app SET max_categories = $2 WHERE id = $1", most(number))
        }
        Switch::MaxDevices(number) => {
            update!("UPDATE app SET max_devices = $2 WHERE id = $1", most(number))
        }
        Switch::MaxTopics(number) => update!("UPDATE app SET max_topics = $2 WHERE id = $1", most(number)),
        Switch::MaxSubscriptions(number) => {
            update!("UPDATE app SET max_subscriptions = $2 WHERE id = $1", most(number))
        }
        Switch::MaxSendMegabytes(number) => {
            update!("UPDATE app SET max_send_megabytes = $2 WHERE id = $1", most(number))
        }
        Switch::MaxFileMegabytes(number) => {
            update!("UPDATE app SET max_file_megabytes = $2 WHERE id = $1", most(number))
        }
        Switch::RealtimeConnections(number) => {
            update!("UPDATE app SET realtime_connections = $2 WHERE id = $1", most(number))
        }
        Switch::KeepSends(days) => {
            update!("UPDATE app SET keep_sends = $2::bigint WHERE id = $1", most(days))
        }
        Switch::GuardAddresses(on) => update!("UPDATE app SET guard_addresses = $2 WHERE id = $1", on),
        Switch::CorsOrigins(origins) => {
            update!("UPDATE app SET cors_origins = $2 WHERE id = $1", origins.as_deref())
        }
        Switch::RateLimit(limit) => {
            // The column is an `integer`; PostgreSQL rejects larger numbers.
            update!("UPDATE app SET rate_limit = $2::bigint WHERE id = $1", most(limit))
        }
        Switch::TransactionalRate(limit) => {
            update!("UPDATE app SET transactional_rate = $2::bigint WHERE id = $1", most(limit))
        }
        Switch::Disabled(on) => update!("UPDATE app SET disabled = $2 WHERE id = $1", on),
    };
    Ok(done?.rows_affected() > 0)
}
