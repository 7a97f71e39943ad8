//! One table of what operators can do: the permission and the use case, and how it is reached by a command, by the admin API and on a page.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::CommandFactory;
use operations::Permission;

use crate::command::Cli;

/// Permission, use case, command, call and page. A cell that begins with `-` is empty, for the reason that it states.
type Row = (Permission, &'static str, &'static str, &'static str, &'static str);

const PART: &str = "- part of another page";
const IN_API_V3: &str = "- apps do this with their own API";
const ASKS: &str = "- a command asks nothing";
const PROGRAM: &str = "- a program asks nothing";
const PREVIEW: &str = "- the preview has the HTML";
const IN_LIST: &str = "- the list shows all of it";

#[rustfmt::skip]
const FACES: &[Row] = &[
    (Permission::View, "apps::list", "app list", "GET /apps", "GET /apps"),
    (Permission::View, "apps::find", "- `app list` shows all of it", "GET /apps/{app}", PART),
    (Permission::ManageApps, "apps/creation::create", "app create", "POST /apps", "POST /setup"),
    (Permission::ManageApps, "apps/settings::set", "app set", "PATCH /apps/{app}", "POST /apps/{app}/settings"),
    (Permission::ManageSecrets, "apps/keys::rotate_secret", "app rotate-secret", "POST /apps/{app}/secrets", "POST /apps/{app}/credentials/secret"),
    (Permission::ManageSecrets, "apps/keys::rotate_link_key", "app link-key rotate", "POST /apps/{app}/link-key", "POST /apps/{app}/credentials/link-key"),
    (Permission::View, "apps::find", "app signing-key list", "GET /apps/{app}/signing-keys", "GET /apps/{app}/credentials"),
    (Permission::ManageSecrets, "apps/keys::create_signing_key", "app signing-key create", "POST /apps/{app}/signing-keys", "POST /apps/{app}/credentials/signing-key"),
    (Permission::ManageSecrets, "apps/keys::revoke_signing_key", "app signing-key revoke", "DELETE /apps/{app}/signing-keys/{kid}", "POST /apps/{app}/credentials/signing-key/{kid}"),
    (Permission::View, "providers::list", "provider list", "GET /apps/{app}/providers", "GET /apps/{app}/providers"),
    (Permission::View, "providers::find", "provider show", "GET /apps/{app}/providers/{provider}", "GET /apps/{app}/provider/{id}"),
    (Permission::ManageProviders, "providers::set", "provider set", "PUT /apps/{app}/providers/{provider}", "POST /apps/{app}/providers/new"),
    (Permission::ManageProviders, "providers/test_call::test", "provider test", "POST /apps/{app}/providers/{provider}/test", "POST /apps/{app}/provider/{id}/test"),
    (Permission::ManageProviders, "providers::enable", "provider enable", "POST /apps/{app}/providers/{provider}/enable", "POST /apps/{app}/provider/{id}/switch"),
    (Permission::ManageProviders, "providers::enable", "provider disable", "POST /apps/{app}/providers/{provider}/disable", "POST /apps/{app}/provider/{id}/switch"),
    (Permission::ManageProviders, "providers::remove", "provider remove", "DELETE /apps/{app}/providers/{provider}", "POST /apps/{app}/provider/{id}/remove"),
    (Permission::View, "templates::list", "template list", "GET /apps/{app}/templates", "GET /apps/{app}/templates"),
    (Permission::View, "templates::find", "template show", "GET /apps/{app}/templates/{template}", "GET /apps/{app}/templates/{id}"),
    (Permission::View, "templates::find", "template diff", "GET /apps/{app}/templates/{template}/versions/{version}", "POST /apps/{app}/templates/{id}/review"),
    (Permission::View, "templates::versions", "template versions", "GET /apps/{app}/templates/{template}/versions", "GET /apps/{app}/templates/{id}/versions/{number}"),
    (Permission::EditTemplates, "templates::put", "template put", "PUT /apps/{app}/templates/{template}", "POST /apps/{app}/templates/{id}/publish"),
    (Permission::EditTemplates, "templates::restore", "template restore", "POST /apps/{app}/templates/{template}/versions/{version}/restore", "POST /apps/{app}/templates/{id}/versions/{number}/restore"),
    (Permission::View, "templates/preview::preview", "template preview", "POST /apps/{app}/templates/{template}/preview", "POST /apps/{app}/templates/{id}/edit"),
    (Permission::View, "webhooks::list", "webhook list", "GET /apps/{app}/webhooks", "GET /apps/{app}/webhooks"),
    (Permission::ManageWebhooks, "webhooks::set", "webhook set", "POST /apps/{app}/webhooks", "POST /apps/{app}/webhooks/new"),
    (Permission::ManageWebhooks, "webhooks::remove", "webhook remove", "DELETE /apps/{app}/webhooks/{endpoint}", "POST /apps/{app}/webhook/{number}/remove"),
    (Permission::ManageWebhooks, "webhooks::rotate_secret", "webhook secret rotate", "POST /apps/{app}/webhooks/{endpoint}/secret", "POST /apps/{app}/webhook/{number}/secret"),
    (Permission::ManageWebhooks, "webhooks::secrets", "webhook test", "- the call leaves from the machine of the command", "- the call leaves from the machine of the command"),
    (Permission::View, "webhooks::failed", "webhook failed", "GET /apps/{app}/webhooks/{endpoint}/failed", "GET /apps/{app}/webhook/{number}"),
    (Permission::ManageWebhooks, "webhooks::redeliver", "webhook redeliver", "POST /apps/{app}/webhooks/{endpoint}/redeliver", "POST /apps/{app}/webhook/{number}/redeliver"),
    (Permission::Browse, "categories::list", IN_API_V3, "GET /apps/{app}/categories", "GET /apps/{app}/categories"),
    (Permission::EditCategories, "categories::put", IN_API_V3, "PUT /apps/{app}/categories/{category}", "POST /apps/{app}/category/{number}"),
    (Permission::EditCategories, "categories::delete", IN_API_V3, "DELETE /apps/{app}/categories/{category}", "POST /apps/{app}/category/{number}/delete"),
    (Permission::Browse, "topics::list", IN_API_V3, "GET /apps/{app}/topics", "GET /apps/{app}/topics"),
    (Permission::ChangeTopics, "topics::put", IN_API_V3, "PUT /apps/{app}/topics/{topic}", "POST /apps/{app}/topic/{number}"),
    (Permission::ChangeTopics, "topics::delete", IN_API_V3, "DELETE /apps/{app}/topics/{topic}", "POST /apps/{app}/topic/{number}/delete"),
    (Permission::View, "requests::list", "sends", "GET /apps/{app}/requests", "GET /apps/{app}/sends"),
    (Permission::View, "sends/recent::find", "- `explain` tells more", "GET /apps/{app}/requests/{request}", "GET /apps/{app}/sends/{id}"),
    (Permission::View, "sends/recent::pairs", "- `explain` tells more", "GET /apps/{app}/requests/{request}/deliveries", PART),
    (Permission::View, "sends/recent::send_of", "- `explain` takes ids", "- the call takes ids", "GET /apps/{app}/find"),
    (Permission::CancelRequests, "requests::cancel", "cancel", "DELETE /apps/{app}/requests/{request}", "POST /apps/{app}/sends/{id}/cancel"),
    (Permission::CancelRequests, "requests::cancellable", ASKS, PROGRAM, "GET /apps/{app}/sends/{id}/cancel"),
    (Permission::View, "people::list", "users", "GET /apps/{app}/people", "GET /apps/{app}/people"),
    (Permission::View, "people::find", "- `users` and `explain` show most of it", "GET /apps/{app}/people/{person}", "GET /apps/{app}/people/{id}"),
    (Permission::View, "people::find_numbered", "- a command has every right", "- a program knows identifiers", "GET /apps/{app}/people/number/{number}"),
    (Permission::View, "explain::request", "explain", "GET /apps/{app}/explain", "GET /apps/{app}/sends/{id}/explain"),
    (Permission::EraseUsers, "users::erase", "erase", "DELETE /apps/{app}/people/{person}", "POST /apps/{app}/people/{id}/erase"),
    (Permission::EraseUsers, "people::find", ASKS, PROGRAM, "GET /apps/{app}/people/{id}/erase"),
    (Permission::View, "suppressions::list", "suppression list", "GET /suppressions", PART),
    (Permission::LiftSuppressions, "suppressions::lift", "suppression lift", "DELETE /apps/{app}/suppressions/{channel}/{delivery}", "POST /apps/{app}/suppressions/lift"),
    (Permission::LiftSuppressions, "suppressions::find", ASKS, PROGRAM, "GET /apps/{app}/suppressions/lift"),
    (Permission::View, "requests::waiting", "waiting", "GET /waiting", "GET /apps/{app}/waiting"),
    (Permission::Redrive, "requests::release", "waiting release", "POST /apps/{app}/waiting/release", "POST /apps/{app}/waiting/release"),
    (Permission::View, "requests::waiting", ASKS, PROGRAM, "GET /apps/{app}/waiting/release"),
    (Permission::View, "parked::list", "parked list", "GET /parked", "GET /apps/{app}/parked"),
    (Permission::View, "parked::find", "parked show", "GET /parked/{message}", PART),
    (Permission::Redrive, "parked::redrive", "parked redrive", "- a redrive at once holds its call for its whole time; start one in the background", "- redrives of pages have a rate"),
    (Permission::Redrive, "redrives::preview", "- `parked run start --dry-run`", "POST /apps/{app}/parked/preview", "GET /apps/{app}/parked/redrive"),
    (Permission::Redrive, "redrives::preview", "- `parked list --json`", "- GET /parked", "GET /apps/{app}/parked/redrive.csv"),
    (Permission::Redrive, "redrives::start", "parked run start", "POST /apps/{app}/redrives", "POST /apps/{app}/parked/redrive"),
    (Permission::View, "redrives::list", "parked run list", "GET /apps/{app}/redrives", PART),
    (Permission::View, "redrives::find", "parked run show", "GET /apps/{app}/redrives/{redrive}", "GET /apps/{app}/parked/runs/{number}"),
    (Permission::Redrive, "redrives::change", "parked run pause", "POST /apps/{app}/redrives/{redrive}/pause", "POST /apps/{app}/parked/runs/{number}"),
    (Permission::Redrive, "redrives::change", "parked run resume", "POST /apps/{app}/redrives/{redrive}/resume", "POST /apps/{app}/parked/runs/{number}"),
    (Permission::Redrive, "redrives::change", "parked run stop", "POST /apps/{app}/redrives/{redrive}/stop", "POST /apps/{app}/parked/runs/{number}"),
    (Permission::View, "overview::of_app", "- `sends`, `waiting` and `parked list` show its parts", "GET /apps/{app}/overview", "GET /apps/{app}"),
    (Permission::View, "refused_calls::page", "refused", "GET /apps/{app}/refused", "GET /apps/{app}/refused"),
    (Permission::View, "installation::read", "processes", "GET /processes", "GET /installation"),
    (Permission::ReadAuditLog, "audit::list", "audit list", "- GET /audit, which has pages", "- a page at a time"),
    (Permission::ManageOperators, "operators::list", "operator list", "GET /operators", "GET /operators"),
    (Permission::ManageOperators, "operators::create", "operator create", "POST /operators", "POST /operators/new"),
    (Permission::ManageOperators, "operators::link", "operator link", "POST /operators/{email}/link", "POST /operators/{email}/link"),
    (Permission::ManageOperators, "operators::disable", "operator disable", "PATCH /operators/{email}", "POST /operators/{email}/disable"),
    (Permission::ManageOperators, "operators::disable", "operator enable", "PATCH /operators/{email}", "POST /operators/{email}/enable"),
    (Permission::ManageTokens, "tokens::list", "token list", "GET /tokens", "GET /tokens"),
    (Permission::ManageTokens, "tokens::create", "token create", "POST /tokens", "POST /tokens/new"),
    (Permission::ManageTokens, "tokens::revoke", "token revoke", "DELETE /tokens/{token}", "POST /tokens/{number}/revoke"),
    (Permission::ManageProviders, "providers/change::set_version", "- `provider set` replaces any version", "- `If-Match` names the version", "POST /apps/{app}/provider/{id}/edit"),
    (Permission::ManageProviders, "providers/change::move_before", "- the document has the priority", "- the document has the priority", "POST /apps/{app}/provider/{id}/move"),
    (Permission::View, "providers/history::answers", "- `explain` shows the answers of a send", "- the deliveries of a send have its answers", PART),
    (Permission::ManageProviders, "providers::find", ASKS, PROGRAM, "GET /apps/{app}/providers/new"),
    (Permission::ManageProviders, "providers::find", ASKS, PROGRAM, "GET /apps/{app}/provider/{id}/edit"),
    (Permission::ManageProviders, "providers::find", ASKS, PROGRAM, "GET /apps/{app}/provider/{id}/switch"),
    (Permission::ManageProviders, "providers::find", ASKS, PROGRAM, "GET /apps/{app}/provider/{id}/remove"),
    (Permission::View, "apps::find", ASKS, PROGRAM, "GET /apps/{app}/setup"),
    (Permission::ManageApps, "apps::list", ASKS, PROGRAM, "GET /setup"),
    (Permission::Send, "sends/try_out::try_out", "- `smoke` and `demo send` send", "- programs send with the API of the app", "POST /apps/{app}/setup"),
    (Permission::EditTemplates, "templates/test_sends::send", "- a command has no operator to send to", "POST /apps/{app}/templates/{template}/test-send", "POST /apps/{app}/templates/{id}/test"),
    (Permission::EditTemplates, "templates::find", ASKS, PROGRAM, "GET /apps/{app}/new-template"),
    (Permission::EditTemplates, "templates::find", ASKS, PROGRAM, "GET /apps/{app}/templates/{id}/edit"),
    (Permission::EditTemplates, "templates/preview::preview_draft", PREVIEW, PREVIEW, "POST /apps/{app}/templates/{id}/frame"),
    (Permission::View, "templates::find", PREVIEW, PREVIEW, "GET /apps/{app}/templates/{id}/versions/{number}/frame"),
    (Permission::EditTemplates, "templates::find", ASKS, PROGRAM, "GET /apps/{app}/templates/{id}/versions/{number}/restore"),
    (Permission::ReadAuditLog, "audit::page", "- `audit list`", "GET /audit", "GET /audit"),
    (Permission::ReadAuditLog, "audit::page", "- `audit list --app`", "- GET /audit with `app`", "GET /apps/{app}/audit"),
    (Permission::ManageOperators, "operators/roles::grant", "operator grant", "PUT /operators/{email}/role", "POST /operators/{email}/grant"),
    (Permission::ManageOperators, "operators/roles::revoke", "operator revoke", "DELETE /operators/{email}/role", "POST /operators/{email}/revoke"),
    (Permission::ManageOperators, "operators::list", ASKS, PROGRAM, "GET /operators/new"),
    (Permission::ManageOperators, "operators::list", ASKS, PROGRAM, "GET /operators/{email}"),
    (Permission::ManageOperators, "operators::list", ASKS, PROGRAM, "GET /operators/{email}/grant"),
    (Permission::ManageOperators, "operators::list", ASKS, PROGRAM, "GET /operators/{email}/revoke"),
    (Permission::ManageOperators, "operators::list", ASKS, PROGRAM, "GET /operators/{email}/disable"),
    (Permission::ManageOperators, "operators::list", ASKS, PROGRAM, "GET /operators/{email}/enable"),
    (Permission::ManageOperators, "operators::list", ASKS, PROGRAM, "GET /operators/{email}/link"),
    (Permission::View, "apps::find", ASKS, PROGRAM, "GET /apps/{app}/settings"),
    (Permission::ManageApps, "apps/settings::set_seen", "- `app set` replaces any value", "- a program sets single values", "POST /apps/{app}/settings"),
    (Permission::ManageSecrets, "apps/keys::secret_version", ASKS, PROGRAM, "GET /apps/{app}/credentials/secret"),
    (Permission::ManageSecrets, "apps/keys::rotate_seen_secret", "- a command is run once", "- a call is made once", "POST /apps/{app}/credentials/secret"),
    (Permission::ManageSecrets, "apps::find", ASKS, PROGRAM, "GET /apps/{app}/credentials/link-key"),
    (Permission::ManageSecrets, "apps::find", ASKS, PROGRAM, "GET /apps/{app}/credentials/signing-key"),
    (Permission::ManageSecrets, "apps::find", ASKS, PROGRAM, "GET /apps/{app}/credentials/signing-key/{kid}"),
    (Permission::ManageWebhooks, "webhooks::find", ASKS, PROGRAM, "GET /apps/{app}/webhooks/new"),
    (Permission::ManageWebhooks, "webhooks::find", ASKS, PROGRAM, "GET /apps/{app}/webhook/{number}/edit"),
    (Permission::ManageWebhooks, "webhooks::set_seen", "- `webhook set` replaces any value", "- a program replaces any value", "POST /apps/{app}/webhook/{number}/edit"),
    (Permission::ManageWebhooks, "webhooks::find", ASKS, PROGRAM, "GET /apps/{app}/webhook/{number}/secret"),
    (Permission::ManageWebhooks, "webhooks::rotate_seen_secret", "- a command is run once", "- a call is made once", "POST /apps/{app}/webhook/{number}/secret"),
    (Permission::ManageWebhooks, "webhooks::find", ASKS, PROGRAM, "GET /apps/{app}/webhook/{number}/remove"),
    (Permission::EditCategories, "categories::find", ASKS, PROGRAM, "GET /apps/{app}/category/{number}"),
    (Permission::EditCategories, "categories::change", IN_API_V3, "- PUT changes any state", "POST /apps/{app}/category/{number}"),
    (Permission::EditCategories, "categories::find", ASKS, PROGRAM, "GET /apps/{app}/category/{number}/delete"),
    (Permission::EditCategories, "categories::find", ASKS, PROGRAM, "GET /apps/{app}/categories/new"),
    (Permission::EditCategories, "categories::create", IN_API_V3, "- PUT creates it", "POST /apps/{app}/categories/new"),
    (Permission::ChangeTopics, "topics::find_numbered", ASKS, PROGRAM, "GET /apps/{app}/topic/{number}"),
    (Permission::ChangeTopics, "topics::change_seen", IN_API_V3, "- PUT changes any state", "POST /apps/{app}/topic/{number}"),
    (Permission::ChangeTopics, "topics::count_subscribers", ASKS, PROGRAM, "GET /apps/{app}/topic/{number}/delete"),
    (Permission::ChangeTopics, "topics::find", ASKS, PROGRAM, "GET /apps/{app}/topics/new"),
    (Permission::ChangeTopics, "topics::create", IN_API_V3, "- PUT creates it", "POST /apps/{app}/topics/new"),
    (Permission::ManageTokens, "tokens::list", ASKS, PROGRAM, "GET /tokens/new"),
    (Permission::ManageTokens, "tokens::list", ASKS, PROGRAM, "GET /tokens/{number}/revoke"),
    (Permission::ManageOperators, "operators::unlink", "operator unlink", "DELETE /operators/{email}/identity", "POST /operators/{email}/unlink"),
    (Permission::ManageOperators, "operators::list", ASKS, PROGRAM, "GET /operators/{email}/unlink"),
    (Permission::RevealTargets, "people/reveal::reveal", "- a command has every right", "- an operator gives a reason for each target", "POST /apps/{app}/people/{id}/reveal"),
    (Permission::RevealTargets, "people::find", ASKS, PROGRAM, "GET /apps/{app}/people/{id}/reveal"),
    (Permission::RevealTargets, "suppressions::list", "- `suppression list --reveal`", "- an operator gives a reason for each target", IN_LIST),
    (Permission::ViewUsers, "users::find", "- `users` lists them", "- GET /apps/{app}/people", PART),
    (Permission::ViewItems, "inbox::list", IN_API_V3, IN_API_V3, "- the number of items is enough"),
    (Permission::ChangeItems, "inbox/change::change", IN_API_V3, IN_API_V3, IN_API_V3),
    (Permission::ChangeUsers, "users::merge", IN_API_V3, IN_API_V3, IN_API_V3),
    (Permission::Send, "sends/accept::accept", IN_API_V3, IN_API_V3, IN_API_V3),
];

