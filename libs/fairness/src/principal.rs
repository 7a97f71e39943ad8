use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use domain::AppId;

use crate::peer::Peer;

/// Each kind of proof has a separate part of every room, and separate rate limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proof {
    Secret,
    /// A token or a signature that the app made for one of its users.
    Token,
    PublicKey,
    /// No credentials, or unverified ones.
    Nothing,
}

impl Proof {
    pub const ALL: [Proof; 4] = [Proof::Secret, Proof::Token, Proof::PublicKey, Proof::Nothing];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    App(AppId),
    User(AppId, Name),
    /// A user id that a peer sent without proof.
    UserAt(AppId, Name, Peer),
    Peer(Peer),
    Provider(AppId, Name),
    /// A token of the admin API, by its number.
    AdminToken(i64),
}

/// Hash of a name that a caller chose: of fixed size, and unpredictable for callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name(u64);

#[derive(Clone, Copy, Debug)]
pub struct Principal {
    proof: Proof,
    /// From the narrowest (such as a user) to the widest (such as an app).
    keys: [Option<Key>; 3],
}

impl Name {
    fn of(text: &str) -> Name {
        static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Name(HASHER.hash_one(text))
    }
}

impl Principal {
    pub fn backend(app: AppId) -> Principal {
        Principal { proof: Proof::Secret, keys: [Some(Key::App(app)), None, None] }
    }

    pub fn user(app: AppId, user: &str) -> Principal {
        let user = Key::User(app, Name::of(user));
        Principal { proof: Proof::Token, keys: [Some(user), Some(Key::App(app)), None] }
    }

    /// Peers that name the same user have separate shares, so that no peer can use up the share of another.
    pub fn claimed_user(app: AppId, user: &str, peer: Peer) -> Principal {
        let user = Key::UserAt(app, Name::of(user), peer);
        Principal { proof: Proof::PublicKey, keys: [Some(user), Some(Key::Peer(peer)), Some(Key::App(app))] }
    }

    /// Credentials are missing, or not verified yet.
    pub fn stranger(peer: Peer) -> Principal {
        Principal { proof: Proof::Nothing, keys: [Some(Key::Peer(peer)), None, None] }
    }

    /// The provider's signature is not verified yet.
    pub fn callback(app: AppId, provider: &str, peer: Peer) -> Principal {
        let provider = Key::Provider(app, Name::of(provider));
        Principal { proof: Proof::Nothing, keys: [Some(Key::Peer(peer)), Some(provider), None] }
    }

    pub fn admin_token(number: i64) -> Principal {
        Principal { proof: Proof::Secret, keys: [Some(Key::AdminToken(number)), None, None] }
    }

    /// A peer that recently sent an app's API secret.
    pub fn known_peer(peer: Peer) -> Principal {
        Principal { proof: Proof::Secret, keys: [Some(Key::Peer(peer)), None, None] }
    }

    /// A connection that carries the requests of many callers. It has no keys: only the total number of connections limits it.
    pub fn proxy() -> Principal {
        Principal { proof: Proof::Secret, keys: [None; 3] }
    }

    pub fn proof(&self) -> Proof {
        self.proof
    }

    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.keys.into_iter().flatten()
    }

    /// Keys that each get a share, from the widest to the narrowest. User ids sent without proof are left out, because a peer can send any
    /// number of them.
    pub fn shared_keys(&self) -> impl Iterator<Item = Key> {
        self.keys.into_iter().rev().flatten().filter(|key| !matches!(key, Key::UserAt(..)))
    }

    /// True also for connections of known peers and trusted proxies.
    pub fn has_secret(&self) -> bool {
        self.proof == Proof::Secret
    }
}
