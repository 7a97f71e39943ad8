mod address;
mod change;
mod keys;
mod patch;
mod tokens;
mod unproven;

pub use address::{NoAddress, WrittenEmail, email, malformed, phone, push_targets};
pub use change::{Author, Change, Refusal, merged, seen_by};
pub use keys::{APP_KEY, ProfileSchema, check};
pub use patch::{MAX_OPERATIONS, MAX_USER_OPERATIONS, MAX_WORK, Patch, PatchFailure, PatchSchema};
pub use tokens::{MAX_TARGET, MAX_TOKENS, TokenChange, count_tokens, remove_token};
pub use unproven::{Unproven, lacks_proof};

use tokens::merge;

/// Size as JSON text, in bytes.
pub const MAX_PROFILE: usize = 64 * 1024;
