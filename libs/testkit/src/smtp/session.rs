//! One conversation with a client.

use std::io;
use std::sync::atomic::Ordering;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Server;
use super::script::{Reaction, Stage, reply_by_name};
use super::wire::{Flaw, Wire};

/// Octets of a command line; AUTH needs more than the 512 of RFC 5321 (RFC 4954 section 4).
const COMMAND_LINE: usize = 12_288;
/// Octets of a line of content (RFC 5321 section 4.5.3.1.6).
const CONTENT_LINE: usize = 1_000;
const MAX_RECIPIENTS: usize = 100;

/// How a conversation goes on after a command.
enum Next {
    Command,
    /// Say what is to be said, then close.
    Close,
    /// Close without a word.
    Cut,
    /// Neither speak nor listen.
    Stall,
}

struct Session<'a, S> {
    wire: Wire<S>,
    server: &'a Server,
    greeted: bool,
    logged_in: bool,
    from: Option<String>,
    to: Vec<String>,
}

/// Talks with the client at `stream` until one of the two ends it.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(stream: S, server: &Server) -> io::Result<()> {
    let mut session = Session {
        wire: Wire::new(stream, server.settings.idle),
        server,
        greeted: false,
        logged_in: false,
        from: None,
        to: Vec::new(),
    };
    match session.talk().await? {
        Next::Command | Next::Close => session.wire.close().await,
        Next::Cut => Ok(()),
        Next::Stall => session.wire.wait_for_end().await,
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    async fn talk(&mut self) -> io::Result<Next> {
        if self.server.open.load(Ordering::Relaxed) > self.server.settings.max_connections {
            self.wire.reply("421 4.3.2 too many connections");
            return Ok(Next::Close);
        }
        match self.react(Stage::Connect) {
            Some(Next::Command) => return Ok(Next::Close),
            Some(next) => return Ok(next),
            None => self.wire.reply("220 stand-in.invalid ESMTP"),
        }
        loop {
            if let Err(flaw) = self.wire.read_line(COMMAND_LINE).await? {
                self.wire.reply(&format!("500 {}", flaw.text()));
                return Ok(Next::Close);
            }
            match self.obey().await? {
                Next::Command => {}
                end => return Ok(end),
            }
        }
    }

    /// What the script says about `stage`, done as far as it is an answer.
    fn react(&mut self, stage: Stage) -> Option<Next> {
        let reaction = self.server.script.take(stage, &self.to)?;
        Some(self.perform(reaction))
    }

    fn perform(&mut self, reaction: Reaction) -> Next {
        match reaction {
            Reaction::Answer(text) => {
                self.wire.reply(&text);
                if text.starts_with("421") { Next::Close } else { Next::Command }
            }
            Reaction::Cut => Next::Cut,
            Reaction::Stall => Next::Stall,
        }
    }

    async fn obey(&mut self) -> io::Result<Next> {
        let Ok(line) = String::from_utf8(self.wire.last_line().to_vec()) else {
            self.wire.reply("500 5.5.2 not UTF-8");
            return Ok(Next::Command);
        };
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" => Ok(self.hello(rest, true)),
            "HELO" => Ok(self.hello(rest, false)),
            "AUTH" => self.auth(rest).await,
            "MAIL" => Ok(self.mail(rest)),
            "RCPT" => Ok(self.rcpt(rest)),
            "DATA" => self.data().await,
            "RSET" => {
                self.forget();
                Ok(self.say("250 2.0.0 reset"))
            }
            "NOOP" => Ok(self.say("250 2.0.0 ok")),
            "VRFY" => Ok(self.say("252 2.1.5 send and see")),
            "QUIT" => {
                self.wire.reply("221 2.0.0 bye");
                Ok(Next::Close)
            }
            _ => Ok(self.say("502 5.5.1 not implemented")),
        }
    }

    fn say(&mut self, reply: &str) -> Next {
        self.wire.reply(reply);
        Next::Command
    }

    fn forget(&mut self) {
        self.from = None;
        self.to.clear();
    }

    fn hello(&mut self, name: &str, extended: bool) -> Next {
        if name.trim().is_empty() {
            return self.say("501 5.5.4 who are you?");
        }
        if let Some(next) = self.react(Stage::Hello) {
            return next;
        }
        self.forget();
        self.greeted = true;
        if !extended {
            return self.say("250 stand-in.invalid");
        }
        self.wire.reply("250-stand-in.invalid");
        self.wire.reply(&format!("250-SIZE {}", self.server.settings.max_size));
        if self.server.settings.login.is_some() {
            self.wire.reply("250-AUTH PLAIN LOGIN");
        }
        if self.server.settings.pipelining {
            self.wire.reply("250-PIPELINING");
        }
        self.wire.reply("250-8BITMIME\r\n250-SMTPUTF8");
        self.say("250 ENHANCEDSTATUSCODES")
    }

    async fn auth(&mut self, rest: &str) -> io::Result<Next> {
        if let Some(next) = self.react(Stage::Auth) {
            return Ok(next);
        }
        let Some((user, password)) = &self.server.settings.login else {
            return Ok(self.say("502 5.5.1 no authentication here"));
        };
        if !self.greeted || self.logged_in || self.from.is_some() {
            return Ok(self.say("503 5.5.1 not now"));
        }
        let (mechanism, initial) = rest.split_once(' ').unwrap_or((rest, ""));
        let given = match mechanism.to_ascii_uppercase().as_str() {
            "PLAIN" => {
                let answer = self.challenge(initial, "").await?;
                let mut parts = answer.split('\0').skip(1).map(str::to_owned);
                (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
            }
            "LOGIN" => (self.challenge(initial, "Username:").await?, self.challenge("", "Password:").await?),
            _ => return Ok(self.say("504 5.5.4 unknown mechanism")),
        };
        self.logged_in = given.0 == *user && given.1 == *password;
        let verdict = if self.logged_in { "235 2.7.0 welcome" } else { "535 5.7.8 wrong user or password" };
        Ok(self.say(verdict))
    }

    /// The client's answer to a challenge, given with its command or asked for.
    async fn challenge(&mut self, initial: &str, prompt: &str) -> io::Result<String> {
        let encoded = if initial.is_empty() {
            self.wire.reply(&format!("334 {}", STANDARD.encode(prompt)));
            if self.wire.read_line(COMMAND_LINE).await?.is_err() {
                return Ok(String::new());
            }
            self.wire.last_line().to_vec()
        } else {
            initial.as_bytes().to_vec()
        };
        let decoded = STANDARD.decode(encoded).unwrap_or_default();
        Ok(String::from_utf8(decoded).unwrap_or_default())
    }

    fn mail(&mut self, rest: &str) -> Next {
        if !self.greeted || self.from.is_some() {
            return self.say("503 5.5.1 not now");
        }
        if self.server.settings.login.is_some() && !self.logged_in {
            return self.say("530 5.7.0 authentication required");
        }
        let Some((from, _)) = path(rest, "FROM:") else {
            return self.say("501 5.5.4 MAIL FROM:<address>");
        };
        if let Some(next) = self.react(Stage::Mail) {
            return next;
        }
        self.from = Some(from.to_owned());
        self.say("250 2.1.0 sender ok")
    }

    fn rcpt(&mut self, rest: &str) -> Next {
        if self.from.is_none() {
            return self.say("503 5.5.1 MAIL first");
        }
        let to = match path(rest, "TO:") {
            Some((to, _)) if !to.is_empty() => to.to_owned(),
            _ => return self.say("501 5.5.4 RCPT TO:<address>"),
        };
        if self.to.len() >= MAX_RECIPIENTS {
            return self.say("452 4.5.3 too many recipients");
        }
        let named = reply_by_name(&to);
        self.to.push(to);
        let next = self.react(Stage::Rcpt).or_else(|| named.map(|reply| self.say(&reply)));
        match next {
            Some(next) => {
                self.to.pop();
                next
            }
            None => self.say("250 2.1.5 recipient ok"),
        }
    }

    async fn data(&mut self) -> io::Result<Next> {
        // A scripted 354 goes on to the content, as lax servers do even without a recipient.
        match self.server.script.take(Stage::Data, &self.to) {
            Some(Reaction::Answer(go_on)) if go_on.starts_with("354") => self.wire.reply(&go_on),
            Some(reaction) => return Ok(self.perform(reaction)),
            None if self.to.is_empty() => return Ok(self.say("503 5.5.1 RCPT first")),
            None => self.wire.reply("354 end with a dot"),
        }
        let mut content = Content::new(self.server.settings.max_size);
        let mut first = true;
        loop {
            let read = self.wire.read_line(CONTENT_LINE).await?;
            if std::mem::take(&mut first)
                && let Some(next) = self.react(Stage::Content)
            {
                return Ok(next);
            }
            if content.take(self.wire.last_line(), read) {
                break;
            }
        }
        let next = self.finish(content);
        self.forget();
        Ok(next)
    }

    fn finish(&mut self, content: Content) -> Next {
        let reaction = self.server.script.take(Stage::Dot, &self.to);
        if let Some(answer @ Reaction::Answer(_)) = reaction {
            return self.perform(answer);
        }
        if self.to.is_empty() {
            return self.say("554 5.5.1 no recipient");
        }
        if let Some(refusal) = content.refusal() {
            return self.say(&refusal);
        }
        let from = self.from.as_deref().unwrap_or_default();
        if self.server.outbox.capture("email", from, &self.to, content.lines).is_err() {
            return self.say("451 4.3.0 cannot be kept");
        }
        match reaction {
            Some(reaction) => self.perform(reaction),
            None => self.say("250 2.0.0 kept"),
        }
    }
}

