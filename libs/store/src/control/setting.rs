use domain::app_setting::{AppSetting, AppSettings};
use domain::{Action, Actor, AppId};
use serde_json::{Map, Value, json};
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::directory::user::proof;
use crate::{Control, Error, database::audit::AuditEntry};

/// Result of a change of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsChange {
    Set,
    UnknownApp,
    /// The app has other settings than the caller saw.
    Overtaken,
}

impl Control<'_> {
    /// Like [`Control::set_seen_settings`], whatever the settings were. Returns false if the app does not exist.
    pub async fn set_settings(
        self,
        app: AppId,
        settings: &[AppSetting],
        actor: &Actor,
    ) -> Result<bool, Error> {
        Ok(self.set_seen_settings(app, settings, None, actor).await? == SettingsChange::Set)
    }

    /// Sets all settings, or none, in one transaction. Changes nothing if the app has other settings than those that the caller saw. If the app demands proofs from now on, then
    /// ends the targets that callers without a proof registered. After an error, the settings may be set although the unproven targets of
    /// some users have not ended; repeat the call.
    pub async fn set_seen_settings(
        self,
        app: AppId,
        settings: &[AppSetting],
        seen: Option<&AppSettings>,
        actor: &Actor,
    ) -> Result<SettingsChange, Error> {
        let demands_proofs = settings
            .iter()
            .any(|setting| matches!(setting, AppSetting::SecureMode(true) | AppSetting::Hmac(true)));
        let mut transaction = self.0.begin().await?;
        if demands_proofs {
            proof::block_unproven(&mut transaction, app).await?;
        }
        let Some(before) = lock(&mut transaction, app).await? else { return Ok(SettingsChange::UnknownApp) };
        if seen.is_some_and(|seen| *seen != before) {
            return Ok(SettingsChange::Overtaken);
        }
        for setting in settings {
            update(&mut transaction, app, setting).await?;
            if *setting == AppSetting::Hmac(false) {
                forget_secrets(&mut transaction, app).await?;
            }
            let changed = |setting: &AppSetting| json!({setting.name(): setting.value()});
            AuditEntry::new(app, actor, Action::AppSet, &setting.to_string())
                .changed(Some(changed(&setting.current(&before))), Some(changed(setting)))
                .write(&mut transaction)
                .await?;
        }
        transaction.commit().await?;
        if demands_proofs {
            self.0.directory().end_unproven(app).await?;
        }
        Ok(SettingsChange::Set)
    }
}

async fn lock(connection: &mut PgConnection, app: AppId) -> Result<Option<AppSettings>, Error> {
    let settings = sqlx::query_scalar!(
        r#"SELECT to_jsonb(app) AS "settings!: Json<AppSettings>" FROM app WHERE id = $1 FOR NO KEY UPDATE"#,
        app.0
    );
    Ok(settings.fetch_optional(connection).await?.map(|Json(settings)| settings))
}

/// The secrets are needed only to verify user signatures. The digests stay, so callers can still authenticate with them.
async fn forget_secrets(connection: &mut PgConnection, app: AppId) -> Result<(), Error> {
    sqlx::query!("UPDATE app_secret SET sealed = '' WHERE app_id = $1", app.0).execute(connection).await?;
    Ok(())
}

async fn update(connection: &mut PgConnection, app: AppId, setting: &AppSetting) -> Result<(), Error> {
    let column = setting.column();
    let row = Map::from_iter([(column.to_owned(), setting.stored())]);
    let statement =
        format!("UPDATE app SET {column} = (jsonb_populate_record(app, $2)).{column} WHERE id = $1");
    sqlx::query(AssertSqlSafe(statement))
        .bind(app.0)
        .bind(Json(Value::Object(row)))
        .execute(connection)
        .await?;
    Ok(())
}
