"""The plain manifests: equal to what the chart renders, so that neither is forgotten."""

import pytest

from rendering import GOLDEN, KUSTOMIZATIONS, chart, documents, kustomize, one

# Which case of the chart each kustomization equals. Azure's projected volume is nothing that the chart makes.
SAME = {"base": "default", "overlays/iptables": "iptables", "overlays/kube-addons": "kube-addons"}

# Labels that tell which release of Helm owns an object, and nothing about it.
HELMS_OWN = ("app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart")


def normalised(objects):
    """The objects by kind and name, without the labels of Helm's own and without its test."""
    found = {}
    for entry in objects:
        if "helm.sh/hook" in entry["metadata"].get("annotations", {}):
            continue
        pod = entry.get("spec", {}).get("template", {"metadata": {}})
        for metadata in (entry["metadata"], pod["metadata"]):
            for label in HELMS_OWN:
                metadata.get("labels", {}).pop(label, None)
        found[entry["kind"], entry["metadata"]["name"]] = entry
    return found


@pytest.mark.parametrize("name", SAME)
def test_the_manifests_are_what_the_chart_renders(name):
    assert normalised(documents(kustomize(name))) == normalised(chart(SAME[name]))


@pytest.mark.parametrize("name", KUSTOMIZATIONS)
def test_the_manifests_build_as_expected(name, expect):
    expect(kustomize(name), GOLDEN / f"manifests-{name.rpartition('/')[2]}.yaml")


def test_azures_overlay_differs_from_the_base_by_its_config_alone():
    base, azure = (one(documents(kustomize(name)), "DaemonSet") for name in ("base", "overlays/azure"))
    pod = azure["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"].pop() == "--config=/etc/config"
    sources = pod["volumes"][0].pop("projected")["sources"]
    paths = {source["configMap"]["name"]: source["configMap"]["items"][0]["path"] for source in sources}
    assert paths == {
        "ip-masq-agent-config": "ip-masq-agent",
        "ip-masq-agent-config-reconciled": "ip-masq-agent-reconciled",
    }
    assert all(source["configMap"]["optional"] for source in sources)
    del base["spec"]["template"]["spec"]["volumes"][0]["configMap"]
    assert azure == base
