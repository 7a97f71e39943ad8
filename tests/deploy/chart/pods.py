#!/usr/bin/env python3
"""Runs every pod of the rendered chart as a container, under the constraints of its spec.

Each container gets the user, groups, capabilities, read-only root, memory limit, command, environment and probes of the spec. Secrets are
files of root with mode 0440 for the group of the pod. PostgreSQL and NATS run next to the containers. The migration must exit with 0,
every service must pass its three probes and exit with 0 on SIGTERM, and the test pod must send to an inbox.

  tests/deploy/chart/pods.py IMAGE

Needs root and a Docker engine (tests/deploy/engine).
"""
import os
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from check import CHART, HELM, HERE, must, run, yaml

IMAGE = sys.argv[1]
NETWORK = f"tidings-pods-{os.getpid()}"
PASSWORD = secrets.token_hex(16)
PORT = 8080
READY_WITHIN, STOPPED_WITHIN = 120, 60
SECRETS = {
    "shop-db-app": {"uri": f"postgres://tidings:{PASSWORD}@postgres/tidings"},
    "nats-login": {"url": f"nats://tidings:{PASSWORD}@nats:4222"},
    "tidings-master-key": {},
}
started = []


def docker(*arguments, **options):
    return must("/usr/bin/docker", *arguments, **options).strip()


def fail(text):
    sys.exit(f"deploy: FAILED: {text}")


def wait_for(what, condition, limit=READY_WITHIN):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            fail(f"not within {limit} s: {what}")
        time.sleep(0.2)


def value_of(variable):
    if "value" in variable:
        return variable["value"]
    (kind, source), = variable["valueFrom"].items()
    if kind != "secretKeyRef":
        fail(f"{variable['name']} has a value from the unknown source {kind}")
    return SECRETS[source["name"]][source["key"]]


def written(folder, files, mode, group):
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    for name, text in files.items():
        path = folder / name
        path.write_text(text)
        os.chown(path, 0, group)
        path.chmod(mode)
    return folder


def volume(folder, spec, configs, group):
    """Creates a folder in place of a volume, with the files that Kubernetes would write into it."""
    if "secret" in spec:
        of_secret = SECRETS[spec["secret"]["secretName"]]
        items = {item["path"]: of_secret[item["key"]] for item in spec["secret"]["items"]}
        return written(folder, items, spec["secret"]["defaultMode"], group)
    if "configMap" in spec:
        return written(folder, configs[spec["configMap"]["name"]], 0o644, 0)
    fail(f"the volume is of an unknown kind: {spec}")


def create(name, spec, configs, folder):
    """Starts a container for the only container of the pod. Returns its id."""
    of_pod, (container,) = spec["securityContext"], spec["containers"]
    own = container["securityContext"]
    command = ["create", "--network", NETWORK, "--network-alias", name, "--label", f"tidings-pods={NETWORK}"]
    command += ["--user", f"{of_pod['runAsUser']}:{of_pod['runAsGroup']}", "--group-add", of_pod["fsGroup"]]
    command += ["--memory", container["resources"]["limits"]["memory"].replace("Mi", "m").replace("Gi", "g")]
    command += [f"--cap-drop={capability}" for capability in own["capabilities"]["drop"]]
    if own["readOnlyRootFilesystem"]:
        command += ["--read-only"]
    if own["allowPrivilegeEscalation"] is False:
        command += ["--security-opt", "no-new-privileges"]
    for variable in container["env"]:
        command += ["--env", f"{variable['name']}={value_of(variable)}"]
    volumes = {each["name"]: volume(folder / name / each["name"], each, configs, of_pod["fsGroup"]) for each in spec["volumes"]}
    for mount in container["volumeMounts"]:
        command += ["--volume", f"{volumes[mount['name']]}:{mount['mountPath']}{':ro' if mount.get('readOnly') else ''}"]
    started.append(docker(*command, IMAGE, *container["args"]))
    return started[-1]