/// Commands that have no use case: they run services, or work on the machine, the database or the log itself.
const OF_THE_MACHINE: [&str; 16] = [
    "mcp",
    "run",
    "healthcheck",
    "up",
    "demo",
    "demo send",
    "migrate",
    "master-key generate",
    "master-key rotate",
    "master-key status",
    "rebuild inbox",
    "verify",
    "restore",
    "smoke",
    "version",
    "stand-ins",
];
/// Pages that belong to no use case of an operator with a role.
const OF_SIGN_IN: [(&str, &str); 14] = [
    ("GET", "/sign-in/oidc"),
    ("GET", "/sign-in/oidc/callback"),
    ("GET", "/account"),
    ("GET", "/account/password"),
    ("POST", "/account/password"),
    ("GET", "/account/sessions"),
    ("POST", "/account/sessions"),
    ("GET", "/"),
    ("GET", "/sign-in"),
    ("POST", "/sign-in"),
    ("GET", "/welcome"),
    ("POST", "/welcome"),
    ("POST", "/sign-out"),
    ("GET", "/healthz"),
];

fn cells(cell: impl Fn(&Row) -> &'static str) -> BTreeSet<String> {
    FACES.iter().map(cell).filter(|cell| !cell.starts_with('-')).map(str::to_owned).collect()
}

