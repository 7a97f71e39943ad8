"""Verifies the signatures of a webhook with the library standardwebhooks."""

import base64
import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

question = json.load(sys.stdin)
body = base64.b64decode(question["body"])
verdicts = []
for secret in question["secrets"]:
    try:
        verdicts.append(Webhook(secret).verify(body, question["headers"]))
    except WebhookVerificationError as error:
        verdicts.append(str(error))
json.dump({"verdicts": verdicts}, sys.stdout)
