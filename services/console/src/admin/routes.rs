//! The calls of the admin API. The router, the OpenAPI document and the page of the API all read this table.

use serde_json::json;

use super::route::parameter::{APP, CHANNEL, CURSOR, LIMIT, SINCE, flag, status, text, time, uuid};
use super::route::{Nothing, Parameter, routes};
use super::shape::{ChangedBody, Page};
use super::{access, apps, directory, installation, parked, people, providers, sends, templates, webhooks};

/// Tags of the document, with what their calls are about.
pub(super) const TAGS: [(&str, &str); 13] = [
    ("apps", "Apps, their settings and their credentials."),
    ("providers", "The providers of an app. Secrets are never shown."),
    ("templates", "Templates and their versions."),
    ("webhooks", "Endpoints that the backend of an app has for events."),
    ("categories", "Categories of notifications."),
    ("topics", "Named lists of users to which an app can send."),
    ("requests", "Sends, and what became of them."),
    ("people", "People, with masked targets."),
    ("waiting", "Deliveries that wait for a provider."),
    ("parked", "Messages whose last retry failed, and redrives."),
    ("installation", "Figures, processes, the audit log and refused calls."),
    ("operators", "People who sign in to the console."),
    ("tokens", "Tokens of this API."),
];

const CATEGORY: Parameter =
    Parameter { name: "category", schema: text, about: "Only sends of this category." };
const PROVIDER: Parameter =
    Parameter { name: "provider", schema: text, about: "Only deliveries that this provider made last." };
const CAUSE: Parameter = Parameter { name: "cause", schema: text, about: "Only messages with this cause." };
const DELIVERY: Parameter = Parameter { name: "delivery", schema: uuid, about: "Only this delivery." };
const BEFORE: Parameter =
    Parameter { name: "before", schema: time, about: "Only messages parked before this time." };
const RECIPIENT: Parameter =
    Parameter { name: "recipient", schema: text, about: "Only this user, by identifier." };
const STATUS: Parameter =
    Parameter { name: "status", schema: status, about: "Only deliveries with this status." };
const ANY_CHANNEL: Parameter = Parameter {
    name: "channel",
    schema: || json!({"$ref": "#/components/schemas/Channel"}),
    about: "Only this channel.",
};
const EMAIL: Parameter = Parameter {
    name: "email",
    schema: text,
    about: "Only people with this email address. Needs the role support.",
};
const PHONE: Parameter = Parameter {
    name: "phoneNumber",
    schema: text,
    about: "Only people with this phone number. Needs the role support.",
};
const START: Parameter = Parameter {
    name: "q",
    schema: text,
    about: "Only people whose identifier, email address or name begins with this text. Needs the role support.",
};
const PERSON: Parameter =
    Parameter { name: "person", schema: text, about: "Identifier of the person; required." };
const REQUEST: Parameter =
    Parameter { name: "request", schema: uuid, about: "The `requestId` of a send to explain." };
const NOW: Parameter = Parameter {
    name: "now",
    schema: flag,
    about: "True: also what a send would do now. By default true with `request`, otherwise false.",
};
const SENDS: Parameter = Parameter {
    name: "sends",
    schema: flag,
    about: "False: without the latest sends, for what a send would do now. Default: true.",
};
const DRY_RUN: Parameter = Parameter {
    name: "dryRun",
    schema: flag,
    about: "True: check the document, and change nothing. Default: false.",
};
const ACTOR_KIND: Parameter = Parameter {
    name: "actorKind",
    schema: || json!({"type": "string", "enum": domain::ActorKind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>()}),
    about: "Only rows by this kind of actor.",
};
const REFUSED_STATUS: Parameter = Parameter {
    name: "status",
    schema: || json!({"type": "integer", "format": "int32", "minimum": 400, "maximum": 499}),
    about: "Only calls that were answered with this status.",
};
const CODE: Parameter = Parameter { name: "code", schema: text, about: "Only calls with this error code." };
const LIMIT_OF_EXPLAIN: Parameter = Parameter {
    name: "limit",
    schema: || json!({"type": "integer", "format": "int64", "minimum": 1, "maximum": 50, "default": 10}),
    about: "Maximum number of sends.",
};

