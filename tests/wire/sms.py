"""A message centre and a client that use the library smpplib, and the alphabet of the library gsm0338."""

import json
import socket
import struct
import sys

import gsm0338
from smpplib import client, consts, gsm, smpp

GSM = gsm0338.Codec()


class Numbers:
    """Source of sequence numbers for the library."""

    sequence = 0

    def next_sequence(self):
        self.sequence += 1
        return self.sequence


def read_pdu(stream, numbers):
    head = stream.read(4)
    data = head + stream.read(struct.unpack(">L", head)[0] - 4)
    return smpp.parse_pdu(data, client=numbers)


def answer(pdu, numbers, **fields):
    made = smpp.make_pdu(pdu.command + "_resp", client=numbers, **fields)
    made.sequence = pdu.sequence
    return made.generate()


def described(pdu):
    """Returns the fields of a PDU, and its text as the two libraries decode it."""
    fields = {"command": pdu.command, "status": pdu.status}
    for name in pdu.params_order:
        value = getattr(pdu, name, None)
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        if value not in (None, "", 0):
            fields[name] = value
    if pdu.command == "submit_sm":
        octets = getattr(pdu, "message_payload", None) or pdu.short_message
        header = octets[: octets[0] + 1] if pdu.esm_class & consts.SMPP_GSMFEAT_UDHI else b""
        body = octets[len(header) :]
        is_ucs2 = pdu.data_coding == consts.SMPP_ENCODING_ISO10646
        fields["text"] = body.decode("utf-16-be") if is_ucs2 else GSM.decode(body)[0]
        fields["header"] = list(header)
        fields.pop("short_message", None)
        fields.pop("message_payload", None)
    return fields


def centre(port):
    """Serves one client until it unbinds. Reports every message for which the client asked for a receipt as delivered, and
    answers the first message with STOP. Returns all PDUs of the client."""
    numbers, seen, taken = Numbers(), [], 0
    listener = socket.create_server(("127.0.0.1", port))
    listener.settimeout(50)
    connection, _ = listener.accept()
    connection.settimeout(50)
    with connection, connection.makefile("rb") as stream:
        while True:
            pdu = read_pdu(stream, numbers)
            seen.append(described(pdu))
            if pdu.command == "bind_transceiver":
                connection.sendall(answer(pdu, numbers, system_id="centre"))
                enquiry = smpp.make_pdu("enquire_link", client=numbers)
                connection.sendall(enquiry.generate())
            elif pdu.command == "submit_sm":
                taken += 1
                connection.sendall(answer(pdu, numbers, message_id="m%d" % taken))
                if pdu.registered_delivery & 1:
                    text = "id:m%d sub:001 dlvrd:001 submit date:2601020304 done date:2601020304 stat:DELIVRD err:000 text:"
                    receipt = smpp.make_pdu(
                        "deliver_sm",
                        client=numbers,
                        esm_class=consts.SMPP_MSGTYPE_DELIVERYACK >> 1,
                        source_addr=pdu.destination_addr.decode(),
                        destination_addr=pdu.source_addr.decode(),
                        short_message=(text % taken).encode(),
                    )
                    connection.sendall(receipt.generate())
                if taken == 1:
                    stop = smpp.make_pdu(
                        "deliver_sm",
                        client=numbers,
                        source_addr_ton=consts.SMPP_TON_INTL,
                        source_addr_npi=consts.SMPP_NPI_ISDN,
                        source_addr=pdu.destination_addr.decode(),
                        destination_addr="15005550006",
                        data_coding=consts.SMPP_ENCODING_ISO10646,
                        short_message="Stop!".encode("utf-16-be"),
                    )
                    connection.sendall(stop.generate())
            elif pdu.command == "unbind":
                connection.sendall(answer(pdu, numbers))
                return seen


def send(port, login, texts):
    """Sends texts, each in one or more parts, and waits for a receipt for each part."""
    sender = client.Client("127.0.0.1", port, timeout=30, allow_unknown_opt_params=True)
    ids, receipts = [], []
    sender.set_message_sent_handler(lambda pdu: ids.append(pdu.message_id.decode()))
    sender.set_message_received_handler(lambda pdu: receipts.append(described(pdu)))
    sender.connect()
    sender.bind_transceiver(system_id=login[0], password=login[1])
    parts_sent = 0
    for text in texts:
        parts, coding, esm_class = gsm.make_parts(text)
        for part in parts:
            parts_sent += 1
            sender.send_message(
                source_addr_ton=consts.SMPP_TON_INTL,
                source_addr_npi=consts.SMPP_NPI_ISDN,
                source_addr="15005550006",
                dest_addr_ton=consts.SMPP_TON_INTL,
                dest_addr_npi=consts.SMPP_NPI_ISDN,
                destination_addr="4915112345678",
                short_message=part,
                data_coding=coding,
                esm_class=esm_class,
                registered_delivery=1,
            )
            while len(ids) < parts_sent:
                sender.read_once()
    while len(receipts) < parts_sent:
        sender.read_once()
    sender.unbind()
    sender.disconnect()
    return {"ids": ids, "receipts": receipts}


def encoded(text):
    try:
        return GSM.encode(text)[0].hex()
    except UnicodeError:
        return None


question = json.load(sys.stdin)
if question["role"] == "centre":
    found = centre(question["port"])
elif question["role"] == "client":
    found = send(question["port"], question["login"], question["texts"])
else:
    found = [encoded(text) for text in question["texts"]]
json.dump(found, sys.stdout)
