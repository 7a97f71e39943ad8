#!/usr/bin/env python3
"""A stand-in for a Kubernetes API server, with the calls that `helm install --wait` and `helm upgrade` make.

It stores the objects that it receives, and reports every Deployment as available and every Job as complete. The Job whose name is the
second argument is reported as failed. It appends each change to the journal whose path is the first argument, and prints its port.
"""
import json
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

JOURNAL = open(sys.argv[1], "a", buffering=1)
FAILING = sys.argv[2] if len(sys.argv) > 2 else None
# Group and version: resource, kind, whether it is namespaced.
KINDS = {
    "v1": {"secrets": "Secret", "configmaps": "ConfigMap", "services": "Service", "serviceaccounts": "ServiceAccount",
           "pods": "Pod", "namespaces": "Namespace", "events": "Event"},
    "apps/v1": {"deployments": "Deployment", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet"},
    "batch/v1": {"jobs": "Job"},
    "policy/v1": {"poddisruptionbudgets": "PodDisruptionBudget"},
    "autoscaling/v2": {"horizontalpodautoscalers": "HorizontalPodAutoscaler"},
    "networking.k8s.io/v1": {"networkpolicies": "NetworkPolicy", "ingresses": "Ingress"},
}
OBJECTS = {}
CHANGES = []
CHANGED = threading.Condition()


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def with_status(found):
    """Returns the object with the status that its controller would set."""
    kind, generation = found["kind"], found["metadata"]["generation"]
    condition = lambda name, **more: {"type": name, "status": "True", "lastTransitionTime": now(), **more}  # noqa: E731
    if kind == "Deployment":
        count = found["spec"].get("replicas", 1)
        found["status"] = {
            "observedGeneration": generation, "replicas": count, "updatedReplicas": count, "readyReplicas": count,
            "availableReplicas": count,
            "conditions": [condition("Available"), condition("Progressing", reason="NewReplicaSetAvailable")],
        }
    elif kind == "Job" and found["metadata"]["name"] == FAILING:
        found["status"] = {"failed": 1, "conditions": [condition("Failed", reason="BackoffLimitExceeded")]}
    elif kind == "Job":
        found["status"] = {"succeeded": 1, "completionTime": now(), "conditions": [condition("Complete")]}
    elif kind == "PodDisruptionBudget":
        found["status"] = {"observedGeneration": generation, "currentHealthy": 2, "desiredHealthy": 1,
                           "disruptionsAllowed": 1, "expectedPods": 2}
    return found


def merge(into, patch):
    """Applies a JSON merge patch (RFC 7396)."""
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value
    return into


def is_selected(found, query):
    labels = found["metadata"].get("labels") or {}
    for term in filter(None, query.get("labelSelector", [""])[0].split(",")):
        key, _, value = term.replace("==", "=").partition("=")
        if labels.get(key) != value:
            return False
    for term in filter(None, query.get("fieldSelector", [""])[0].split(",")):
        key, _, value = term.partition("=")
        if key == "metadata.name" and found["metadata"]["name"] != value:
            return False
    return True


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, code, body):
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def fail(self, code, reason, message):
        self.answer(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
                           "message": message, "code": code})

    def discover(self, parts):
        """Answers a request for the server's version, groups and kinds. Returns True if it was such a request."""
        if parts == ["version"]:
            self.answer(200, {"major": "1", "minor": "32", "gitVersion": "v1.32.0", "platform": "linux/amd64"})
        elif parts == ["api"]:
            self.answer(200, {"kind": "APIVersions", "versions": ["v1"]})
        elif parts == ["apis"]:
            groups = [version for version in KINDS if "/" in version]
            version = lambda name: {"groupVersion": name, "version": name.split("/")[1]}  # noqa: E731
            self.answer(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
                {"name": name.split("/")[0], "versions": [version(name)], "preferredVersion": version(name)}
                for name in groups]})
        elif parts == ["openapi", "v3"]:
            path = lambda name: ("apis/" if "/" in name else "api/") + name  # noqa: E731
            self.answer(200, {"paths": {
                path(name): {"serverRelativeURL": f"/openapi/v3/{path(name)}?hash=1"} for name in KINDS}})
        elif parts[:2] == ["openapi", "v3"]:
            name = "/".join(parts[3:])
            group, _, version = name.rpartition("/")
            kind = lambda kind: {"group": group, "version": version, "kind": kind}  # noqa: E731
            parameters = [{"name": each, "in": "query"} for each in ("fieldValidation", "dryRun")]
            self.answer(200, {"openapi": "3.0.0", "info": {"title": "", "version": "1"}, "paths": {
                f"/{parts[2]}/{name}/namespaces/{{namespace}}/{resource}/{{name}}": {
                    "patch": {"x-kubernetes-group-version-kind": kind(of), "parameters": parameters, "responses": {}}}
                for resource, of in KINDS.get(name, {}).items()}})
        else:
            return False
        return True

    def serve(self):
        url = urlparse(self.path)
        query, parts = parse_qs(url.query), url.path.strip("/").split("/")
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        if self.discover(parts):
            return
        version, rest = ("v1", parts[2:]) if parts[0] == "api" else ("/".join(parts[1:3]), parts[3:])
        kinds = KINDS.get(version)
        if kinds is None:
            return self.fail(404, "NotFound", version)
        if not rest:
            verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
            return self.answer(200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [
                {"name": name, "singularName": kind.lower(), "namespaced": name != "namespaces", "kind": kind, "verbs": verbs}
                for name, kind in kinds.items()]})
        namespace = None
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        if rest[0] not in kinds:
            return self.fail(404, "NotFound", rest[0])
        with CHANGED:
            self.act(version, kinds[rest[0]], rest, namespace, query, body)

    def act(self, version, kind, rest, namespace, query, body):
        resource, name = rest[0], rest[1] if len(rest) > 1 else None
        collection, method = (version, resource), self.command
        if method == "GET" and name is None:
            if query.get("watch"):
                return self.watch(collection, namespace, kind, query)
            return self.answer(200, {
                "kind": f"{kind}List", "apiVersion": version, "metadata": {"resourceVersion": str(len(CHANGES))},
                "items": self.found(collection, namespace, query)})
        given = json.loads(body) if body[:1] == b"{" else {}
        if method == "POST":
            name = given["metadata"]["name"]
        key = (version, resource, namespace, name)
        old = OBJECTS.get(key)
        if old is None and method in ("GET", "DELETE"):
            return self.fail(404, "NotFound", f'{resource} "{name}" not found')
        if method == "GET":
            return self.answer(200, old)
        if method == "DELETE":
            del OBJECTS[key]
            self.change("DELETED", collection, old)
            JOURNAL.write(f"DELETE {kind}/{name}\n")
            return self.answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})
        if method == "POST" and old is not None:
            return self.fail(409, "AlreadyExists", f'{resource} "{name}" already exists')
        is_apply = "apply" in self.headers.get("Content-Type", "")
        if method == "PATCH" and not is_apply:
            if old is None:
                return self.fail(404, "NotFound", name)
            given = merge(json.loads(json.dumps(old)), given)
        given = {"apiVersion": version, "kind": kind, **given}
        metadata = given.setdefault("metadata", {})
        before = (old or {}).get("metadata", {})
        metadata.update(name=name, uid=before.get("uid") or str(uuid.uuid4()), resourceVersion=str(len(CHANGES) + 1),
                        generation=before.get("generation", 0) + 1)
        metadata.setdefault("creationTimestamp", now())
        if namespace:
            metadata["namespace"] = namespace
        OBJECTS[key] = with_status(given)
        self.change("MODIFIED" if old else "ADDED", collection, given)
        JOURNAL.write(f"{method} {kind}/{name}\n")
        self.answer(201 if method == "POST" else 200, given)

    def found(self, collection, namespace, query):
        return [found for key, found in OBJECTS.items()
                if key[:2] == collection and namespace in (None, key[2]) and is_selected(found, query)]

    def change(self, what, collection, found):
        CHANGES.append((what, collection, found))
        CHANGED.notify_all()

    def watch(self, collection, namespace, kind, query):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

        def send(what, found):
            line = json.dumps({"type": what, "object": found}).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()

        seen = int((query.get("resourceVersion") or ["0"])[0] or 0)
        end = time.monotonic() + min(60, int((query.get("timeoutSeconds") or ["60"])[0]))
        try:
            if (query.get("sendInitialEvents") or [""])[0] == "true":
                # The client asked for the list as a stream: send the existing objects, then a bookmark.
                seen = len(CHANGES)
                for found in self.found(collection, namespace, query):
                    send("ADDED", found)
                send("BOOKMARK", {"kind": kind, "apiVersion": collection[0], "metadata": {
                    "resourceVersion": str(seen), "annotations": {"k8s.io/initial-events-end": "true"}}})
            while time.monotonic() < end:
                for what, of, found in CHANGES[seen:]:
                    if of == collection and namespace in (None, found["metadata"].get("namespace")) and is_selected(found, query):
                        send(what, found)
                seen = len(CHANGES)
                CHANGED.wait(0.5)
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            pass

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
