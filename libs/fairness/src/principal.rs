//! Principals: callers as the gateway's limits see them. Each use of a limited resource counts against its principal.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use domain::AppId;

use crate::peer::Peer;

/// Proof of a caller's identity. Each kind of proof has a separate part of every limited resource (room), and separate rate
/// limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proof {
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
    pub const ALL: [Proof; 4] = [Proof::Secret, Proof::Token, Proof::PublicKey, Proof::Nothing];
}

/// Subject of a limit: an app, a user, a peer or a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    App(AppId),
    /// A user of an app.
    User(AppId, Name),
    /// A user id that a peer sent, without proof, in a call to an app.
    UserAt(AppId, Name, Peer),
    Peer(Peer),
    /// A provider of an app.
    Provider(AppId, Name),
}

/// Hash of a name that a caller chose. It has a fixed size, and callers cannot predict it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name(u64);

/// A caller, described by how it proved its identity and by the subjects (such as user, peer and app) whose shares it uses.
#[derive(Clone, Copy, Debug)]
pub struct Principal {
    proof: Proof,
    /// Keys from the narrowest (such as a user) to the widest (such as an app).
    keys: [Option<Key>; 3],
}

impl Name {
    fn of(text: &str) -> Name {
        static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Name(HASHER.hash_one(text))
    }
}

impl Principal {
    /// Creates the principal of a request from an app's backend.
    pub fn backend(app: AppId) -> Principal {
        Principal { proof: Proof::Secret, keys: [Some(Key::App(app)), None, None] }
    }

    /// Creates the principal of a user with a token or a signature of the app.
    pub fn user(app: AppId, user: &str) -> Principal {
        let user = Key::User(app, Name::of(user));
        Principal { proof: Proof::Token, keys: [Some(user), Some(Key::App(app)), None] }
    }

    /// Creates the principal of a caller that knows only an app's public key and names a user. Peers that name the same user have
    /// separate shares, so that no peer can use up the share of another.
    pub fn claimed_user(app: AppId, user: &str, peer: Peer) -> Principal {
        let user = Key::UserAt(app, Name::of(user), peer);
        Principal { proof: Proof::PublicKey, keys: [Some(user), Some(Key::Peer(peer)), Some(Key::App(app))] }
    }

    /// Creates the principal of a caller without credentials, or with credentials that are not verified yet.
    pub fn stranger(peer: Peer) -> Principal {
        Principal { proof: Proof::Nothing, keys: [Some(Key::Peer(peer)), None, None] }
    }

    /// Creates the principal of a caller that claims to be a provider. The provider's signature is not verified yet.
    pub fn callback(app: AppId, provider: &str, peer: Peer) -> Principal {
        let provider = Key::Provider(app, Name::of(provider));
        Principal { proof: Proof::Nothing, keys: [Some(Key::Peer(peer)), Some(provider), None] }
    }

    /// Creates the principal of a connection from a peer that recently sent an app's API secret.
    pub fn known_peer(peer: Peer) -> Principal {
        Principal { proof: Proof::Secret, keys: [Some(Key::Peer(peer)), None, None] }
    }

    /// Creates the principal of a connection from a trusted proxy. A proxy's connections carry the requests of many callers, so this
    /// principal has no keys: only the total number of connections limits it.
    pub fn proxy() -> Principal {
        Principal { proof: Proof::Secret, keys: [None; 3] }
    }

    pub fn proof(&self) -> Proof {
        self.proof
    }

    /// Iterates over all keys, from the narrowest to the widest.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.keys.into_iter().flatten()
    }

    /// Iterates over the keys that each get a share of a room, from the widest to the narrowest. User ids sent without proof are
    /// left out, because a peer can send any number of them. Only the peer is limited in that case.
    pub fn shared_keys(&self) -> impl Iterator<Item = Key> {
        self.keys.into_iter().rev().flatten().filter(|key| !matches!(key, Key::UserAt(..)))
    }

    /// Returns true if the proof is an app's API secret. Connections of known peers and trusted proxies have this proof too.
    pub fn has_secret(&self) -> bool {
        self.proof == Proof::Secret
    }
}
