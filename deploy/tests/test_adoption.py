"""Taking over a DaemonSet that somebody made, here or on the way back: what is left of the old one in the merged one."""

from itertools import zip_longest

import pytest
import yaml

from rendering import CI_VALUES, KUBECTL, ROOT, chart, documents, kustomize, one, output

CONTAINER = "spec.template.spec.containers.0."

# What survives a merge, since a map only gains by one; the chart's README says so, and how to be rid of it.
SURVIVES = {
    "reference": set(),
    "kube-addon": {
        "metadata.labels.addonmanager.kubernetes.io/mode",
        "metadata.labels.kubernetes.io/cluster-service",
        "spec.template.spec.nodeSelector.node.kubernetes.io/masq-agent-ds-ready",
    },
    # A container's own profile, the same as the pod's, and a volume that nothing mounts any more.
    "gke-guide": {f"{CONTAINER}securityContext.seccompProfile", "spec.template.spec.volumes.config-volume"},
}


def differences(merged, ours, path=""):
    """The paths at which the merged object is not ours."""
    if isinstance(merged, dict) and isinstance(ours, dict):
        keys = merged.keys() | ours.keys()
        return {found for key in keys for found in differences(merged.get(key), ours.get(key), f"{path}{key}.")}
    if isinstance(merged, list) and isinstance(ours, list):
        pairs = enumerate(zip_longest(merged, ours))
        return {found for place, pair in pairs for found in differences(*pair, f"{path}{place}.")}
    return set() if merged == ours else {path.removesuffix(".")}


@pytest.mark.parametrize("backend", ["default", "iptables"])
@pytest.mark.parametrize("old", SURVIVES)
def test_nothing_of_the_old_object_is_left_but_what_the_readme_tells(old, backend, tmp_path):
    ours = one(chart(backend), "DaemonSet")
    merged = merge(yaml.safe_load((ROOT / f"deploy/tests/old/{old}.yaml").read_text()), ours, tmp_path)
    left = differences(by_name(merged), by_name(ours))
    assert left == SURVIVES[old]


@pytest.mark.parametrize("case", CI_VALUES)
def test_on_the_way_back_the_reference_gets_none_of_our_flags_and_probes(case, tmp_path):
    ours = one(chart(case), "DaemonSet")
    back = one(documents(kustomize("overlays/rollback")), "DaemonSet")
    back["metadata"]["name"] = ours["metadata"]["name"]
    agent = merge(ours, back, tmp_path)["spec"]["template"]["spec"]["containers"][0]
    wanted = {key: value for key, value in back["spec"]["template"]["spec"]["containers"][0].items() if value is not None}
    assert agent.keys() - wanted.keys() == {"imagePullPolicy"}
    assert agent["image"] == wanted["image"]


def merge(old, new, folder):
    """What the API server makes of an object when a client that knows nothing of its history hands it another."""
    (folder / "old.yaml").write_text(yaml.safe_dump(old))
    (folder / "new.yaml").write_text(yaml.safe_dump(new))
    files = ("-f", folder / "old.yaml", "--patch-file", folder / "new.yaml")
    return yaml.safe_load(output(KUBECTL, "patch", "--local", "--type=strategic", *files, "-o", "yaml"))


def by_name(daemonset):
    """Volumes by their names and mounts by their paths, as Kubernetes merges them."""
    pod = daemonset["spec"]["template"]["spec"]
    pod["volumes"] = {volume["name"]: volume for volume in pod["volumes"]}
    agent = pod["containers"][0]
    agent["volumeMounts"] = {mount["mountPath"]: mount for mount in agent["volumeMounts"]}
    return daemonset


def test_the_selector_and_the_configmap_are_the_references():
    daemonset = one(chart("default"), "DaemonSet")
    old = yaml.safe_load((ROOT / "deploy/tests/old/reference.yaml").read_text())
    assert daemonset["metadata"]["name"] == old["metadata"]["name"]
    assert daemonset["spec"]["selector"] == old["spec"]["selector"]
    assert daemonset["spec"]["template"]["spec"]["volumes"] == old["spec"]["template"]["spec"]["volumes"]