fn compare(what: &str, named: &BTreeSet<String>, known: &BTreeSet<String>) {
    let missing: Vec<_> = known.difference(named).collect();
    let unknown: Vec<_> = named.difference(known).collect();
    assert!(missing.is_empty(), "add rows for these {what} to the table: {missing:?}");
    assert!(unknown.is_empty(), "the table names {what} that do not exist: {unknown:?}");
}

fn commands() -> BTreeSet<String> {
    fn add(command: &clap::Command, path: &str, found: &mut BTreeSet<String>) {
        let path = format!("{path} {}", command.get_name());
        let is_group = command.is_subcommand_required_set();
        if !is_group {
            found.insert(path.trim().to_owned());
        }
        command.get_subcommands().for_each(|below| add(below, &path, found));
    }
    let (cli, mut found) = (Cli::command(), BTreeSet::new());
    cli.get_subcommands().for_each(|command| add(command, "", &mut found));
    found.retain(|name| !OF_THE_MACHINE.contains(&name.as_str()));
    found
}

#[test]
fn every_command_call_and_page_is_in_the_table() {
    let calls = console::admin_routes()
        .map(|(method, path)| format!("{method} {}", path.strip_prefix("/v1/admin").unwrap()));
    compare("calls", &cells(|row| row.3), &calls.collect());
    compare("commands", &cells(|row| row.2), &commands());
    let pages = console::ROUTES.iter().filter(|page| !OF_SIGN_IN.contains(page));
    compare("pages", &cells(|row| row.4), &pages.map(|(method, path)| format!("{method} {path}")).collect());
}

#[test]
fn every_empty_cell_states_a_reason() {
    for (permission, case, command, call, page) in FACES {
        for cell in [command, call, page] {
            let is_reason = cell.strip_prefix("- ").is_none_or(|reason| reason.len() > 8);
            assert!(!cell.is_empty() && is_reason, "{permission:?} {case}: {cell}");
        }
    }
}

#[test]
fn every_permission_of_a_role_and_every_use_case_of_the_table_exists() {
    for permission in Permission::ALL.iter().filter(|permission| permission.least_role().is_some()) {
        assert!(FACES.iter().any(|row| row.0 == *permission), "no row has the permission {permission:?}");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../libs/operations/src");
    for (_, case, ..) in FACES {
        let (module, name) = case.split_once("::").unwrap();
        let text = fs::read_to_string(root.join(format!("{module}.rs"))).unwrap_or_else(|_| panic!("{case}"));
        assert!(
            text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name}<")),
            "{case} does not exist"
        );
    }
}