/// The path of `FROM:<path> parameters` and what follows it.
fn path<'a>(text: &'a str, keyword: &str) -> Option<(&'a str, &'a str)> {
    let (head, tail) = text.split_at_checked(keyword.len())?;
    let inside = tail.trim_start().strip_prefix('<')?;
    head.eq_ignore_ascii_case(keyword).then(|| inside.split_once('>')).flatten()
}

/// Content as it comes in, line by line.
struct Content {
    lines: Vec<u8>,
    max_size: usize,
    after_whole_line: bool,
    in_headers: bool,
    message_id: bool,
    flaw: Option<Flaw>,
    too_big: bool,
}

impl Content {
    fn new(max_size: usize) -> Self {
        Content {
            lines: Vec::new(),
            max_size,
            after_whole_line: true,
            in_headers: true,
            message_id: false,
            flaw: None,
            too_big: false,
        }
    }

    /// Takes a line, and says whether it was the final dot: alone between two CRLF, nothing less.
    fn take(&mut self, line: &[u8], read: Result<(), Flaw>) -> bool {
        let starts_line = std::mem::replace(&mut self.after_whole_line, read != Err(Flaw::BareLf));
        self.flaw = self.flaw.or(read.err());
        if read.is_ok() && starts_line && line == b"." {
            return true;
        }
        let line = if line.first() == Some(&b'.') { line.get(1..).unwrap_or_default() } else { line };
        self.in_headers &= !line.is_empty();
        self.message_id |=
            self.in_headers && line.get(..11).is_some_and(|name| name.eq_ignore_ascii_case(b"message-id:"));
        self.too_big |= self.lines.len() + line.len() + 2 > self.max_size;
        if !self.too_big {
            self.lines.extend_from_slice(line);
            self.lines.extend_from_slice(b"\r\n");
        }
        false
    }

    fn refusal(&self) -> Option<String> {
        match self.flaw {
            Some(flaw) => Some(format!("554 {}", flaw.text())),
            None if self.too_big => Some("552 5.3.4 message too big".to_owned()),
            None if !self.message_id => Some("554 5.6.0 no Message-ID".to_owned()),
            None => None,
        }
    }
}
