//! Holders of shares, by their proof.

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
    /// The app's public key, with any user id.
    PublicKey,
    /// No credentials, or unverified ones.
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

/// A name that a caller chose, as a hash of fixed size that callers cannot predict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name(u64);

/// A caller, as shares identify it.
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

    /// A user that the app signed for.
    pub(crate) fn user(app: AppId, user: &str) -> Holder {
        let user = Key::User(app, Name::of(user));
        Holder { proof: Proof::Token, keys: [Some(user), Some(Key::App(app)), None] }
    }

    /// A caller that knows an app's public key and names a user. Each peer that names the same user has its own share, so
    /// that no peer can use up that of another.
    pub(crate) fn claimed_user(app: AppId, user: &str, peer: Peer) -> Holder {
        let user = Key::UserAt(app, Name::of(user), peer);
        Holder { proof: Proof::PublicKey, keys: [Some(user), Some(Key::Peer(peer)), Some(Key::App(app))] }
    }

    /// A caller without credentials, or before they are verified.
    pub(crate) fn stranger(peer: Peer) -> Holder {
        Holder { proof: Proof::Nothing, keys: [Some(Key::Peer(peer)), None, None] }
    }

    /// A caller that claims to be a provider, with a signature that is not verified yet.
    pub(crate) fn callback(app: AppId, provider: &str, peer: Peer) -> Holder {
        let provider = Key::Provider(app, Name::of(provider));
        Holder { proof: Proof::Nothing, keys: [Some(Key::Peer(peer)), Some(provider), None] }
    }

    /// A peer that recently sent an app's secret.
    pub(crate) fn known_peer(peer: Peer) -> Holder {
        Holder { proof: Proof::Secret, keys: [Some(Key::Peer(peer)), None, None] }
    }

    /// A trusted proxy. It carries many callers, so it has no share limit.
    pub(crate) fn proxy() -> Holder {
        Holder { proof: Proof::Secret, keys: [None; 3] }
    }

    pub(crate) fn proof(&self) -> Proof {
        self.proof
    }

    /// Iterates over the keys, from the narrowest to the widest.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        self.keys.into_iter().flatten()
    }

    /// Iterates over the keys that share rooms, from the widest to the narrowest. All user ids that one peer names count as
    /// one holder, because a peer can name any number of them.
    pub(crate) fn shared_keys(&self) -> impl Iterator<Item = Key> {
        self.keys.into_iter().rev().flatten().filter(|key| !matches!(key, Key::UserAt(..)))
    }

    /// Returns true if it is an app's backend.
    pub(crate) fn has_secret(&self) -> bool {
        self.proof == Proof::Secret
    }
}
