//! The templates of recent sends, compiled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::AppId;
use domain::id::TemplateId;
use planning::Template;
use store::sends::facts::Facts;

/// Maximum number of cached templates. The cache is cleared when it is full.
const MAX_COMPILED: usize = 1_000;

type Key = (AppId, TemplateId, i32);

/// Compiled templates by their id and version.
#[derive(Default)]
pub(crate) struct CompiledTemplates(Mutex<HashMap<Key, Arc<Template>>>);

impl CompiledTemplates {
    /// Returns the template of the chunk at `index` in `facts`. None if its send names no template, or if the template cannot be
    /// compiled.
    pub(crate) fn of(&self, app: AppId, facts: &Facts, index: usize) -> Option<Arc<Template>> {
        let version = facts.template(index)?;
        let key = (app, version.id, version.version);
        if let Some(known) = self.lock().get(&key) {
            return Some(Arc::clone(known));
        }
        match Template::compile(&version.channels) {
            Ok(template) => {
                let template = Arc::new(template);
                let mut compiled = self.lock();
                if compiled.len() >= MAX_COMPILED {
                    compiled.clear();
                }
                compiled.insert(key, Arc::clone(&template));
                Some(template)
            }
            Err(error) => {
                tracing::error!(
                    %app,
                    template = version.identifier,
                    version = version.version,
                    %error,
                    "cannot compile the template of a send; skipping its deliveries (no_content)"
                );
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Template>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