routes! { ROUTES:
    /// Lists the apps that the token may see.
    GET "/apps" "listApps" "apps" View => 200 Page<apps::AppBody> = apps::list;
    /// Creates an app.
    /// The answer shows its API secret once.
    POST "/apps" "createApp" "apps" ManageApps body [apps::NewApp] fails ["409"] => 201 apps::CreatedApp = apps::create;
    /// Shows an app.
    GET "/apps/{app}" "getApp" "apps" View => 200 apps::AppBody = apps::show;
    /// Changes settings of an app.
    /// If one of them is not valid, none is changed. Services notice within five seconds.
    PATCH "/apps/{app}" "changeApp" "apps" ManageApps body [apps::AppChange] => 200 apps::AppBody = apps::change;
    /// Creates a new API secret.
    /// The previous one stays valid for a while. The answer shows the new one once.
    POST "/apps/{app}/secrets" "rotateSecret" "apps" ManageSecrets body [apps::Rotation] => 201 apps::CreatedSecret = apps::rotate_secret;
    /// Creates a new key for links in messages.
    POST "/apps/{app}/link-key" "rotateLinkKey" "apps" ManageSecrets body [apps::Rotation] => 201 apps::LinkKeyVersion = apps::rotate_link_key;
    /// Lists the signing keys.
    GET "/apps/{app}/signing-keys" "listSigningKeys" "apps" View => 200 Page<apps::SigningKeyBody> = apps::list_signing_keys;
    /// Creates a signing key.
    /// The answer shows its private key or secret once.
    POST "/apps/{app}/signing-keys" "createSigningKey" "apps" ManageSecrets body [apps::NewSigningKey] fails ["409"]
        => 201 apps::CreatedSigningKey = apps::create_signing_key;
    /// Revokes a signing key.
    /// Tokens that it signed are refused within five seconds.
    DELETE "/apps/{app}/signing-keys/{kid}" "revokeSigningKey" "apps" ManageSecrets => 204 Nothing = apps::revoke_signing_key;

    /// Lists the providers.
    GET "/apps/{app}/providers" "listProviders" "providers" View => 200 Page<providers::ProviderBody> = providers::list;
    /// Shows a provider.
    GET "/apps/{app}/providers/{provider}" "getProvider" "providers" View => 200 providers::ProviderBody = providers::show;
    /// Creates or replaces a provider.
    /// A secret that the document leaves out stays unchanged, and null removes it. With `If-Match`, the call changes nothing unless the
    /// provider has this version.
    PUT "/apps/{app}/providers/{provider}" "putProvider" "providers" ManageProviders query [DRY_RUN] body [providers::ProviderDocumentSchema] fails ["412"]
        => 200 providers::SetProvider = providers::put;
    /// Lets a worker of the channel call a provider with its stored settings.
    /// Nothing is sent to a person.
    POST "/apps/{app}/providers/{provider}/test" "testProvider" "providers" ManageProviders body [providers::TestValues] => 200 providers::TestBody = providers::test;
    /// Enables a provider.
    POST "/apps/{app}/providers/{provider}/enable" "enableProvider" "providers" ManageProviders => 200 providers::ProviderVersion = providers::enable;
    /// Disables a provider.
    POST "/apps/{app}/providers/{provider}/disable" "disableProvider" "providers" ManageProviders => 200 providers::ProviderVersion = providers::disable;
    /// Removes a provider and its secrets permanently.
    DELETE "/apps/{app}/providers/{provider}" "removeProvider" "providers" ManageProviders => 204 Nothing = providers::remove;

    /// Lists the newest version of each template.
    GET "/apps/{app}/templates" "listTemplates" "templates" View => 200 Page<templates::SummaryBody> = templates::list;
    /// Shows the newest version of a template.
    GET "/apps/{app}/templates/{template}" "getTemplate" "templates" View => 200 templates::VersionBody = templates::show;
    /// Adds a version to a template, and creates the template if it does not exist.
    /// Sends use the new version at once. With `If-Match`, the call changes nothing unless the template has this version.
    PUT "/apps/{app}/templates/{template}" "putTemplate" "templates" EditTemplates body [templates::TemplateDocumentSchema] fails ["412"]
        => 200 templates::PutTemplate = templates::put;
    /// Lists the versions of a template, newest first.
    GET "/apps/{app}/templates/{template}/versions" "listTemplateVersions" "templates" View => 200 Page<templates::SummaryBody> = templates::versions;
    /// Shows a version of a template.
    GET "/apps/{app}/templates/{template}/versions/{version}" "getTemplateVersion" "templates" View => 200 templates::VersionBody = templates::version;
    /// Adds a version with the content of an earlier one.
    POST "/apps/{app}/templates/{template}/versions/{version}/restore" "restoreTemplate" "templates" EditTemplates
        => 200 templates::PutTemplate = templates::restore;
    /// Renders a template as a recipient would get it, without sending anything.
    POST "/apps/{app}/templates/{template}/preview" "previewTemplate" "templates" View body [templates::PreviewSample]
        => 200 templates::PreviewBody = templates::preview;

    /// Sends a version of a template to a person who is marked for tests.
    /// Titles and subjects begin with `[Test]`. Preferences do not apply. A token may send 20 tests in an hour.
    POST "/apps/{app}/templates/{template}/test-send" "testTemplate" "templates" EditTemplates body [templates::NewTestSend] fails ["409"]
        => 201 Page<templates::TestSendBody> = templates::test_send;

    /// Lists the webhook endpoints.
    GET "/apps/{app}/webhooks" "listWebhooks" "webhooks" View => 200 Page<webhooks::EndpointBody> = webhooks::list;
    /// Creates an endpoint, or changes the events of one and enables it.
    /// The answer shows the secret of a new endpoint once.
    POST "/apps/{app}/webhooks" "putWebhook" "webhooks" ManageWebhooks body [webhooks::EndpointValues] fails ["409"]
        => 200 webhooks::PutEndpoint = webhooks::put;
    /// Removes an endpoint with its secrets and messages.
    DELETE "/apps/{app}/webhooks/{endpoint}" "removeWebhook" "webhooks" ManageWebhooks => 204 Nothing = webhooks::remove;
    /// Creates a new secret for an endpoint.
    POST "/apps/{app}/webhooks/{endpoint}/secret" "rotateWebhookSecret" "webhooks" ManageWebhooks body [webhooks::EndpointRotation]
        => 201 webhooks::EndpointSecret = webhooks::rotate;
    /// Lists the messages that Tidings gave up on, latest first.
    GET "/apps/{app}/webhooks/{endpoint}/failed" "listFailedWebhooks" "webhooks" View => 200 Page<webhooks::FailedMessageBody> = webhooks::failed;
    /// Delivers the messages that Tidings gave up on again.
    POST "/apps/{app}/webhooks/{endpoint}/redeliver" "redeliverWebhooks" "webhooks" ManageWebhooks body [webhooks::Redelivery] fails ["409"]
        => 200 ChangedBody = webhooks::redeliver;

    /// Lists the categories.
    GET "/apps/{app}/categories" "listCategories" "categories" Browse query [LIMIT, CURSOR]
        => 200 Page<directory::CategoryBody> = directory::list_categories;
    /// Creates a category, or changes values of one.
    PUT "/apps/{app}/categories/{category}" "putCategory" "categories" EditCategories body [directory::CategoryChange]
        => 200 directory::CategoryBody = directory::put_category;
    /// Deletes a category, by its id, and the users' preferences for it.
    DELETE "/apps/{app}/categories/{category}" "removeCategory" "categories" EditCategories => 204 Nothing = directory::remove_category;
    /// Lists the topics.
    GET "/apps/{app}/topics" "listTopics" "topics" Browse query [LIMIT, CURSOR] => 200 Page<directory::TopicBody> = directory::list_topics;
    /// Creates a topic, or changes values of one.
    PUT "/apps/{app}/topics/{topic}" "putTopic" "topics" ChangeTopics body [directory::TopicChange] => 200 directory::TopicBody = directory::put_topic;
    /// Deletes a topic and its subscriptions.
    DELETE "/apps/{app}/topics/{topic}" "removeTopic" "topics" ChangeTopics => 204 Nothing = directory::remove_topic;

    /// Lists the sends of an app, latest first.
    GET "/apps/{app}/requests" "listRequests" "requests" View query [RECIPIENT, CATEGORY, STATUS, SINCE, LIMIT, CURSOR]
        => 200 Page<sends::SendBody> = sends::list;
    /// Shows the state of a send.
    GET "/apps/{app}/requests/{request}" "getRequest" "requests" View => 200 sends::RequestState = sends::show;
    /// Lists what became of a send for each recipient and channel.
    GET "/apps/{app}/requests/{request}/deliveries" "listDeliveries" "requests" View query [RECIPIENT, ANY_CHANNEL, STATUS, LIMIT, CURSOR]
        => 200 Page<sends::DeliveryBody> = sends::deliveries;
    /// Cancels the deliveries of a send that no provider has received yet.
    DELETE "/apps/{app}/requests/{request}" "cancelRequest" "requests" CancelRequests => 200 ChangedBody = sends::cancel;

    /// Lists people, or searches them.
    GET "/apps/{app}/people" "listPeople" "people" View query [EMAIL, PHONE, START, LIMIT, CURSOR] => 200 Page<people::PersonBody> = people::list;
    /// Shows a person.
    GET "/apps/{app}/people/{person}" "getPerson" "people" View => 200 people::ShownPerson = people::show;
    /// Erases a person permanently.
    /// Remaining data is deleted within minutes.
    DELETE "/apps/{app}/people/{person}" "erasePerson" "people" EraseUsers => 204 Nothing = people::erase;
    /// Explains why a person got a notification or did not.
    GET "/apps/{app}/explain" "explain" "people" View query [PERSON, REQUEST, CATEGORY, SINCE, LIMIT_OF_EXPLAIN, CURSOR, NOW, SENDS]
        => 200 people::ExplanationBody = people::explain;
    /// Lists suppressed targets, latest first.
    GET "/suppressions" "listSuppressions" "people" View query [APP, CHANNEL, LIMIT, CURSOR]
        => 200 Page<people::SuppressionBody> = people::list_suppressions;
    /// Lifts the suppression that a delivery led to, or that of a target in full.
    DELETE "/apps/{app}/suppressions/{channel}/{delivery}" "liftSuppression" "people" LiftSuppressions
        => 200 people::LiftedSuppression = people::lift_suppression;

    /// Lists the deliveries that wait for a provider, grouped by cause.
    /// The answer has all groups; there are as many as causes.
    GET "/waiting" "listWaiting" "waiting" View query [APP] => 200 Page<sends::WaitingBody> = sends::waiting;
    /// Tries up to 10,000 waiting deliveries of a cause now.
    /// While the provider may not be called, they wait again.
    POST "/apps/{app}/waiting/release" "releaseWaiting" "waiting" Redrive body [sends::WaitingCauseBody] => 200 ChangedBody = sends::release;

    /// Lists parked messages, earliest first.
    GET "/parked" "listParked" "parked" View query [APP, CHANNEL, PROVIDER, CAUSE, CATEGORY, DELIVERY, SINCE, BEFORE, LIMIT, CURSOR]
        => 200 Page<parked::ParkedBody> = parked::list;
    /// Shows a parked message, by its id or that of its delivery, with the attempts.
    GET "/parked/{message}" "getParked" "parked" View => 200 parked::ShownParked = parked::show;
    /// Shows what a redrive would do now, and changes nothing.
    POST "/apps/{app}/parked/preview" "previewRedrive" "parked" Redrive body [parked::ParkedSelection] => 200 parked::PreviewBody = parked::preview;
    /// Lists the latest 100 redrives.
    GET "/apps/{app}/redrives" "listRedrives" "parked" View => 200 Page<parked::RedriveBody> = parked::list_redrives;
    /// Starts a redrive, which the dispatcher makes in the background.
    /// Each message is judged again when its turn comes.
    POST "/apps/{app}/redrives" "startRedrive" "parked" Redrive body [parked::NewRedriveBody] fails ["409"] => 201 parked::RedriveBody = parked::start;
    /// Shows a redrive.
    GET "/apps/{app}/redrives/{redrive}" "getRedrive" "parked" View => 200 parked::RedriveBody = parked::show_redrive;
    /// Pauses a redrive.
    POST "/apps/{app}/redrives/{redrive}/pause" "pauseRedrive" "parked" Redrive fails ["409"] => 200 parked::RedriveBody = parked::pause;
    /// Resumes a paused redrive.
    POST "/apps/{app}/redrives/{redrive}/resume" "resumeRedrive" "parked" Redrive fails ["409"] => 200 parked::RedriveBody = parked::resume;
    /// Stops a redrive. The other messages stay parked.
    POST "/apps/{app}/redrives/{redrive}/stop" "stopRedrive" "parked" Redrive fails ["409"] => 200 parked::RedriveBody = parked::stop;

    /// Shows the figures of an app for the last hour.
    GET "/apps/{app}/overview" "getOverview" "installation" View => 200 installation::OverviewBody = installation::overview;
    /// Lists the latest calls of an app that the API refused.
    GET "/apps/{app}/refused" "listRefusedCalls" "installation" View query [REFUSED_STATUS, CODE, LIMIT, CURSOR]
        => 200 Page<installation::RefusedBody> = installation::refused;
    /// Lists the processes that run, and the work that waits for them.
    GET "/processes" "listProcesses" "installation" View => 200 installation::ProcessesBody = installation::processes;
    /// Lists rows of the audit log, latest first.
    GET "/audit" "listAudit" "installation" ReadAuditLog query [APP, ACTOR_KIND, SINCE, LIMIT, CURSOR]
        => 200 Page<installation::AuditBody> = installation::list_audit;

    /// Lists the operators.
    GET "/operators" "listOperators" "operators" ManageOperators => 200 Page<access::OperatorBody> = access::list_operators;
    /// Creates an operator.
    POST "/operators" "createOperator" "operators" ManageOperators body [access::NewOperator] fails ["409"] => 201 access::LinkBody = access::create_operator;
    /// Disables an operator, whose sessions end, or enables one again.
    PATCH "/operators/{email}" "changeOperator" "operators" ManageOperators body [access::OperatorChange] => 204 Nothing = access::change_operator;
    /// Gives an operator a role in an app or in all, in place of the former one there.
    /// The operator's sessions end.
    PUT "/operators/{email}/role" "grantRole" "operators" ManageOperators body [access::RoleOfOperator] fails ["409"] => 204 Nothing = access::grant;
    /// Removes a role of an operator.
    /// The operator's sessions end. The last administrator keeps the role.
    DELETE "/operators/{email}/role" "revokeRole" "operators" ManageOperators query [APP] fails ["409"] => 204 Nothing = access::revoke_role;
    /// Creates a link with which an operator chooses a new password.
    POST "/operators/{email}/link" "linkOperator" "operators" ManageOperators => 201 access::LinkBody = access::link_operator;
    /// Unlinks an operator from the identities at OpenID providers.
    /// Their roles by group and the sessions end. The next identity with the operator's email is linked instead.
    DELETE "/operators/{email}/identity" "unlinkOperator" "operators" ManageOperators => 204 Nothing = access::unlink_operator;

    /// Lists the latest 1,000 tokens, also ended ones.
    GET "/tokens" "listTokens" "tokens" ManageTokens query [APP] => 200 Page<access::TokenBody> = access::list_tokens;
    /// Creates a token.
    /// The answer shows its text once.
    POST "/tokens" "createToken" "tokens" ManageTokens body [access::NewTokenBody] fails ["409"] => 201 access::CreatedToken = access::create_token;
    /// Revokes a token.
    DELETE "/tokens/{token}" "revokeToken" "tokens" ManageTokens => 204 Nothing = access::revoke_token;
}