def to_its_end(name, spec, configs, folder):
    """Runs a pod until it exits."""
    container = create(name, spec, configs, folder)
    done = run("/usr/bin/docker", "start", "--attach", container)
    if done.returncode:
        fail(f"{name} exited with {done.returncode}: {done.stdout}{done.stderr}")
    print(f"deploy: {name}: {done.stdout.strip().splitlines()[-1] if done.stdout.strip() else 'done'}", flush=True)


def answers(container, spec, probe):
    """Returns True if a probe of the only container passes now."""
    ports = {port["name"]: port["containerPort"] for port in spec["containers"][0]["ports"]}
    get = spec["containers"][0][probe]["httpGet"]
    address = docker("inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", container)
    try:
        with urllib.request.urlopen(f"http://{address}:{ports[get['port']]}{get['path']}", timeout=3) as answer:
            return answer.status == 200
    except (OSError, urllib.error.HTTPError):
        return False


def servers():
    docker("network", "create", NETWORK)
    on = ("run", "--detach", "--network", NETWORK, "--label", f"tidings-pods={NETWORK}")
    postgres = docker(*on, "--network-alias", "postgres", "--env", "POSTGRES_USER=tidings", "--env",
                      f"POSTGRES_PASSWORD={PASSWORD}", "postgres:17-alpine", "postgres", "-c", "max_connections=300")
    started.append(postgres)
    started.append(docker(*on, "--network-alias", "nats", "nats:2.12-alpine", "nats-server", "--jetstream",
                          "--store_dir=/tmp/store", "--user=tidings", f"--pass={PASSWORD}"))
    ready = ("exec", postgres, "pg_isready", "--quiet", "--host=127.0.0.1", "--username=tidings")
    wait_for("PostgreSQL is ready", lambda: run("/usr/bin/docker", *ready).returncode == 0)


def main():
    values = HERE / "values/minimal.yaml"
    text = must(HELM, "template", "t", CHART, "--values", values, "--set", f"service.port={PORT}")
    documents = [document for document in yaml.safe_load_all(text) if document]
    configs = {each["metadata"]["name"]: each["data"] for each in documents if each["kind"] == "ConfigMap"}
    folder = Path(tempfile.mkdtemp(prefix="tidings-pods-"))
    folder.chmod(0o755)
    try:
        (folder / "key").mkdir()
        (folder / "key").chmod(0o777)
        docker("run", "--rm", "--volume", f"{folder}/key:/key", IMAGE, "master-key", "generate", "/key/master.key")
        SECRETS["tidings-master-key"]["master.key"] = (folder / "key/master.key").read_text()
        servers()
        jobs = {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in documents if each["kind"] == "Job"}
        services = {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in documents if each["kind"] == "Deployment"}
        tests = {each["metadata"]["name"]: each["spec"] for each in documents if each["kind"] == "Pod"}
        for name, spec in jobs.items():
            to_its_end(name, spec, configs, folder)
        running = {}
        for name, spec in services.items():
            # The Service of the gateway has the name of the release.
            alias = "t-tidings" if name == "t-tidings-gateway" else name
            running[name] = create(alias, spec, configs, folder)
            docker("start", running[name])
        for name, container in running.items():
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                wait_for(f"{probe} of {name} passes", lambda: answers(container, services[name], probe))
        for name, spec in tests.items():
            to_its_end(name, spec, configs, folder)
        docker("stop", "--time", STOPPED_WITHIN, *running.values())
        for name, container in running.items():
            code = docker("inspect", "--format", "{{.State.ExitCode}}", container)
            if code != "0":
                fail(f"{name} exited with {code} after SIGTERM: {run('/usr/bin/docker', 'logs', '--tail', '5', container).stdout}")
        print(f"deploy: {len(running)} services, {len(jobs)} migration and {len(tests)} test pod run as in the chart", flush=True)
    finally:
        if started:
            run("/usr/bin/docker", "rm", "--force", "--volumes", *started)
        run("/usr/bin/docker", "network", "rm", NETWORK)
        run("rm", "-rf", folder)


if __name__ == "__main__":
    main()
