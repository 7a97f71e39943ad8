use std::fmt;
use std::net::IpAddr;

use uuid::Uuid;

use crate::UserNumber;
use crate::text_enum::text_enum;

text_enum! {
    ActorKind {
        /// A person who signed in to the console.
        Operator = "operator",
        /// A program with a token of the admin API.
        Token = "token",
        /// The backend of an app.
        App = "app",
        /// A user of an app.
        User = "user",
        /// A person at a terminal.
        Cli = "cli",
        /// A process of Tidings.
        System = "system",
    }
}

/// Circumstances of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub ip: IpAddr,
    pub request: Uuid,
}

/// The author of a change. `Display` is the text in the audit log, which contains no personal data of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    Operator(i64),
    /// A program that called the admin API, by the name of its token.
    Token(String),
    /// An operator who sent a request to the console.
    OperatorRequest(i64, Origin),
    /// A caller with the API secret of an app, by the IP address of the call.
    App(IpAddr),
    User(UserNumber),
    /// An operator who ran a command, by the account on the machine.
    Cli(String),
    /// A process of Tidings that acts without a caller.
    System,
}

impl Actor {
    #[must_use]
    pub fn kind(&self) -> ActorKind {
        match self {
            Actor::Operator(_) | Actor::OperatorRequest(..) => ActorKind::Operator,
            Actor::Token(_) => ActorKind::Token,
            Actor::App(_) => ActorKind::App,
            Actor::User(_) => ActorKind::User,
            Actor::Cli(_) => ActorKind::Cli,
            Actor::System => ActorKind::System,
        }
    }

    /// Returns the address of the caller, if it sent a request.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Actor::App(ip) | Actor::OperatorRequest(_, Origin { ip, .. }) => Some(*ip),
            _ => None,
        }
    }

    /// Returns the id of the request to the console.
    #[must_use]
    pub fn request(&self) -> Option<Uuid> {
        if let Actor::OperatorRequest(_, origin) = self { Some(origin.request) } else { None }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Actor::Operator(number) | Actor::OperatorRequest(number, _) => write!(f, "operator:{number}"),
            Actor::Token(name) => write!(f, "token:{name}"),
            Actor::App(address) => write!(f, "api:{address}"),
            Actor::User(number) => write!(f, "user:{number}"),
            Actor::Cli(account) => write!(f, "cli:{account}"),
            Actor::System => f.write_str("system"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn actors_of_commands_and_of_the_api_keep_their_texts() {
        assert_eq!(Actor::Cli("ada".to_owned()).to_string(), "cli:ada");
        assert_eq!(Actor::App(Ipv6Addr::LOCALHOST.into()).to_string(), "api:::1");
        assert_eq!(Actor::User(UserNumber(7)).to_string(), "user:7");
    }
}
