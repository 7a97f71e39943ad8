//! Operators of the console, and tokens of this API.

use std::time::Duration;

use domain::body::kind::{AnyText, Flag, Identifier, Text, Whole};
use domain::body::words::OneOf;
use domain::{AppId, Problem, Role, Timestamp};
use operations::operators::roles::{self, SeenRole};
use operations::tokens::{self, AdminToken, LIFETIMES, NewToken};
use operations::{apps, operators};
use secrecy::ExposeSecret;
use serde::Serialize;
use service_kit::clock;
use store::control::operator::Operator;
use utoipa::ToSchema;
use web::vocabulary::Time;

use super::call::{Answer, Call};
use super::route::Nothing;
use super::shape::Page;
use crate::console::welcome_link;

const LONGEST_EMAIL: usize = 254;

/// An operator of the console.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Operator)]
pub(super) struct OperatorBody {
    id: String,
    email: String,
    /// Roles that were given by hand.
    grants: Vec<GrantBody>,
    /// Roles by groups of the OpenID provider, as of the latest sign-in.
    claimed: Vec<GrantBody>,
    disabled: bool,
    #[schema(value_type = Time)]
    created_at: Timestamp,
}

/// A role in an app or in all.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Grant)]
struct GrantBody {
    #[schema(value_type = super::shape::Role)]
    role: Role,
    /// Null for all apps and the installation itself.
    app_id: Option<String>,
}

/// A link with which an operator signs in and chooses a password. It is valid for an hour, once.
#[derive(Serialize, ToSchema)]
#[schema(as = OperatorLink)]
pub(super) struct LinkBody {
    email: String,
    link: String,
}

/// A token of this API, without its text.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Token)]
pub(super) struct TokenBody {
    name: String,
    #[schema(value_type = super::shape::Role)]
    role: Role,
    /// Null for all apps and the installation itself.
    app_id: Option<String>,
    /// `valid`, `expired` or `revoked`.
    state: &'static str,
    created_by: String,
    #[schema(value_type = Time)]
    created_at: Timestamp,
    #[schema(value_type = Time)]
    expires_at: Timestamp,
    #[schema(value_type = Option<Time>)]
    revoked_at: Option<Timestamp>,
    /// Time of the latest call, to the minute.
    #[schema(value_type = Option<Time>)]
    seen_at: Option<Timestamp>,
}

/// A new token.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreatedToken {
    name: String,
    /// Shown only once.
    token: String,
    #[schema(value_type = Time)]
    expires_at: Timestamp,
}

domain::body! {
    /// An operator to create.
    pub(super) struct NewOperator {
        required email: Text<LONGEST_EMAIL>,
        required role: OneOf<Role>,
        /// Name or id of the app to which the role is limited. Default: all apps.
        optional app: AnyText,
    }
    example {"email": "bob@example.com", "role": "support", "app": "shop"}
}

domain::body! {
    /// A role of an operator, in place of the former one there.
    pub(super) struct RoleOfOperator {
        required role: OneOf<Role>,
        /// Name or id of the app to which the role is limited. Default: all apps.
        optional app: AnyText,
    }
    example {"role": "editor", "app": "shop"}
}

domain::body! {
    /// State of an operator.
    pub(super) struct OperatorChange {
        required disabled: Flag,
    }
    example {"disabled": true}
}

domain::body! {
    /// A token to create.
    pub(super) struct NewTokenBody as "NewToken" {
        /// Unique in the installation, also after the token has ended.
        required name: Identifier,
        /// Not above the role of the caller.
        required role: OneOf<Role>,
        /// Name or id of the app to which the token is limited. Default: all apps and the installation itself.
        optional app: AnyText,
        /// Seconds for which the token is valid, from an hour to 366 days. Default: 90 days.
        optional expires_in_seconds as "expiresInSeconds": Whole,
    }
    example {"name": "ci", "role": "editor", "app": "shop"}
}

impl From<Operator> for OperatorBody {
    fn from(operator: Operator) -> OperatorBody {
        let bodies = |grants: Vec<(Option<AppId>, Role)>| {
            let bodies = grants.into_iter();
            bodies.map(|(app, role)| GrantBody { role, app_id: app.map(|app| app.to_string()) }).collect()
        };
        OperatorBody {
            id: operator.id.to_string(),
            email: operator.email,
            grants: bodies(operator.grants),
            claimed: bodies(operator.claimed),
            disabled: operator.disabled,
            created_at: operator.created_at,
        }
    }
}

