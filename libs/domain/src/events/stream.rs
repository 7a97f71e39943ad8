use std::fmt;
use std::str::FromStr;

use crate::problem::UnknownName;
use crate::{Channel, Lane};

/// A stream of the event log. Its subject is its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamName {
    Send(Lane),
    Job(Channel, Lane),
    /// One partition of the inbox: added items and all changes to them.
    Inbox(u32),
    Outcome,
}

impl StreamName {
    #[must_use]
    pub fn all(partitions: u32) -> Vec<StreamName> {
        let mut names: Vec<_> = Lane::ALL.iter().map(|&lane| StreamName::Send(lane)).collect();
        for channel in Channel::EXTERNAL {
            names.extend(Lane::ALL.iter().map(|&lane| StreamName::Job(channel, lane)));
        }
        names.extend((0..partitions).map(StreamName::Inbox));
        names.push(StreamName::Outcome);
        names
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamName::Send(lane) => write!(f, "SEND_{lane}"),
            StreamName::Job(channel, lane) => write!(f, "JOB_{channel}_{lane}"),
            StreamName::Inbox(partition) => write!(f, "INBOX_{partition}"),
            StreamName::Outcome => f.write_str("OUTCOME"),
        }
    }
}

impl FromStr for StreamName {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let unknown = || UnknownName { kind: "StreamName", text: text.to_owned() };
        match text.split('_').collect::<Vec<_>>()[..] {
            ["SEND", lane] => Ok(StreamName::Send(lane.parse()?)),
            ["JOB", channel, lane] => Ok(StreamName::Job(channel.parse()?, lane.parse()?)),
            ["INBOX", partition] => partition.parse().map(StreamName::Inbox).map_err(|_| unknown()),
            ["OUTCOME"] => Ok(StreamName::Outcome),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stream_name_parses_back() {
        let names = StreamName::all(3);
        assert_eq!(names.len(), 2 + 8 + 3 + 1);
        for name in names {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        assert!("INBOX_x".parse::<StreamName>().is_err() && "JOB_email".parse::<StreamName>().is_err());
    }
}
