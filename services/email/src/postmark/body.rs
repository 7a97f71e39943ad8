//! Body of a request: JSON in pieces, so that concurrent calls share the files of a send instead of copying them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::parts::Piece;

/// Encoded octets of a file that are copied at once: whole lines of 76 characters and a CRLF.
const BLOCK: usize = 512 * LINE;
const LINE: usize = 78;

/// A body without files can be sent again if the server closes the connection before it reads the request.
pub(super) fn of_json(mut pieces: Vec<Piece>) -> reqwest::Body {
    match pieces.pop() {
        Some(Piece::Text(text)) if pieces.is_empty() => text.into(),
        last => {
            pieces.extend(last);
            reqwest::Body::wrap(JsonBody::new(pieces))
        }
    }
}

/// A file is written without its line ends.
#[derive(Debug)]
struct JsonBody {
    pieces: VecDeque<Piece>,
    /// Octets of the first piece that are written.
    written: usize,
    left: u64,
}

impl JsonBody {
    fn new(pieces: Vec<Piece>) -> JsonBody {
        let left = pieces.iter().map(|piece| size(piece) as u64).sum();
        JsonBody { pieces: pieces.into(), written: 0, left }
    }

    fn next_block(&mut self) -> Option<Bytes> {
        loop {
            let block = match self.pieces.front()? {
                Piece::Text(_) => match self.pieces.pop_front()? {
                    Piece::Text(text) => Bytes::from(text),
                    Piece::File(_) => return None,
                },
                Piece::File(file) => {
                    let rest = file.as_bytes().get(self.written..).unwrap_or_default();
                    let block = rest.get(..BLOCK).unwrap_or(rest);
                    self.written += block.len();
                    let lines = block.chunks(LINE).map(|line| line.strip_suffix(b"\r\n").unwrap_or(line));
                    lines.collect::<Vec<_>>().concat().into()
                }
            };
            if block.is_empty() {
                if let Some(Piece::File(_)) = self.pieces.front() {
                    self.pieces.pop_front();
                    self.written = 0;
                }
                continue;
            }
            self.left = self.left.saturating_sub(block.len() as u64);
            return Some(block);
        }
    }
}

/// Size without the line ends of a file.
fn size(piece: &Piece) -> usize {
    let length = piece.as_str().len();
    match piece {
        Piece::Text(_) => length,
        Piece::File(_) => length - 2 * length.div_ceil(LINE),
    }
}

impl Body for JsonBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.get_mut().next_block().map(|block| Ok(Frame::data(block))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::in_lines;

    #[test]
    fn files_are_written_in_blocks_without_line_ends() {
        for size in [0, 1, 56, 57, 58, 57 * 512, 57 * 512 + 1, 100_000] {
            let bytes: Vec<u8> = (0..=255).cycle().take(size).collect();
            let text = |text: &str| Piece::Text(text.to_owned());
            let pieces = vec![
                text("[\""),
                Piece::File(in_lines(&bytes)),
                text("\",\""),
                Piece::File(in_lines(b"b")),
                text("\"]"),
            ];
            let mut body = JsonBody::new(pieces);
            let announced = body.left;
            let blocks: Vec<Bytes> = std::iter::from_fn(|| body.next_block()).collect();
            assert!(blocks.iter().all(|block| block.len() <= BLOCK) && body.is_end_stream());
            let written = String::from_utf8(blocks.concat()).unwrap();
            assert_eq!(announced, written.len() as u64);
            let encode = |bytes| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
            assert_eq!(written, format!("[\"{}\",\"{}\"]", encode(&bytes[..]), encode(b"b")));
        }
    }
}
