use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use super::manner::Manner;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// An LF without a CR before it. Such an LF does not end a line (RFC 5321 section 2.3.8).
    BareLf,
    BareCr,
    /// The line is longer than allowed. The rest was dropped.
    TooLong,
}

impl Flaw {
    pub(super) fn text(self) -> &'static str {
        match self {
            Flaw::BareLf => "5.6.0 LF that is not part of CRLF",
            Flaw::BareCr => "5.6.0 CR that is not part of CRLF",
            Flaw::TooLong => "5.6.0 line too long",
        }
    }
}

/// Bytes that are read at once. Large emails arrive in large pieces.
const READ: usize = 64 * 1024;

pub(super) struct Wire<S> {
    stream: BufReader<S>,
    replies: Vec<u8>,
    idle: Duration,
    line: Vec<u8>,
    manner: Manner,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(super) fn new(stream: S, idle: Duration, manner: Manner) -> Self {
        Wire {
            stream: BufReader::with_capacity(READ, stream),
            replies: Vec::new(),
            idle,
            line: Vec::new(),
            manner,
        }
    }

    pub(super) fn last_line(&self) -> &[u8] {
        &self.line
    }

    /// Reads the next line, of at most `max` bytes including its CRLF. Sends the pending replies only if it must wait
    /// for data, so that pipelined commands are answered together (RFC 2920).
    pub(super) async fn read_line(&mut self, max: usize) -> io::Result<Result<(), Flaw>> {
        self.line.clear();
        let mut length = 0;
        loop {
            if self.stream.buffer().is_empty() {
                self.flush().await?;
            }
            let available = timeout(self.idle, self.stream.fill_buf()).await??;
            if available.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let end = available.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let taken = end.unwrap_or(available.len());
            let room = max.saturating_sub(self.line.len()).min(taken);
            self.line.extend_from_slice(available.get(..room).unwrap_or_default());
            self.stream.consume(taken);
            length += taken;
            if end.is_some() {
                break;
            }
        }
        Ok(self.finish_line(length > max))
    }

    /// Reads content up to its final dot, and returns its size in bytes. Looks for the dot only at the end of what has arrived, so the client
    /// must send nothing more until it is answered.
    pub(super) async fn discard_content(&mut self) -> io::Result<u64> {
        let mut last = *b"\0\0\0\r\n";
        let mut bytes = 0;
        self.flush().await?;
        while last != *b"\r\n.\r\n" {
            let available = timeout(self.idle, self.stream.fill_buf()).await??;
            if available.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let new = available.len().min(last.len());
            last.rotate_left(new);
            last[5 - new..].copy_from_slice(&available[available.len() - new..]);
            let taken = available.len();
            self.stream.consume(taken);
            bytes += taken as u64;
        }
        Ok(bytes)
    }

    fn finish_line(&mut self, too_long: bool) -> Result<(), Flaw> {
        if too_long {
            return Err(Flaw::TooLong);
        }
        self.line.pop();
        match self.line.pop() {
            Some(b'\r') if self.line.contains(&b'\r') => Err(Flaw::BareCr),
            Some(b'\r') => Ok(()),
            _ => Err(Flaw::BareLf),
        }
    }

    pub(super) fn reply(&mut self, text: &str) {
        self.manner.write(text, &mut self.replies);
    }

    pub(super) fn reply_raw(&mut self, octets: &[u8]) {
        self.replies.extend_from_slice(octets);
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        let piece = if self.manner == Manner::OneByteAtATime { 1 } else { usize::MAX };
        for piece in self.replies.chunks(piece) {
            timeout(self.idle, self.stream.write_all(piece)).await??;
            timeout(self.idle, self.stream.flush()).await??;
            tokio::task::yield_now().await;
        }
        self.replies.clear();
        Ok(())
    }

    /// Sends the pending replies, and returns the stream for TLS. Fails if unencrypted input follows the last line,
    /// because an attacker on the network could have injected it.
    pub(super) async fn into_stream(mut self) -> io::Result<S> {
        self.flush().await?;
        if self.stream.buffer().is_empty() {
            Ok(self.stream.into_inner())
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    pub(super) async fn close(mut self) -> io::Result<()> {
        self.flush().await?;
        timeout(self.idle, self.stream.shutdown()).await?
    }

    /// Discards input until the client disconnects. Fails if the client has not disconnected after the idle time.
    pub(super) async fn wait_for_end(mut self) -> io::Result<()> {
        let mut dropped = [0; 4096];
        let drained = async {
            while self.stream.read(&mut dropped).await? > 0 {}
            Ok(())
        };
        timeout(self.idle, drained).await?
    }
}
