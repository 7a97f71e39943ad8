use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::AppId;
use domain::id::TemplateId;
use planning::Template;
use store::control::template::TemplateVersion;
use store::sends::facts::Facts;
use store::sends::planned_chunk::PlannedChunk;

/// Number of templates at which the cache is cleared.
const MAX_COMPILED: usize = 1_000;

type Key = (AppId, TemplateId, i32);

fn key(app: AppId, version: &TemplateVersion) -> Key {
    (app, version.id, version.version)
}

#[derive(Default)]
pub(crate) struct CompiledTemplates(Mutex<HashMap<Key, Arc<Template>>>);

pub(crate) struct ChunkTemplates(HashMap<Key, Option<Arc<Template>>>);

impl ChunkTemplates {
    /// Returns None if the send names no template, or if the template cannot be compiled.
    pub(crate) fn of(&self, planned: &PlannedChunk) -> Option<&Template> {
        self.0.get(&key(planned.chunk.app, planned.template.as_ref()?))?.as_deref()
    }

    /// Returns None if the app uses the built-in layout, or if its template cannot be compiled.
    pub(crate) fn layout_of(&self, app: AppId, facts: &Facts) -> Option<&Template> {
        self.0.get(&key(app, facts.email_layout(app)?))?.as_deref()
    }
}

impl CompiledTemplates {
    /// Compiles the templates of the sends, and the layouts of the apps.
    pub(crate) fn of(&self, chunks: &[PlannedChunk], facts: &Facts) -> ChunkTemplates {
        let mut templates = HashMap::new();
        for PlannedChunk { chunk, template, .. } in chunks {
            for version in [template.as_ref(), facts.email_layout(chunk.app)].into_iter().flatten() {
                let compiled = templates.entry(key(chunk.app, version));
                compiled.or_insert_with(|| self.compiled(chunk.app, version));
            }
        }
        ChunkTemplates(templates)
    }

    fn compiled(&self, app: AppId, version: &TemplateVersion) -> Option<Arc<Template>> {
        let key = key(app, version);
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
                    "cannot compile a template; skipping the deliveries of its sends (no_content), or using the built-in layout"
                );
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Template>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
