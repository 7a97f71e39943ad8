"""Decrypts a web push message with http_ece, as a browser does, and verifies its VAPID token with py_vapid, as a push service does.

In: {"body", "privateKey", "auth": base64, "authorization": the header}.
Out: {"message", "key": the public key in base64url, "valid": true if this key signed the token, "claims"}.
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
    # py_vapid does not accept the space after the comma, which RFC 8292 allows.
    header = f"{scheme} t={parts['t']},k={parts['k']}"
    answer = {
        "message": message.decode(),
        "key": parts["k"],
        "valid": scheme == "vapid" and bool(Vapid02.verify(header)),
        "claims": claims,
    }
    json.dump(answer, sys.stdout)


main()
