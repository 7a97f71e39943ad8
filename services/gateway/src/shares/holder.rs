//! Holders of shares, by how they are proven.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use domain::AppId;

use crate::shares::peer::Peer;

/// Authentication of a caller. Each kind has its own part of every room and its own buckets of every rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Proof {
    /// The app's API secret.
    Secret,
    /// A token or a signature that the app made for one of its users.
    Token,
    /// The app's public key, and any user id.
    PublicKey,
    /// Nothing.
    Nothing,
}

impl Proof {
    pub(crate) const ALL: [Proof; 4] = [Proof::Secret, Proof::Token, Proof::PublicKey, Proof::Nothing];
}

/// A party whose use is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    App(AppId),
    /// A user of an app.
    User(AppId, Name),
    /// A user id of an app, named from one peer.
    UserAt(AppId, Name, Peer),
    Peer(Peer),
    /// A provider of an app.
    Provider(AppId, Name),
}

/// A name that a caller chose, as a hash that callers cannot predict: of the same size however long the name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name(u64);

/// A caller, as far as shares depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    proof: Proof,
    /// From the narrowest to the widest.
    keys: [Option<Key>; 3],
}

impl Name {
    fn of(text: &str) -> Name {
        static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Name(HASHER.hash_one(text))
    }
}

impl Holder {
    /// An app's backend.
    pub(crate) fn backend(app: AppId) -> Holder {
        Holder { proof: Proof::Secret, keys: [Some(Key::App(app)), None, None] }
    }

    /// A user whom the app has signed for.
    pub(crate) fn user(app: AppId, user: &str) -> Holder {
        let user = Key::User(app, Name::of(user));
        Holder { proof: Proof::Token, keys: [Some(user), Some(Key::App(app)), None] }
    }

    /// A caller that knows an app's public key, and names a user. Another peer that names the same user has its own
    /// share, so that it cannot use up this one.
    pub(crate) fn claimed_user(app: AppId, user: &str, peer: Peer) -> Holder {
        let user = Key::UserAt(app, Name::of(user), peer);
        Holder { proof: Proof::PublicKey, keys: [Some(user), Some(Key::Peer(peer)), Some(Key::App(app))] }
    }

    /// A caller without credentials, or before they are verified.
    pub(crate) fn stranger(peer: Peer) -> Holder {
        Holder { proof: Proof::Nothing, keys: [Some(Key::Peer(peer)), None, None] }
    }

    /// A caller in the name of a provider, whose signature is not verified yet.
    pub(crate) fn callback(app: AppId, provider: &str, peer: Peer) -> Holder {
        let provider = Key::Provider(app, Name::of(provider));
        Holder { proof: Proof::Nothing, keys: [Some(Key::Peer(peer)), Some(provider), None] }
    }

    /// A peer from which an app's secret came lately.
    pub(crate) fn known_peer(peer: Peer) -> Holder {
        Holder { proof: Proof::Secret, keys: [Some(Key::Peer(peer)), None, None] }
    }

    /// A proxy that the configuration names: many callers in one, so that it has no share.
    pub(crate) fn proxy() -> Holder {
        Holder { proof: Proof::Secret, keys: [None; 3] }
    }

    pub(crate) fn proof(&self) -> Proof {
        self.proof
    }

    /// From the narrowest to the widest.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        self.keys.into_iter().flatten()
    }

    /// The keys that share rooms, from the widest to the narrowest. User ids that one peer names are one holder: it may
    /// name as many as it likes.
    pub(crate) fn shared_keys(&self) -> impl Iterator<Item = Key> {
        self.keys.into_iter().rev().flatten().filter(|key| !matches!(key, Key::UserAt(..)))
    }

    /// Returns true if it is an app's backend.
    pub(crate) fn has_secret(&self) -> bool {
        self.proof == Proof::Secret
    }
}
