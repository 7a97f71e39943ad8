//! The resources of an installation that the use cases share.

use credentials::secrets::foreign;
use credentials::{MasterKey, Security};
use fairness::quota::{PARTS, Quota};
use store::Store;

use crate::OperationError;

/// Origin of the master key.
#[derive(Clone, Debug)]
pub enum MasterKeySource {
    /// The process loaded the key, and checked at start that it belongs to the database.
    Loaded(MasterKey),
    /// The key file is read when a use case needs it. Commands that need no key also run without one.
    Configured(Security),
}

/// Resources of an installation.
#[derive(Clone, Debug)]
pub struct Operations {
    pub(crate) store: Store,
    master_key: MasterKeySource,
    /// True if Tidings may call private addresses (`outbound.allow_private`).
    pub(crate) allow_private: bool,
    /// Previews of redrives that are made, shared by apps. Each reads up to 100,000 messages.
    pub(crate) previews: Quota,
}

const PREVIEWS: usize = 4;

impl Operations {
    #[must_use]
    pub fn new(store: Store, master_key: MasterKeySource, allow_private: bool) -> Operations {
        Operations { store, master_key, allow_private, previews: Quota::new(PREVIEWS, PARTS) }
    }

    /// Returns the master key without comparing it with the database.
    pub(crate) fn unchecked_master_key(&self) -> Result<MasterKey, OperationError> {
        match &self.master_key {
            MasterKeySource::Loaded(master_key) => Ok(master_key.clone()),
            MasterKeySource::Configured(security) => Ok(MasterKey::configured(security)?),
        }
    }

    /// Returns the master key for sealing new secrets. Fails if the database has secrets that another key sealed.
    pub(crate) async fn master_key(&self) -> Result<MasterKey, OperationError> {
        match &self.master_key {
            MasterKeySource::Loaded(master_key) => Ok(master_key.clone()),
            MasterKeySource::Configured(security) => {
                let master_key = MasterKey::configured(security)?;
                let checked = foreign::refuse(&self.store, &master_key, security).await;
                checked.map_err(|error| OperationError::Defect(error.into()))?;
                Ok(master_key)
            }
        }
    }
}
