//! `/v3/preferences`: the channels that a user accepts for each category.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::HttpResponse;
use actix_web::web::Data;
use domain::body::Body as _;
use domain::body::kind::{As, Flag, Id as IdMember, List, Text, Whole};
use domain::fields::check_plain_json;
use domain::request::MAX_REFERENCE;
use domain::{CategoryId, Channel, Problem};
use operations::preferences;
use serde::Serialize;
use serde_json::Value;
use store::directory::preference::CategoryPreference;
use utoipa::ToSchema;
use web::body::Body;
use web::failure::{Failure, valid_or_problems};
use web::handling::Handling;

use crate::access::caller::UserCaller;
use crate::gateway::Gateway;
use crate::openapi::described;
use crate::openapi::vocabulary::{self, Id, Identifier};

/// Maximum number of categories in one request.
const MAX_ELEMENTS: usize = 1_000;
/// Maximum number of channels of one category in a request. A repeated channel counts each time.
const MAX_CHANNELS: usize = 100;

domain::body! {
    /// Preferences to set. If the same channel of a category is set twice, the later value counts.
    pub(crate) struct NewPreferences {
        required preference: List<NewPreference, MAX_ELEMENTS>,
    }
    example {"preference": [{"categoryId": 7, "channels": [{"channel": "email", "enabled": false}]}]}
}

domain::body! {
    /// Preferences to set for one category.
    struct NewPreference {
        required category_id as "categoryId": As<IdMember, Whole>,
        optional channels: List<ChannelChoice, MAX_CHANNELS>,
    }
}

domain::body! {
    /// Preference for one channel. If `enabled` is false, notifications of the category do not use the channel.
    struct ChannelChoice {
        required channel: As<Channel, Text<MAX_REFERENCE>>,
        required enabled: Flag,
    }
}

/// Preferences that a request sets. If a request sets the same channel of a category twice, the later value counts.
#[derive(Default)]
struct Choices {
    channels: BTreeMap<(CategoryId, Channel), bool>,
    /// The named categories, each with the paths of the elements that name it.
    categories: BTreeMap<CategoryId, Vec<String>>,
}

/// Preferences of a user for a category.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Preference, example = json!({
    "categoryId": 7, "category": {"id": 7, "name": "Orders", "identifier": "orders"},
    "channels": [{"channel": "email", "enabled": false}],
    "channelPreferences": [{"channel": "email", "enabled": false}],
}))]
struct PreferenceBody<'a> {
    #[schema(value_type = Id)]
    category_id: CategoryId,
    category: CategoryBody<'a>,
    channels: &'a [ChannelBody],
    /// Alias of `channels`.
    channel_preferences: &'a [ChannelBody],
}

#[derive(Serialize, ToSchema)]
#[schema(as = PreferredCategory)]
struct CategoryBody<'a> {
    #[schema(value_type = Id)]
    id: CategoryId,
    name: &'a str,
    #[schema(value_type = Identifier)]
    identifier: &'a str,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ChannelPreference)]
struct ChannelBody {
    #[schema(value_type = vocabulary::Channel)]
    channel: Channel,
    enabled: bool,
}

/// Lists the user's preferences. Categories for which the user has no preference are left out.
#[utoipa::path(
    get,
    path = "/v3/preferences",
    operation_id = "listPreferences",
    tag = "preferences",
    security(("user" = [])),
    responses((status = 200, description = "The user's preferences.", body = Vec<PreferenceBody>)),
)]
pub(crate) async fn list(caller: UserCaller, gateway: Data<Gateway>) -> Result<HttpResponse, Failure> {
    Ok(answer(&preferences::list(&gateway.operations, &caller.caller).await?))
}

/// Sets the preferences that the request names. All others stay unchanged.
///
/// The preferences apply from the next send on. They never apply to sends without a category or with a critical category. A
/// missing user is created.
#[utoipa::path(
    patch,
    path = "/v3/preferences",
    operation_id = "setPreferences",
    tag = "preferences",
    security(("user" = [])),
    request_body = described::NewPreferences,
    responses((status = 200, description = "The user's preferences after the change.", body = Vec<PreferenceBody>)),
)]
pub(crate) async fn set(
    caller: UserCaller,
    gateway: Data<Gateway>,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.json().await?;
    let mut problems = Vec::new();
    check_plain_json("", &body, &mut problems);
    let Choices { channels, categories } = Choices::read(body, handling.strict, &mut problems);
    let named = categories.keys().copied().collect();
    let checked = preferences::check(&gateway.operations, &caller.caller, named, channels).await?;
    problems.extend(unknown_categories(&categories, checked.unknown()));
    let checked = valid_or_problems(Some(checked), problems)?;
    Ok(answer(&preferences::set(&gateway.operations, &caller.caller, &checked).await?))
}

