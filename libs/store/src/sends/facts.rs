//! Facts that planning needs for its decisions. They are read in the transaction that freezes the chunks. A dry run reads them without
//! writing to the database.

mod categories;
mod erasures;
mod people;
mod templates;

use std::collections::{BTreeSet, HashMap};

use domain::content::Object;
use domain::email_layout::Brand;
use domain::plan::SuppressedTargets;
use domain::profile::Unproven;
use domain::send::Recipient;
use domain::{AppId, CategoryId, Channel, DeliveryIds, SendId, TemplateProfile, Timestamp, UserNumber};
use sqlx::PgConnection;

use crate::control::template::TemplateVersion;
use crate::database::instant::instant;
use crate::deliveries::cancellation::{self, LockedRequest};
use crate::directory::user::proof::Unconfirmed;
use crate::erasure::ErasedRecipients;
use crate::sends::cancellation_key;
use crate::sends::chunk::Chunk;
use crate::sends::expansion;
use crate::sends::planned_chunk::PlannedChunk;
use crate::{Error, Sends};

/// Brand of an app that does not exist.
static NAMELESS: Brand =
    Brand { name: String::new(), logo: None, color: None, address: None, button: None, unsubscribe: None };

#[derive(Debug)]
struct PlanApp {
    name: String,
    template_profile: TemplateProfile,
    brand: Brand,
    /// Newest version.
    email_layout: Option<TemplateVersion>,
    /// Users of the app were erased since the oldest of the new chunks was accepted. Usually there are none.
    has_erased: bool,
}

#[derive(Debug, Default)]
struct Providers {
    channels: Vec<Channel>,
    push_kinds: Vec<String>,
}

/// Facts that the chunks of a transaction share. Each [`PlannedChunk`] has its own template and category.
#[derive(Debug, Default)]
pub struct Facts {
    apps: HashMap<AppId, PlanApp>,
    providers: HashMap<AppId, Providers>,
    users: HashMap<AppId, HashMap<String, (UserNumber, Object)>>,
    turned_off: HashMap<(AppId, CategoryId, UserNumber), Vec<Channel>>,
    endpoints: HashMap<(AppId, UserNumber), Vec<String>>,
    suppressed: HashMap<AppId, SuppressedTargets>,
    unconfirmed: HashMap<(AppId, UserNumber), Unconfirmed>,
    erased: ErasedRecipients,
    requests: HashMap<(AppId, SendId), LockedRequest>,
}

impl Facts {
    #[must_use]
    pub fn app_name(&self, app: AppId) -> &str {
        self.apps.get(&app).map_or("", |app| &app.name)
    }

    #[must_use]
    pub fn template_profile(&self, app: AppId) -> TemplateProfile {
        self.apps.get(&app).map_or(TemplateProfile::App, |app| app.template_profile)
    }

    #[must_use]
    pub fn brand(&self, app: AppId) -> &Brand {
        self.apps.get(&app).map_or(&NAMELESS, |app| &app.brand)
    }

    /// None if the app uses the built-in layout, or if its template does not exist.
    #[must_use]
    pub fn email_layout(&self, app: AppId) -> Option<&TemplateVersion> {
        self.apps.get(&app)?.email_layout.as_ref()
    }

    #[must_use]
    pub fn provider_channels(&self, app: AppId) -> &[Channel] {
        self.providers.get(&app).map_or(&[], |providers| &providers.channels)
    }

    #[must_use]
    pub fn push_kinds(&self, app: AppId) -> &[String] {
        self.providers.get(&app).map_or(&[], |providers| &providers.push_kinds)
    }

    #[must_use]
    pub fn user(&self, app: AppId, identifier: &str) -> Option<(UserNumber, &Object)> {
        self.users.get(&app)?.get(identifier).map(|(number, profile)| (*number, profile))
    }

    #[must_use]
    pub fn turned_off(&self, app: AppId, category: CategoryId, user: UserNumber) -> &[Channel] {
        self.turned_off.get(&(app, category, user)).map_or(&[], Vec::as_slice)
    }

    /// Ordered by device; empty if the app has no provider for web push.
    #[must_use]
    pub fn endpoints(&self, app: AppId, user: UserNumber) -> &[String] {
        self.endpoints.get(&(app, user)).map_or(&[], Vec::as_slice)
    }

    /// None if the user has no unproven targets, or if no send of the chunks demands proven targets.
    #[must_use]
    pub fn unproven(&self, app: AppId, user: UserNumber) -> Option<&Unproven> {
        let unproven = self.unconfirmed.get(&(app, user)).map(|unconfirmed| &unconfirmed.addresses);
        unproven.filter(|unproven| !unproven.is_empty())
    }

    #[must_use]
    pub fn is_cancelled(&self, chunk: &Chunk) -> bool {
        self.requests.get(&(chunk.app, chunk.send_id)).is_some_and(|request| request.is_cancelled)
    }

    /// Returns true if planning the chunk writes inline profiles and missing categories.
    fn is_applied(&self, planned: &PlannedChunk) -> bool {
        planned.is_new && !self.is_cancelled(&planned.chunk)
    }

    #[must_use]
    pub fn delivery_ids(&self, chunk: &Chunk) -> DeliveryIds {
        self.requests
            .get(&(chunk.app, chunk.send_id))
            .map_or(DeliveryIds::TimeOrdered, |request| request.delivery_ids)
    }

    /// None if no target is suppressed.
    #[must_use]
    pub fn suppressed(&self, app: AppId) -> Option<&SuppressedTargets> {
        self.suppressed.get(&app)
    }
}

