pub mod category;
pub mod device;
pub mod opt_out;
pub mod preference;
pub(crate) mod push_token;
pub mod topic;
pub mod user;
pub mod web_push;
