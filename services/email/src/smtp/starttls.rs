//! The unencrypted conversation up to STARTTLS (RFC 3207). We do not use the library's implementation: it would treat
//! bytes that an attacker injects after the reply to STARTTLS as part of the encrypted conversation.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::failure::{Failure, Reply, Stage};

/// Maximum size of one reply in octets. A greeting and the reply to EHLO are smaller.
const ANSWER: usize = 16 << 10;

/// Reads the greeting, and sends EHLO and STARTTLS. Afterwards the server waits for the TLS handshake.
pub(super) async fn negotiate(stream: &mut TcpStream, client: &str) -> Result<(), Failure> {
    let mut conversation = Conversation { stream, read: Vec::new() };
    conversation.answer().await?;
    let features = conversation.send_command(&format!("EHLO {client}\r\n")).await?;
    let offers = features.text.split('\n').any(|line| line.trim().eq_ignore_ascii_case("STARTTLS"));
    if !offers {
        return Err(broken("the server offers no STARTTLS"));
    }
    conversation.send_command("STARTTLS\r\n").await?;
    if conversation.read.is_empty() {
        Ok(())
    } else {
        Err(broken("unencrypted bytes followed the reply to STARTTLS"))
    }
}

struct Conversation<'a> {
    stream: &'a mut TcpStream,
    /// Bytes that were received but not parsed yet.
    read: Vec<u8>,
}

impl Conversation<'_> {
    async fn send_command(&mut self, command: &str) -> Result<Reply, Failure> {
        self.stream.write_all(command.as_bytes()).await.map_err(|error| broken(&error.to_string()))?;
        self.answer().await
    }

    /// Reads the next reply. Line feeds separate the lines of its text. Returns an error if the code is not 2xx.
    async fn answer(&mut self) -> Result<Reply, Failure> {
        let mut text = String::new();
        let code = loop {
            let line = self.line().await?;
            let (code, rest) =
                line.split_at_checked(3).ok_or_else(|| broken("a line is not a valid reply"))?;
            text.push_str(rest.get(1..).unwrap_or_default());
            if !rest.starts_with('-') {
                break code.parse::<u16>().map_err(|_| broken("a line is not a valid reply"))?;
            }
            if text.len() > ANSWER {
                return Err(broken("an answer is too long"));
            }
            text.push('\n');
        };
        match code {
            200..300 => Ok(Reply { code, text }),
            _ => Err(Failure::Refused {
                stage: Stage::Connect,
                reply: Reply { code, text: text.replace('\n', " ") },
            }),
        }
    }

    async fn line(&mut self) -> Result<String, Failure> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                let line = String::from_utf8(line).map_err(|_| broken("an answer is not UTF-8"))?;
                return Ok(line.trim_end().to_owned());
            }
            if self.read.len() > ANSWER {
                return Err(broken("an answer is too long"));
            }
            let read =
                self.stream.read_buf(&mut self.read).await.map_err(|error| broken(&error.to_string()))?;
            if read == 0 {
                return Err(broken("the server closed the connection"));
            }
        }
    }
}

fn broken(cause: &str) -> Failure {
    Failure::Broken { stage: Stage::Connect, cause: cause.to_owned() }
}