impl Sends<'_> {
    /// Returns the facts that the chunk would be planned with now. Inline profiles and missing categories are added only to the returned
    /// facts. Users that do not exist have the number 0.
    pub async fn simulate_facts(self, chunk: Chunk) -> Result<(PlannedChunk, Facts), Error> {
        let mut connection = self.0.pool.acquire().await?;
        let mut planned = [PlannedChunk::new(chunk, true)];
        let chunks = &mut planned;
        let mut facts = begin(&mut connection, chunks, None).await?;
        categories::simulate(&mut connection, chunks).await?;
        people::read(&mut connection, chunks, &mut facts).await?;
        let is_asked =
            |chunk: &Chunk, recipient: &Recipient| chunk.send.proven_targets || recipient.profile.is_some();
        people::read_unproven(&mut connection, chunks, &mut facts, is_asked).await?;
        let ended = people::simulate(chunks, &mut facts);
        let mut facts = finish(&mut connection, chunks, facts).await?;
        people::end_endpoints(&ended, &mut facts);
        let [planned] = planned;
        Ok((planned, facts))
    }
}

/// Writes only for chunks that are new and not cancelled. Blocks cancellations of the sends until the transaction ends. The caller must
/// already have blocked erasures in the apps of the chunks.
pub(crate) async fn write_profiles_and_read(
    connection: &mut PgConnection,
    chunks: &mut [PlannedChunk],
) -> Result<Facts, Error> {
    let oldest =
        chunks.iter().filter(|planned| planned.is_new).map(|planned| planned.chunk.accepted_at).min();
    let mut facts = begin(connection, chunks, oldest).await?;
    facts.erased = erasures::read(connection, chunks, &facts).await?;
    cancellation_key::cancel_marked(connection, chunks, &facts).await?;
    // Sends with a single chunk are checked too: they may be cancelled by their key, or in a restored database, before they are planned.
    let sends: Vec<_> = chunks.iter().map(|planned| (planned.chunk.app, planned.chunk.send_id)).collect();
    expansion::lock_requests(connection, chunks).await?;
    facts.requests = cancellation::lock_requests(connection, &sends).await?;
    categories::read_or_create(connection, chunks, &facts).await?;
    people::merge_inline_profiles(connection, chunks, &facts).await?;
    people::read(connection, chunks, &mut facts).await?;
    let is_asked = |chunk: &Chunk, _: &Recipient| chunk.send.proven_targets;
    people::read_unproven(connection, chunks, &mut facts, is_asked).await?;
    finish(connection, chunks, facts).await
}

/// `oldest` is the earliest time at which a new chunk was accepted.
async fn begin(
    connection: &mut PgConnection,
    chunks: &mut [PlannedChunk],
    oldest: Option<Timestamp>,
) -> Result<Facts, Error> {
    let mut facts = Facts::default();
    read_apps(connection, chunks, oldest, &mut facts).await?;
    templates::read(connection, chunks).await?;
    Ok(facts)
}

async fn finish(
    connection: &mut PgConnection,
    chunks: &[PlannedChunk],
    mut facts: Facts,
) -> Result<Facts, Error> {
    people::read_preferences(connection, chunks, &mut facts).await?;
    people::read_endpoints(connection, &mut facts).await?;
    people::read_suppressions(connection, &mut facts).await?;
    Ok(facts)
}

async fn read_apps(
    connection: &mut PgConnection,
    chunks: &[PlannedChunk],
    oldest: Option<Timestamp>,
    facts: &mut Facts,
) -> Result<(), Error> {
    let apps: BTreeSet<i64> = chunks.iter().map(|planned| planned.chunk.app.0).collect();
    let apps: Vec<i64> = apps.into_iter().collect();
    let rows = sqlx::query!(
        r#"SELECT id, name, template_profile, brand_name, brand_logo, brand_color, brand_address, email_button, email_unsubscribe,
           email_layout,
           ARRAY(SELECT DISTINCT channel FROM provider WHERE app_id = app.id AND enabled) AS "channels!",
           ARRAY(SELECT DISTINCT kind FROM provider WHERE app_id = app.id AND enabled AND channel = $2)
             AS "push_kinds!",
           coalesce((
             SELECT true FROM erased e WHERE e.app_id = app.id AND e.done_at IS NULL AND e.erased_at >= $3
             ORDER BY e.erased_at LIMIT 1
           ), false) AS "has_erased!"
         FROM app WHERE id = ANY($1)"#,
        &apps,
        Channel::MobilePush.as_str(),
        oldest.map(instant)
    )
    .fetch_all(&mut *connection)
    .await?;
    let with_layout: Vec<i64> =
        rows.iter().filter(|row| row.email_layout.is_some()).map(|row| row.id).collect();
    let mut layouts = templates::read_email_layouts(connection, &with_layout).await?;
    for row in rows {
        let app = AppId(row.id);
        let channels = row.channels.iter().filter_map(|channel| channel.parse().ok()).collect();
        facts.providers.insert(app, Providers { channels, push_kinds: row.push_kinds });
        // A newer release may have written a value that this release does not know. Then the most restrictive value applies.
        let template_profile = row.template_profile.parse().unwrap_or(TemplateProfile::App);
        let brand = Brand {
            name: row.brand_name.unwrap_or_else(|| row.name.clone()),
            logo: row.brand_logo,
            color: row.brand_color.and_then(|color| color.parse().ok()),
            address: row.brand_address,
            button: row.email_button,
            unsubscribe: row.email_unsubscribe,
        };
        let email_layout = layouts.remove(&app);
        let has_erased = row.has_erased;
        facts.apps.insert(app, PlanApp { name: row.name, template_profile, brand, email_layout, has_erased });
    }
    Ok(())
}
