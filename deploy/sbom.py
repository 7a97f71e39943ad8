#!/usr/bin/env python3
"""Prints a CycloneDX 1.5 document with every crate that the released program links, from Cargo's own records. deploy/package calls it
with the version."""
import json
import subprocess
import sys

VERSION = sys.argv[1]
ROOT = "tidings"


def cargo(*arguments):
    done = subprocess.run(["cargo", *arguments], capture_output=True, text=True, check=True, timeout=300)
    return done.stdout


host = next(line.split()[1] for line in subprocess.run(
    ["rustc", "-vV"], capture_output=True, text=True, check=True, timeout=60).stdout.splitlines() if line.startswith("host"))
metadata = json.loads(cargo("metadata", "--format-version", "1", "--locked", "--filter-platform", host))
# The crates that this build links, without those of development features, tests and build tools.
tree = cargo("tree", "--locked", "--package", ROOT, "--no-default-features", "--edges", "normal", "--prefix", "none",
             "--format", "{p}")
linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
components = []
for package in sorted(metadata["packages"], key=lambda package: (package["name"], package["version"])):
    if (package["name"], "v" + package["version"]) not in linked or package["name"] == ROOT:
        continue
    component = {"type": "library", "name": package["name"], "version": package["version"]}
    if package["source"]:
        component["purl"] = f"pkg:cargo/{package['name']}@{package['version']}"
    if package["license"]:
        component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    components.append(component)
print(json.dumps({
    "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
    "metadata": {"component": {"type": "application", "name": ROOT, "version": VERSION}},
    "components": components,
}, indent=1))
