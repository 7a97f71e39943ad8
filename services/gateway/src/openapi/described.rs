//! The bodies of requests. `domain::body!` declares each of them next to its reader.

use crate::deliveries::callbacks::twilio;
use crate::directory::{
    bulk, categories, connect, preference_page, preferences, profile, subscribers, subscriptions, topics,
    users,
};
use crate::inbox::{app_state, bulk as many, place};
use crate::sends::workflows;

web::described! {
    SendRequest: domain::request::SendBody,
    NewCategory: categories::CategoryToCreate,
    CategoryValues: categories::CategoryChange,
    TopicValues: topics::TopicValues,
    NewTopic: topics::NewTopic,
    NewSubscribers: subscribers::NewSubscribers,
    FormerSubscribers: subscribers::FormerSubscribers,
    NewChannels: subscribers::NewChannels,
    OwnChannels: subscriptions::OwnChannels,
    SubscriptionChanges: subscriptions::SubscriptionChanges,
    NewPreferences: preferences::NewPreferences,
    Profile: domain::profile::ProfileSchema,
    ProfileChange: profile::ProfileChange,
    JsonPatch: domain::profile::PatchSchema,
    NewUser: users::NewUser,
    ManyUsers: bulk::ManyUsers,
    Device: connect::DeviceBody,
    Subscription: domain::web_push::SubscriptionBody,
    NewState: app_state::NewState,
    BulkChange: many::BulkChange,
    Snooze: place::Snooze,
    WorkflowRuns: workflows::WorkflowRuns,
    ChoicesForm: preference_page::ChoicesForm,
    TwilioStatus: twilio::StatusForm,
    TwilioMessage: twilio::MessageForm,
}
