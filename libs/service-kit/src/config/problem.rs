use std::fmt;
use std::io;
use std::path::PathBuf;

/// No message shows the value of a secret.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the configuration file {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The message does not show the line, because it may contain a password.
    #[error("{}, line {line}: {message}", path.display())]
    Syntax { path: PathBuf, line: usize, message: String },
    #[error("{}", lines(.0))]
    Invalid(Vec<Problem>),
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<_> = problems.iter().map(|problem| format!("  {problem}")).collect();
    format!("the configuration cannot be used:\n{}", lines.join("\n"))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub key: String,
    pub origin: Origin,
    /// None for a secret.
    pub value: Option<String>,
    pub advice: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    File(PathBuf),
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
