"""What the tests of deploy/ share: the paths, the programs of .tools, and how to render the chart and the manifests."""

import os
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/chart"
MANIFESTS = ROOT / "deploy/manifests"
GOLDEN = ROOT / "deploy/tests/golden"
TOOLS = ROOT / ".tools"
PYTHON_TOOLS = TOOLS / "venv/bin"
KUBECTL = TOOLS / "bin/kubectl"

# Both major versions that are in use.
HELMS = ("helm3", "helm4")
# The Kubernetes versions that the chart and the manifests are for.
KUBERNETES = tuple(f"1.{minor}" for minor in range(25, 38))
OPERATOR_KINDS = ("PodMonitor", "PrometheusRule")

CI_VALUES = tuple(sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml")))
KUSTOMIZATIONS = ("base", "overlays/iptables", "overlays/kube-addons", "overlays/azure", "overlays/rollback")


def run(*command: object, stdin: str | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a program that is to end by itself; its status is for the caller to judge."""
    words = [str(word) for word in command]
    return subprocess.run(
        words, input=stdin, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **(env or {})}
    )


def output(*command: object, stdin: str | None = None) -> str:
    """What a program prints that has to succeed."""
    done = run(*command, stdin=stdin)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def documents(text: str) -> list[dict]:
    """The objects of a stream of YAML documents, in order."""
    return [document for document in yaml.safe_load_all(text) if document]


def values_file(name: str) -> Path:
    """The values that one case of the chart is rendered with."""
    return CHART / "ci" / f"{name}-values.yaml"


def helm(version: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs one of the two Helms, which keep their files in .tools."""
    homes = {f"HELM_{kind}_HOME": str(TOOLS / version / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
    return run(TOOLS / "bin" / version, *arguments, env=homes)


def template(version: str, *arguments: object) -> str:
    """The chart as `helm template` prints it, for a release as the README makes it."""
    done = helm(version, "template", "ip-masq-agent", CHART, "--namespace", "kube-system", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def chart(name: str) -> list[dict]:
    """The objects of the chart for one case."""
    return documents(template("helm4", "--values", values_file(name)))


def kustomize(name: str) -> str:
    """The manifests of one kustomization as kubectl prints them."""
    return output(KUBECTL, "kustomize", MANIFESTS / name)


def one(objects: list[dict], kind: str) -> dict:
    """The only object of its kind."""
    found = [entry for entry in objects if entry["kind"] == kind]
    assert len(found) == 1, f"{len(found)} objects of kind {kind}"
    return found[0]
