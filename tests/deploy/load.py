#!/usr/bin/env python3
"""A backend that sends at a steady rate until it gets SIGTERM, and then checks that no send is lost or duplicated.

  load.py ORIGIN KEY SECRET REPORT [--strict]

Each send has one recipient and an Idempotency-Key, and is repeated until it is accepted. With --strict, no call may fail: after a refused
connection, a broken answer or a 5xx, the exit code is 1. The report is JSON: calls, failures, the longest time without an accepted send,
and the numbers of lost and duplicated items in inboxes.
"""
import http.client
import json
import queue
import signal
import sys
import threading
import time
import uuid
from urllib.parse import urlsplit

ORIGIN, KEY, SECRET, REPORT = sys.argv[1:5]
STRICT = "--strict" in sys.argv[5:]
RATE, WORKERS, USERS = 50, 8, 200
CALL_LIMIT, ARRIVED_WITHIN = 10, 120
HEADERS = {"X-SERVICE-API-KEY": KEY, "X-SERVICE-API-SECRET": SECRET, "Content-Type": "application/json"}
RUN = uuid.uuid4().hex[:8]

stopping = threading.Event()
lock = threading.Lock()
accepted, failures, last_accepted, longest_gap, calls = {}, [], time.monotonic(), 0.0, 0
work = queue.Queue(maxsize=RATE)


def connect():
    parts = urlsplit(ORIGIN)
    return http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=CALL_LIMIT)


def call(connection, method, path, body=None, headers=()):
    connection.request(method, path, body and json.dumps(body), {**HEADERS, **dict(headers)})
    answer = connection.getresponse()
    text = answer.read()
    # The proxy answers in HTML if it finds no gateway.
    is_json = answer.getheader("content-type", "").startswith("application/json")
    return answer.status, json.loads(text) if text and is_json else None, answer.getheader("connection") == "close"


def send(connection, number):
    """Repeats one send until it is accepted. Returns the connection for the next send."""
    global last_accepted, longest_gap, calls
    body = {
        "notification": {"title": f"{RUN}-{number}", "message": "Load"},
        "sendTo": {"recipients": [{"identifier": f"{RUN}-{number % USERS}", "email": f"u{number % USERS}@example.com"}]},
    }
    while True:
        status, closes = None, True
        try:
            connection = connection or connect()
            status, _, closes = call(connection, "POST", "/v3/notifications", body, {"Idempotency-Key": f"{RUN}-{number}"})
        except (OSError, http.client.HTTPException) as error:
            status = type(error).__name__
        if closes:
            connection = None
        with lock:
            calls += 1
            now = time.monotonic()
            if status == 202:
                longest_gap, last_accepted = max(longest_gap, now - last_accepted), now
                accepted[number] = body["sendTo"]["recipients"][0]["identifier"]
                return connection
            failures.append({"at": round(now - START, 2), "status": status})
        time.sleep(0.2)


def worker():
    connection = None
    while (number := work.get()) is not None:
        connection = send(connection, number)


def inbox(connection, user):
    """Returns the titles of all items of a user."""
    titles, path = [], f"/v3/notifications?userIdentifier={user}&limit=20"
    while path:
        status, body, _ = call(connection, "GET", path)
        if status != 200:
            raise OSError(f"{status}: {body}")
        titles += [item["title"] for item in body["data"]]
        cursor = body.get("nextCursor") or (body.get("pagination") or {}).get("nextCursor")
        path = cursor and f"/v3/notifications?userIdentifier={user}&limit=20&cursor={cursor}"
    return titles


def missing_and_doubled():
    """Compares inboxes with the accepted sends until all have arrived or time is over. Returns the numbers of lost and
    duplicated items."""
    end = time.monotonic() + ARRIVED_WITHIN
    wanted = {}
    for number, user in accepted.items():
        wanted.setdefault(user, set()).add(f"{RUN}-{number}")
    lost, doubled = {}, 0
    while True:
        connection = connect()
        lost, doubled = {}, 0
        for user, titles in wanted.items():
            found = inbox(connection, user)
            doubled += len(found) - len(set(found))
            if titles - set(found):
                lost[user] = len(titles - set(found))
        if not lost or time.monotonic() > end:
            return sum(lost.values()), doubled
        time.sleep(1)


def main():
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    threads = [threading.Thread(target=worker) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    number = 0
    while not stopping.is_set():
        work.put(number)
        number += 1
        stopping.wait(1 / RATE)
    for _ in threads:
        work.put(None)
    for thread in threads:
        thread.join()
    lost, doubled = missing_and_doubled()
    report = {
        "accepted": len(accepted), "calls": calls, "failedCalls": len(failures), "firstFailures": failures[:5],
        "longestGapSeconds": round(longest_gap, 2), "lost": lost, "doubled": doubled,
    }
    with open(REPORT, "w") as file:
        json.dump(report, file)
    print(json.dumps(report))
    sys.exit(1 if lost or doubled or not accepted or (STRICT and failures) else 0)


START = time.monotonic()
if __name__ == "__main__":
    main()