impl Choices {
    fn read(body: Value, strict: bool, problems: &mut Vec<Problem>) -> Choices {
        let mut choices = Choices::default();
        let Some(mut body) = NewPreferences::open("", body, problems) else {
            return choices;
        };
        let elements = body.preference(problems).unwrap_or_default();
        body.fields.finish(strict, problems);
        for (path, element) in checked_elements("preference", elements, MAX_ELEMENTS, problems) {
            choices.read_element(&path, element, strict, problems);
        }
        choices
    }

    fn read_element(&mut self, path: &str, element: Value, strict: bool, problems: &mut Vec<Problem>) {
        let Some(mut preference) = NewPreference::open(path, element, problems) else {
            return;
        };
        let category = preference.category_id(problems).map(CategoryId);
        let channels = preference.channels(problems).unwrap_or_default();
        let channels_path = preference.fields.path("channels");
        for (path, channel) in checked_elements(&channels_path, channels, MAX_CHANNELS, problems) {
            let choice = read_channel(&path, channel, strict, problems);
            if let (Some(category), Some((channel, enabled))) = (category, choice) {
                self.channels.insert((category, channel), enabled);
            }
        }
        if let Some(category) = category {
            self.categories.entry(category).or_default().push(preference.fields.path("categoryId"));
        }
        preference.fields.finish(strict, problems);
    }
}

/// Returns a problem for each element that names an unknown category.
fn unknown_categories<'a>(
    named: &'a BTreeMap<CategoryId, Vec<String>>,
    unknown: &'a BTreeSet<CategoryId>,
) -> impl Iterator<Item = Problem> + 'a {
    let paths = named.iter().filter(|(category, _)| unknown.contains(category));
    paths.flat_map(|(category, paths)| {
        paths.iter().map(move |path| {
            let message = format!("{path}: the category {category} does not exist");
            Problem::new(path, "unknown_category", message)
        })
    })
}

/// Returns the elements of an array with their paths. An array that is too long adds a problem and yields no elements.
fn checked_elements(
    path: &str,
    elements: Vec<Value>,
    most: usize,
    problems: &mut Vec<Problem>,
) -> impl Iterator<Item = (String, Value)> + use<> {
    let too_many = elements.len() > most;
    if too_many {
        let message = format!("{path} has {} elements; at most {most} are allowed", elements.len());
        problems.push(Problem::new(path, "too_many", message));
    }
    let elements = if too_many { Vec::new() } else { elements };
    let path = path.to_owned();
    elements.into_iter().enumerate().map(move |(index, element)| (format!("{path}[{index}]"), element))
}

fn read_channel(
    path: &str,
    element: Value,
    strict: bool,
    problems: &mut Vec<Problem>,
) -> Option<(Channel, bool)> {
    let mut choice = ChannelChoice::open(path, element, problems)?;
    let channel = choice.channel(problems).and_then(|name| {
        let channel = name.parse();
        if channel.is_err() {
            let path = choice.fields.path("channel");
            let message = format!("{path} must be one of {}", Channel::delivered_names());
            problems.push(Problem::new(path, "unknown_channel", message));
        }
        channel.ok()
    });
    let enabled = choice.enabled(problems);
    choice.fields.finish(strict, problems);
    channel.zip(enabled)
}

fn answer(preferences: &[CategoryPreference]) -> HttpResponse {
    let channels: Vec<Vec<_>> = preferences.iter().map(channels).collect();
    let bodies = preferences.iter().zip(&channels).map(|(preference, channels)| PreferenceBody {
        category_id: preference.category,
        category: CategoryBody {
            id: preference.category,
            name: &preference.name,
            identifier: &preference.identifier,
        },
        channels,
        channel_preferences: channels,
    });
    HttpResponse::Ok().json(bodies.collect::<Vec<_>>())
}

fn channels(preference: &CategoryPreference) -> Vec<ChannelBody> {
    preference.channels.iter().map(|(&channel, &enabled)| ChannelBody { channel, enabled }).collect()
}
