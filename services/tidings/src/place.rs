//! The place of the use cases that a command calls: the database of an installation, or a console.

use domain::AppId;

use crate::admin_api::{AdminApi, ConsoleArguments, URL};
use crate::app::AppRow;
use crate::control_plane::{ControlPlane, Installation};
use crate::refused::{InvalidInput, OrMissing as _};

pub(crate) const NEEDS_DATABASE: &str = "this command needs the database: run it where DATABASE_URL is set";

pub(crate) const NOT_REVEALED: &str = "--reveal needs the database, because the console shows each target for a reason that is recorded: run it where \
     DATABASE_URL is set";

/// Arguments that select a place.
#[derive(Debug, clap::Args)]
pub(crate) struct PlaceArguments {
    #[command(flatten)]
    pub(crate) installation: Installation,
    #[command(flatten)]
    console: Box<ConsoleArguments>,
}

pub(crate) enum Place {
    Database(Box<ControlPlane>),
    Console(AdminApi),
}

impl PlaceArguments {
    pub(crate) async fn open(&self) -> anyhow::Result<Place> {
        let is_local = self.installation.is_given();
        if is_local && self.console.is_given() {
            let message = "--url and --token work through a console, --config and --data-dir on a database: give one of them";
            return Err(InvalidInput(message.to_owned()).into());
        }
        Ok(if self.console.is_given() || (!is_local && self.console.url().is_some()) {
            Place::Console(self.console.connect()?)
        } else {
            Place::Database(Box::new(self.installation.open().await?))
        })
    }

    /// Opens the database for a command that works on the machine or on the database itself. The variable of the console does not concern it.
    pub(crate) async fn open_database(&self) -> anyhow::Result<ControlPlane> {
        self.refuse_console()?;
        self.installation.open().await
    }

    /// Opens the database for a command about data that a console has too, but that no call of the console replaces.
    pub(crate) async fn open_database_only(&self) -> anyhow::Result<ControlPlane> {
        if !self.installation.is_given() && self.console.url().is_some() && !self.console.is_given() {
            let message = format!("{NEEDS_DATABASE}, with --config or --data-dir, or without {URL}");
            return Err(InvalidInput(message).into());
        }
        self.open_database().await
    }

    pub(crate) fn refuse_console(&self) -> anyhow::Result<()> {
        if self.console.is_given() {
            return Err(InvalidInput(NEEDS_DATABASE.to_owned()).into());
        }
        Ok(())
    }
}

impl Place {
    pub(crate) async fn app(&self, name_or_id: &str) -> anyhow::Result<AppRow> {
        let missing = || format!("app {name_or_id:?} does not exist; `tidings app list` lists the apps");
        match self {
            Place::Database(database) => Ok(database.app(name_or_id).await?.into()),
            Place::Console(api) => api.get(&[&"apps", &name_or_id]).await.or_missing(missing),
        }
    }

    pub(crate) async fn app_id(&self, name_or_id: Option<&str>) -> anyhow::Result<Option<AppId>> {
        match name_or_id {
            Some(name_or_id) => Ok(Some(self.app(name_or_id).await?.id)),
            None => Ok(None),
        }
    }
}
