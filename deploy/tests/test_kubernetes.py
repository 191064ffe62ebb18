"""Everything that is rendered, against the schemas of Kubernetes and of the Prometheus operator."""

import copy
import json

import kubernetes_validate
import pytest

from rendering import (
    CHART,
    CI_VALUES,
    KUBERNETES,
    KUSTOMIZATIONS,
    OPERATOR_KINDS,
    PYTHON_TOOLS,
    ROOT,
    TOOLS,
    chart,
    documents,
    helm,
    kustomize,
    one,
    run,
    values_file,
)

RENDERED = [*(f"chart {case}" for case in CI_VALUES), *(f"manifests {name}" for name in KUSTOMIZATIONS)]


def rendered(what):
    kind, name = what.split()
    return chart(name) if kind == "chart" else documents(kustomize(name))


@pytest.mark.parametrize("what", RENDERED)
def test_every_object_fits_the_schemas_of_every_kubernetes(what):
    objects = [entry for entry in rendered(what) if entry["kind"] not in OPERATOR_KINDS]
    assert objects
    for version in KUBERNETES:
        for entry in objects:
            kubernetes_validate.validate(entry, version, strict=True)


def test_those_schemas_refuse_an_unknown_field_and_a_wrong_type():
    daemonset = one(chart("default"), "DaemonSet")
    for path, value in (("hostNetwrok", True), ("hostNetwork", "yes")):
        wrong = copy.deepcopy(daemonset)
        wrong["spec"]["template"]["spec"][path] = value
        for version in KUBERNETES:
            with pytest.raises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(wrong, version, strict=True)


def against_operator(objects):
    models = TOOLS / "node_modules/@kubernetes-models/prometheus-operator"
    return run(PYTHON_TOOLS / "node", ROOT / "deploy/tests/operator_schemas.mjs", models, stdin=json.dumps(objects))


def test_what_the_prometheus_operator_gets_fits_its_schemas():
    objects = [entry for entry in chart("monitoring") if entry["kind"] in OPERATOR_KINDS]
    assert sorted(entry["kind"] for entry in objects) == sorted(OPERATOR_KINDS)
    done = against_operator(objects)
    assert done.returncode == 0, done.stderr


def test_those_schemas_refuse_a_wrong_type():
    monitor = one(chart("monitoring"), "PodMonitor")
    monitor["spec"]["podMetricsEndpoints"][0]["interval"] = "often"
    done = against_operator([monitor])
    assert done.returncode != 0
    assert "interval" in done.stderr


@pytest.mark.parametrize("version", ["1.24.17", "1.37.0"])
def test_the_chart_says_which_kubernetes_it_is_for(version):
    done = helm("helm4", "template", CHART, "--kube-version", version, "--values", values_file("default"))
    assert (done.returncode == 0) == (version != "1.24.17"), done.stderr