pub(super) async fn list_operators(call: &Call<'_>) -> Answer<Page<OperatorBody>> {
    Ok(Page::whole(operators::list(call.operations(), &call.caller).await?))
}

async fn named_app(call: &Call<'_>, name: Option<String>) -> Answer<Option<AppId>> {
    Ok(match name {
        Some(name) => Some(apps::find(call.operations(), &call.caller, &name).await?.id),
        None => None,
    })
}

pub(super) async fn create_operator(call: &Call<'_>) -> Answer<LinkBody> {
    let (email, role, app) = call.body(|new: &mut NewOperator, problems| {
        let (email, role, app) = (new.email(problems), new.role(problems), new.app(problems));
        Some((email?, role?, app))
    })?;
    let app = named_app(call, app).await?;
    let code = operators::create(call.operations(), &call.caller, &email, app, role).await?;
    Ok(link_body(call, email, &code))
}

fn link_body(call: &Call<'_>, email: String, code: &str) -> LinkBody {
    LinkBody { email, link: welcome_link(&call.console.url, code) }
}

pub(super) async fn link_operator(call: &Call<'_>) -> Answer<LinkBody> {
    let email = call.path("email").to_owned();
    let code = operators::link(call.operations(), &call.caller, &email, false).await?;
    Ok(link_body(call, email, &code))
}

pub(super) async fn change_operator(call: &Call<'_>) -> Answer<Nothing> {
    let disabled = call.body(|change: &mut OperatorChange, problems| change.disabled(problems))?;
    operators::disable(call.operations(), &call.caller, call.path("email"), disabled).await?;
    Ok(Nothing {})
}

pub(super) async fn grant(call: &Call<'_>) -> Answer<Nothing> {
    let (role, app) = call.body(|new: &mut RoleOfOperator, problems| {
        let (role, app) = (new.role(problems), new.app(problems));
        Some((role?, app))
    })?;
    let app = named_app(call, app).await?;
    roles::grant(call.operations(), &call.caller, call.path("email"), (app, role), SeenRole::Any).await?;
    Ok(Nothing {})
}

pub(super) async fn unlink_operator(call: &Call<'_>) -> Answer<Nothing> {
    operators::unlink(call.operations(), &call.caller, call.path("email")).await?;
    Ok(Nothing {})
}

pub(super) async fn revoke_role(call: &Call<'_>) -> Answer<Nothing> {
    let app = call.app_of_query().await?;
    roles::revoke(call.operations(), &call.caller, call.path("email"), app, SeenRole::Any).await?;
    Ok(Nothing {})
}

impl From<AdminToken> for TokenBody {
    fn from(token: AdminToken) -> TokenBody {
        TokenBody {
            state: token.state(clock::now()),
            name: token.name,
            role: token.role,
            app_id: token.app.map(|app| app.to_string()),
            created_by: token.created_by,
            created_at: token.created_at,
            expires_at: token.expires_at,
            revoked_at: token.revoked_at,
            seen_at: token.seen_at,
        }
    }
}

pub(super) async fn list_tokens(call: &Call<'_>) -> Answer<Page<TokenBody>> {
    let app = call.app_of_query().await?;
    Ok(Page::whole(tokens::list(call.operations(), &call.caller, app).await?))
}

pub(super) async fn create_token(call: &Call<'_>) -> Answer<CreatedToken> {
    let (name, role, app, lifetime) = call.body(|new: &mut NewTokenBody, problems| {
        let (name, role, app) = (new.name(problems), new.role(problems), new.app(problems));
        let seconds = new.expires_in_seconds(problems).map(u64::try_from);
        if seconds.is_some_and(|seconds| seconds.is_err()) {
            let message = "expiresInSeconds must not be negative";
            problems.push(Problem::new("expiresInSeconds", "out_of_range", message));
        }
        let lifetime = seconds.and_then(Result::ok).map_or(LIFETIMES.1, Duration::from_secs);
        Some((name?, role?, app, lifetime))
    })?;
    let app = named_app(call, app).await?;
    let new = NewToken { name: &name, role, app, lifetime };
    let created = tokens::create(call.operations(), &call.caller, new).await?;
    let (token, expires_at) = (created.text.expose_secret().to_owned(), created.expires_at);
    Ok(CreatedToken { name, token, expires_at })
}

pub(super) async fn revoke_token(call: &Call<'_>) -> Answer<Nothing> {
    tokens::revoke(call.operations(), &call.caller, call.path("token")).await?;
    Ok(Nothing {})
}
