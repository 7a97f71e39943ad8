//! Parsing of a client's frames (RFC 6455, section 5). A frame is refused by its header: no byte is kept of a message that
//! declares more than the maximum.

use actix_web::web::{Buf as _, Bytes};

/// Longest message that a client may send, in bytes. It applies to a frame and to all fragments of a message together.
pub const MAX_FRAME: usize = 100_000;
/// Longest payload of a control frame (section 5.5).
const MAX_CONTROL: usize = 125;
/// Longest header of a frame: two bytes, a length of eight bytes and the mask.
const MAX_HEADER: usize = 14;
const MASK: usize = 4;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// A message, or another frame that counts against the client's rate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Text(String),
    Ping(Vec<u8>),
    Pong,
    /// A fragment of a message that is not complete yet.
    Fragment,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    /// The declared length, or the length of all fragments, is over [`MAX_FRAME`].
    TooLarge,
    /// The frame violates RFC 6455.
    Malformed,
    Binary,
    NotUtf8,
}

impl FrameError {
    /// Status code of the Close frame (section 7.4.1).
    pub(super) fn code(self) -> u16 {
        match self {
            FrameError::Malformed => 1002,
            FrameError::Binary => 1003,
            FrameError::NotUtf8 => 1007,
            FrameError::TooLarge => 1009,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    header: [u8; MAX_HEADER],
    /// Bytes of the header that have arrived.
    in_header: usize,
    /// The frame whose payload arrives.
    frame: Option<Frame>,
    control: Vec<u8>,
    /// The text of a message so far. None between two messages.
    text: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: u8,
    is_final: bool,
    length: usize,
    arrived: usize,
    mask: [u8; MASK],
}

impl FrameReader {
    /// Consumes bytes up to the end of the next frame. None if they do not complete a frame.
    ///
    /// # Errors
    /// Returns an error if the connection must end.
    pub(crate) fn read(&mut self, bytes: &mut Bytes) -> Result<Option<Message>, FrameError> {
        loop {
            let frame = match self.frame {
                Some(frame) => frame,
                None => {
                    let Some(&byte) = bytes.first() else { return Ok(None) };
                    bytes.advance(1);
                    self.header[self.in_header] = byte;
                    self.in_header += 1;
                    let Some(frame) = self.header_complete()? else { continue };
                    self.in_header = 0;
                    frame
                }
            };
            match self.payload(frame, bytes) {
                arrived if arrived < frame.length => {
                    self.frame = Some(Frame { arrived, ..frame });
                    return Ok(None);
                }
                _ => {
                    self.frame = None;
                    return self.frame_complete(frame).map(Some);
                }
            }
        }
    }

    /// Number of bytes of the unfinished message that are kept.
    pub(super) fn kept(&self) -> usize {
        self.text.as_ref().map_or(0, Vec::capacity)
    }

    /// Checks the header as far as it has arrived. Returns the frame if the header is complete.
    fn header_complete(&self) -> Result<Option<Frame>, FrameError> {
        let [first, second, ..] = self.header;
        let opcode = first & 0x0f;
        let is_final = first & 0x80 != 0;
        let is_control = opcode >= CLOSE;
        if self.in_header == 1 {
            self.check_opcode(opcode, first & 0x70, is_final || !is_control)?;
        }
        if self.in_header < 2 {
            return Ok(None);
        }
        // A client masks every frame (section 5.1).
        if second & 0x80 == 0 {
            return Err(FrameError::Malformed);
        }
        let (extended, short) = match second & 0x7f {
            126 => (2, 0),
            127 => (8, 0),
            length => (0, usize::from(length)),
        };
        if is_control && (extended > 0 || short > MAX_CONTROL) {
            return Err(FrameError::Malformed);
        }
        if self.in_header < 2 + extended {
            return Ok(None);
        }
        let digits = &self.header[2..2 + extended];
        let length = digits.iter().fold(short as u64, |length, &byte| length << 8 | u64::from(byte));
        let kept = self.text.as_ref().filter(|_| !is_control).map_or(0, Vec::len);
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_FRAME - kept);
        let length = length.ok_or(FrameError::TooLarge)?;
        if self.in_header < 2 + extended + MASK {
            return Ok(None);
        }
        let mut mask = [0; MASK];
        mask.copy_from_slice(&self.header[2 + extended..2 + extended + MASK]);
        Ok(Some(Frame { opcode, is_final, length, arrived: 0, mask }))
    }

    fn check_opcode(&self, opcode: u8, reserved: u8, may_be_fragment: bool) -> Result<(), FrameError> {
        let is_in_order = match opcode {
            CONTINUATION => self.text.is_some(),
            TEXT => self.text.is_none(),
            BINARY => return Err(FrameError::Binary),
            CLOSE | PING | PONG => true,
            _ => false,
        };
        if is_in_order && may_be_fragment && reserved == 0 { Ok(()) } else { Err(FrameError::Malformed) }
    }

    /// Unmasks the part of the payload that has arrived. Returns the number of its bytes that have arrived so far.
    fn payload(&mut self, frame: Frame, bytes: &mut Bytes) -> usize {
        let part = bytes.split_to(bytes.len().min(frame.length - frame.arrived));
        let kept = if frame.opcode >= CLOSE { &mut self.control } else { self.text.get_or_insert_default() };
        let before = kept.len();
        kept.extend_from_slice(&part);
        let mut mask = frame.mask;
        mask.rotate_left(frame.arrived % MASK);
        unmask(&mut kept[before..], mask);
        frame.arrived + part.len()
    }

    fn frame_complete(&mut self, frame: Frame) -> Result<Message, FrameError> {
        match frame.opcode {
            PING => Ok(Message::Ping(std::mem::take(&mut self.control))),
            PONG => {
                self.control.clear();
                Ok(Message::Pong)
            }
            CLOSE => Ok(Message::Close),
            _ if !frame.is_final => Ok(Message::Fragment),
            _ => {
                let text = self.text.take().unwrap_or_default();
                String::from_utf8(text).map(Message::Text).map_err(|_| FrameError::NotUtf8)
            }
        }
    }
}

/// Unmasks by words, because strangers choose how many bytes arrive.
fn unmask(masked: &mut [u8], mask: [u8; MASK]) {
    let (words, rest) = masked.as_chunks_mut();
    let mask_of_word = u32::from_ne_bytes(mask);
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ mask_of_word).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests;
