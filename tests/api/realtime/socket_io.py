"""A Socket.IO client under the control of a test: reads commands from standard input, and writes events to standard output.

Each line is a JSON value. Commands: {"connect": {"url", "query", "auth", "namespace"}}, {"end": true}, and for frames
{"open": {"url"}}, {"send": text}, {"binary": true}, {"close": true}.
"""

import json
import sys
import threading
from urllib.parse import urlencode

import socketio
import websocket


LOCK = threading.Lock()


def say(**what):
    # Several threads write, and a line must not be divided.
    with LOCK:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


class Library:
    """A client of the library python-socketio."""

    def __init__(self, url, query, auth=None, namespace="/"):
        self.namespace = namespace
        self.client = socketio.Client(reconnection=False)
        self.client.on("*", lambda event, *data: say(event=event, data=list(data)), namespace=namespace)
        self.client.on("connect", lambda: say(event="connect", data=[]), namespace=namespace)
        self.client.on("connect_error", lambda data: say(event="connect_error", data=[data]), namespace=namespace)
        self.client.on("disconnect", lambda *data: say(event="disconnect", data=[]), namespace=namespace)
        try:
            self.client.connect(
                url + "?" + urlencode(query), auth=auth, transports=["websocket"], namespaces=[namespace], wait_timeout=20
            )
        except socketio.exceptions.ConnectionError as error:
            say(event="refused", data=[str(error)])

    def emit(self, event):
        self.client.emit(event, {"a": 1}, namespace=self.namespace, callback=lambda *data: say(event="ack", data=list(data)))

    def end(self):
        self.client.disconnect()


class Frames:
    """A WebSocket, whose frames the test writes and reads."""

    def __init__(self, url):
        self.socket = websocket.create_connection(url, timeout=30)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            while True:
                text = self.socket.recv()
                if text == "":
                    break
                say(frame=text)
        except Exception:
            pass
        say(frame=None)

    def send(self, text):
        try:
            self.socket.send(text)
        except Exception:
            pass


def main():
    library = frames = None
    for line in sys.stdin:
        command = json.loads(line)
        if "connect" in command:
            library = Library(**command["connect"])
        elif "emit" in command:
            library.emit(command["emit"])
        elif "open" in command:
            frames = Frames(command["open"])
        elif "send" in command:
            frames.send(command["send"])
        elif "binary" in command:
            frames.socket.send_binary(b"4")
        elif "end" in command and library:
            library.end()
        elif "end" in command and frames:
            frames.socket.close()


main()
