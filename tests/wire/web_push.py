"""Reads a message of web push as a browser does, with http_ece, and its VAPID token as a push service does, with py_vapid.

Input: {"body", "privateKey", "auth": base64, "authorization": the header}.
Output: {"message", "key": the public key in base64url, "valid": whether it signed the token, "claims"}.
"""

import base64
import json
import sys

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from py_vapid import Vapid02
from py_vapid.utils import b64urldecode


def main():
    question = json.load(sys.stdin)
    decoded = {name: base64.b64decode(question[name]) for name in ("body", "privateKey", "auth")}
    private_key = ec.derive_private_key(int.from_bytes(decoded["privateKey"], "big"), ec.SECP256R1())
    message = http_ece.decrypt(
        decoded["body"], private_key=private_key, auth_secret=decoded["auth"], version="aes128gcm"
    )
    scheme, parts = question["authorization"].split(" ", 1)
    parts = dict(part.strip().split("=", 1) for part in parts.split(","))
    claims = json.loads(b64urldecode(parts["t"].split(".")[1].encode()))
    # py_vapid cannot parse the space that RFC 8292 allows after the comma of the header.
    header = f"{scheme} t={parts['t']},k={parts['k']}"
    answer = {
        "message": message.decode(),
        "key": parts["k"],
        "valid": scheme == "vapid" and bool(Vapid02.verify(header)),
        "claims": claims,
    }
    json.dump(answer, sys.stdout)


main()
