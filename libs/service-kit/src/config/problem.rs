//! Errors of the configuration.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Reason why the configuration cannot be used. No message shows the value of a secret.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read, for example because it is missing.
    #[error("cannot read the configuration file {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The file is not TOML. The message does not show the line, because it may contain a password.
    #[error("{}, line {line}: {message}", path.display())]
    Syntax {
        path: PathBuf,
        /// Line number from 1.
        line: usize,
        /// Message of the parser.
        message: String,
    },
    /// All unknown keys and unusable values.
    #[error("{}", lines(.0))]
    Invalid(Vec<Problem>),
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<_> = problems.iter().map(|problem| format!("  {problem}")).collect();
    format!("the configuration cannot be used:\n{}", lines.join("\n"))
}

/// One unusable setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The dotted key.
    pub key: String,
    /// Source of the value.
    pub origin: Origin,
    /// The value, unless it is a secret.
    pub value: Option<String>,
    /// The error, and how to correct it.
    pub advice: String,
}

/// Source of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// An environment variable of this name.
    Variable(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.key)?;
        if let Some(value) = &self.value {
            write!(f, " = {value:?}")?;
        }
        match &self.origin {
            Origin::Default => {}
            Origin::File(path) => write!(f, " (file {})", path.display())?,
            Origin::Variable(name) => write!(f, " (environment variable {name})")?,
        }
        write!(f, ": {}", self.advice)
    }
}
