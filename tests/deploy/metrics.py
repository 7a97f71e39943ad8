#!/usr/bin/env python3
"""Checks that a running system has the metrics to which dashboards and alert rules refer.

  metrics.py deploy/observability ADDRESS…

Metrics of failures and of channels without a send are not required, because they exist only after the first event.
"""
import re
import sys
import urllib.request
from pathlib import Path

FOLDER, ADDRESSES = Path(sys.argv[1]), sys.argv[2:]
NEEDS_AN_EVENT = {
    "tidings_bytes_refused_total", "tidings_connections_refused_total", "tidings_dead_events_total", "tidings_dispatch_paused", "tidings_inbox_removed_total",
    "tidings_newer_events_total", "tidings_redriven_messages_total", "tidings_removed_sends_total",
    "tidings_postponed_total", "tidings_provider_alerts_total", "tidings_provider_breaker", "tidings_provider_call_seconds",
    "tidings_receipts_missed_total", "tidings_receipts_total", "tidings_sms_keywords_total",
    "tidings_realtime_behind_seconds", "tidings_realtime_connections", "tidings_realtime_events_total", "tidings_realtime_resets_total",
    "tidings_refused_credentials_total", "tidings_unknown_events_total", "tidings_webhook_attempts_total",
    "tidings_webhook_call_seconds", "tidings_job_wait_seconds", "tidings_deliveries_total",
}


def names(text):
    return {re.sub("_(bucket|count|sum)$", "", name) for name in re.findall(r"\b(?:tidings|process)_[a-z_]+", text)}


named = set()
for file in [*FOLDER.glob("dashboards/*.json"), *FOLDER.glob("rules/*.yml")]:
    named |= names(file.read_text())
found = set()
for address in ADDRESSES:
    with urllib.request.urlopen(f"http://{address}:9090/metrics", timeout=10) as answer:
        found |= names(answer.read().decode())
missing = named - found - NEEDS_AN_EVENT
if missing:
    sys.exit(f"no process has the metrics {', '.join(sorted(missing))}")
print(f"deploy: {len(named & found)} metrics of dashboards and rules exist")
