"""Parses emails with Python's own parser, and checks their DKIM signatures with dkimpy.

In: {"raws": [base64], "keys": {"selector._domainkey.domain": "v=DKIM1; ..."}}.
Out, for each email: {"defects", "headers": [[name, value]], "structure": [type], "parts": [{"type", "name", "disposition", "id", "method",
"content"}], "tree": [type, [tree, ...]], "signatures": [{"tags", "valid", "why"}]}.
"""

import base64
import email
import email.policy
import json
import sys

import dkim


def part(one):
    content = one.get_content()
    if isinstance(content, str):
        content = content.encode()
    elif not isinstance(content, bytes):
        content = bytes(content)
    return {
        "type": one.get_content_type(),
        "name": one.get_filename(),
        "disposition": one.get_content_disposition(),
        "id": one["Content-ID"],
        "method": one.get_param("method"),
        "content": base64.b64encode(content).decode(),
    }


def defects(message):
    found = [repr(defect) for one in message.walk() for defect in one.defects]
    found += [repr(defect) for one in message.walk() for value in one.values() for defect in value.defects]
    return found


def tree(one):
    return [one.get_content_type(), [tree(part) for part in one.iter_parts()] if one.is_multipart() else []]


def signatures(raw, keys):
    verifier = dkim.DKIM(raw)
    fields = [value for name, value in verifier.headers if name.lower() == b"dkim-signature"]
    lookup = lambda name, timeout=5: keys.get(name.decode().rstrip("."), "").encode() or None
    for index, field in enumerate(fields):
        tags = {key.decode(): value.decode() for key, value in dkim.util.parse_tag_value(field).items()}
        try:
            valid, why = dkim.DKIM(raw).verify(idx=index, dnsfunc=lookup), None
        except dkim.DKIMException as refused:
            valid, why = False, str(refused)
        yield {"tags": tags, "valid": valid, "why": why}


def seen(raw, keys):
    message = email.message_from_bytes(raw, policy=email.policy.SMTP)
    return {
        "defects": defects(message),
        "headers": [[name, str(value)] for name, value in message.items()],
        "structure": [one.get_content_type() for one in message.walk()],
        "tree": tree(message),
        "parts": [part(one) for one in message.walk() if not one.is_multipart()],
        "signatures": list(signatures(raw, keys)),
    }


def main():
    question = json.load(sys.stdin)
    raws = [base64.b64decode(raw) for raw in question["raws"]]
    json.dump([seen(raw, question["keys"]) for raw in raws], sys.stdout)


main()
