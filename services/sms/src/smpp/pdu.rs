//! PDUs (section 3.2). The header decides, whatever the body contains.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use rusmpp::tokio_codec::CommandCodec;
use rusmpp::{Command, CommandId};
use tokio_util::codec::{Decoder, Encoder};

/// Maximum size of a received PDU in octets.
const LONGEST: usize = 72 * 1024;
const HEADER: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedPdu {
    pub id: CommandId,
    /// command_status.
    pub status: u32,
    /// sequence_number.
    pub sequence: u32,
    pub body: Bytes,
}

/// Encodes PDUs with the library, and decodes only their headers: message centres send ids in Latin-1, texts without a terminator and
/// addresses that are too long, for which the library would end the connection.
#[derive(Debug, Default)]
pub struct PduCodec(CommandCodec);

impl Decoder for PduCodec {
    type Item = ReceivedPdu;
    type Error = io::Error;

    fn decode(&mut self, received: &mut BytesMut) -> io::Result<Option<ReceivedPdu>> {
        let mut header = received.as_ref();
        let Ok(declared) = header.try_get_u32() else { return Ok(None) };
        let length = usize::try_from(declared).unwrap_or(usize::MAX);
        if !(HEADER..=LONGEST).contains(&length) {
            let cause = format!(
                "the message centre declares a PDU of {declared} octets; {HEADER} to {LONGEST} are allowed"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
        }
        if received.len() < length {
            received.reserve(length - received.len());
            return Ok(None);
        }
        let mut pdu = received.split_to(length).freeze();
        pdu.advance(size_of_val(&declared));
        let [id, status, sequence] = [pdu.get_u32(), pdu.get_u32(), pdu.get_u32()];
        Ok(Some(ReceivedPdu { id: CommandId::from(id), status, sequence, body: pdu }))
    }
}

impl Encoder<Command> for PduCodec {
    type Error = <CommandCodec as Encoder<Command>>::Error;

    fn encode(&mut self, command: Command, sent: &mut BytesMut) -> Result<(), Self::Error> {
        self.0.encode(command, sent)
    }
}

/// Reader of the fields of a body. A field that ends too early has the octets that are there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn of(body: &'a [u8]) -> Fields<'a> {
        Fields(body)
    }

    pub(super) fn octet(&mut self) -> Option<u8> {
        self.0.try_get_u8().ok()
    }

    pub(super) fn octets(&mut self, length: usize) -> &'a [u8] {
        let (octets, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        octets
    }

    /// Reads a C-octet string without its terminator and without control characters.
    pub(super) fn text(&mut self) -> String {
        let length = self.0.iter().position(|octet| *octet == 0).unwrap_or(self.0.len());
        let text = String::from_utf8_lossy(self.octets(length));
        self.octets(1);
        plain(&text)
    }

    /// Reads an optional parameter: its tag and value (section 3.2.4.1).
    pub(super) fn parameter(&mut self) -> Option<(u16, &'a [u8])> {
        let tag = self.0.try_get_u16().ok()?;
        let length = self.0.try_get_u16().ok()?;
        Some((tag, self.octets(usize::from(length))))
    }
}

pub(super) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned()
}
