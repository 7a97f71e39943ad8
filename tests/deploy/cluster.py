#!/usr/bin/env python3
"""Tests Tidings with three NATS servers, as tests/deploy/cluster describes. Needs TIDINGS_TEST_DATABASE_URL and nats-server."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

PROGRAM = sys.argv[1]
HERE = Path(__file__).resolve().parent
SERVICES = ["gateway", "dispatcher", "inbox", "webhooks"]
READY_WITHIN = 90


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Nats:
    """Three servers of one cluster."""

    def __init__(self, folder):
        self.folder = folder
        self.clients, self.monitors, routes = ([free_port() for _ in range(3)] for _ in range(3))
        for number in range(3):
            (folder / f"{number}.conf").write_text(f"""
                server_name: n{number}
                listen: "127.0.0.1:{self.clients[number]}"
                http: "127.0.0.1:{self.monitors[number]}"
                jetstream {{ store_dir: "{folder}/store{number}" }}
                cluster {{ name: test, listen: "127.0.0.1:{routes[number]}", routes: [{", ".join(
                    f'"nats://127.0.0.1:{port}"' for port in routes)}] }}
            """)
        self.processes = [None] * 3
        for number in range(3):
            self.start(number)

    def url(self):
        return ",".join(f"nats://127.0.0.1:{port}" for port in self.clients)

    def start(self, number):
        log = open(self.folder / f"{number}.log", "a")
        command = ["nats-server", "--config", str(self.folder / f"{number}.conf")]
        self.processes[number] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, number):
        self.processes[number].kill()
        self.processes[number].wait()

    def ask(self, path):
        """Asks the servers one after the other. Returns the first answer, or None if none answers."""
        for port in self.monitors:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
                    return json.load(answer)
            except OSError:
                continue
        return None

    def leader(self, stream):
        found = self.ask("/jsz?streams=true&leader_only=false&config=false") or {}
        for account in found.get("account_details", []):
            for detail in account.get("stream_detail", []):
                if detail["name"] == stream:
                    return int(detail["cluster"]["leader"].removeprefix("n"))
        raise SystemExit(f"stream {stream} has no leader: {found}")

    def connected(self):
        """Returns the number of the server with the most client connections."""
        counts = []
        for port in self.monitors:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/connz", timeout=2) as answer:
                counts.append(json.load(answer)["num_connections"])
        return counts.index(max(counts))

    def is_healthy(self):
        for port in self.monitors:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2) as answer:
                    if answer.status != 200:
                        return False
            except OSError:
                return False
        return True

    def stop(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()


def wait_for(what, condition, limit=READY_WITHIN):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"deploy: FAILED: not within {limit} s: {what}")
        time.sleep(0.2)


def tidings(environment, *arguments):
    done = subprocess.run([PROGRAM, *arguments], env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise SystemExit(f"deploy: FAILED: tidings {' '.join(arguments)}: {done.stderr}")
    return done.stdout


class Load:
    def __init__(self, api, app, folder, name):
        self.name, self.report = name, folder / f"{name}.json"
        command = [sys.executable, HERE / "load.py", api, app["apiKey"], app["apiSecret"], self.report]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)

    def end(self):
        """Stops the load, and prints its report. Returns True if no send is lost or duplicated."""
        self.process.terminate()
        code = self.process.wait(300)
        report = json.loads(self.report.read_text())
        print(f"deploy: {self.name}: {report['accepted']} accepted, {report['failedCalls']} calls repeated, longest gap "
              f"{report['longestGapSeconds']} s, {report['lost']} lost, {report['doubled']} duplicated", flush=True)
        return code == 0


def main():
    folder = Path(tempfile.mkdtemp(prefix="tidings-cluster-"))
    nats, processes, sound = Nats(folder), [], True
    try:
        wait_for("the cluster is healthy", nats.is_healthy)
        ports = {service: free_port() for service in SERVICES}
        api_port = free_port()
        environment = {
            **os.environ, "DATABASE_URL": os.environ["TIDINGS_TEST_DATABASE_URL"], "NATS_URL": nats.url(),
            "TIDINGS_NATS__REPLICAS": "3", "TIDINGS_SECURITY__MASTER_KEY_FILE": str(folder / "master.key"),
            "TIDINGS_GATEWAY__LISTEN": f"127.0.0.1:{api_port}",
        }
        tidings(environment, "migrate", "--make-master-key")
        for service in SERVICES:
            log = open(folder / f"{service}.log", "w")
            own = {**environment, "TIDINGS_METRICS__LISTEN": f"127.0.0.1:{ports[service]}"}
            processes.append(subprocess.Popen([PROGRAM, "run", service], env=own, stdout=log, stderr=log))
        app = json.loads(tidings(environment, "app", "create", "shop", "--json"))
        api = f"http://127.0.0.1:{api_port}"
        tidings(environment, "smoke", "--api", api)

        def trial(name, harm, heal, seconds):
            nonlocal sound
            load = Load(api, app, folder, name)
            time.sleep(3)
            harmed = harm()
            time.sleep(seconds)
            heal(harmed)
            wait_for("the cluster is healthy again", nats.is_healthy)
            time.sleep(2)
            sound &= load.end()

        def kill_leader():
            number = nats.leader("SEND_transactional")
            nats.kill(number)
            return [number]

        def kill_two():
            numbers = [nats.connected()]
            numbers.append((numbers[0] + 1) % 3)
            for number in numbers:
                nats.kill(number)
            return numbers

        def pause_connected():
            number = nats.connected()
            nats.processes[number].send_signal(signal.SIGSTOP)
            return [number]

        def start_all(numbers):
            for number in numbers:
                nats.start(number)

        def resume(numbers):
            for number in numbers:
                nats.processes[number].send_signal(signal.SIGCONT)

        trial("leader killed", kill_leader, start_all, 15)
        trial("two servers killed for 10 s", kill_two, start_all, 10)
        trial("a server hangs for 30 s", pause_connected, resume, 30)
        for service, process in zip(SERVICES, processes):
            if process.poll() is not None:
                raise SystemExit(f"deploy: FAILED: {service} exited with {process.returncode}")
        if not sound:
            raise SystemExit("deploy: FAILED: a send was lost or duplicated")
        print("deploy: the cluster test passed")
        shutil.rmtree(folder)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)
        nats.stop()


if __name__ == "__main__":
    main()
