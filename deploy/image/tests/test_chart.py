"""The pods of the chart, as it renders them, run by podman: what they are allowed is enough, and `helm test` tells the truth."""

import copy
import subprocess
from pathlib import Path

import pytest
import yaml

from conftest import ROOT, exempting
from node import NODE_ADDRESS, eventually

# Which expected rendering of the chart is for which image.
RENDERED = {"nftables": "chart-default.yaml", "iptables": "chart-iptables.yaml"}

EXEMPT = "10.99.0.9"
OTHER = "203.0.113.9"
NET_ADMIN = 1 << 12
NET_RAW = 1 << 13


class Chart:
    """The rendered objects of one backend, brought to where they can run: this image, this ConfigMap, a lock file of the test's own."""

    def __init__(self, podman, image, backend, folder):
        self.podman = podman
        self.folder = folder
        self.image = image
        (folder / "lock").mkdir()
        objects = yaml.safe_load_all((ROOT / "deploy/tests/golden" / RENDERED[backend]).read_text())
        self.objects = {entry["kind"]: entry for entry in objects if entry}

    def play(self, name, spec, config):
        """Starts a pod in the network of the node, which is the one that this program is started in."""
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            container["image"] = self.image
            container["imagePullPolicy"] = "Never"
            # Podman makes commands of the image of probes, which has none, and maps ports even where there is nothing to map.
            for key in ("startupProbe", "livenessProbe", "readinessProbe", "ports"):
                container.pop(key, None)
        for volume in spec["volumes"]:
            # Podman makes one volume of a ConfigMap, whichever pod asks; each is to have its own.
            if "configMap" in volume:
                volume["configMap"]["name"] = name
            if "hostPath" in volume:
                volume["hostPath"]["path"] = str(self.folder / "lock/xtables.lock")
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        configmap = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"config": config}}
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump_all([configmap, pod]))
        node = ["nsenter", "--net=/run/netns/node", *self.podman.command]
        play = [*node, "play", "kube", "--log-driver", "k8s-file", str(path)]
        return subprocess.run(play, capture_output=True, text=True, timeout=120, env=self.podman.environment, check=False)

    def start(self, config):
        """Starts the pod of the DaemonSet."""
        done = self.play("ds", self.objects["DaemonSet"]["spec"]["template"]["spec"], config)
        assert done.returncode == 0, done.stdout + done.stderr

    def test(self, name, config):
        """Runs the pod of `helm test` and returns how its last container ended."""
        done = self.play(name, copy.deepcopy(self.objects["Pod"]["spec"]), config)
        assert done.returncode == 0, done.stdout + done.stderr
        return self.podman("wait", f"{name}-diff").strip()

    def close(self):
        """Removes the pods that were started."""
        for path in self.folder.glob("*.yaml"):
            self.podman("pod", "rm", "--force", "--time", "0", path.stem)


@pytest.fixture
def chart(podman, images, node, backend, tmp_path):
    chart = Chart(podman, images[backend], backend, tmp_path)
    try:
        yield chart
    finally:
        chart.close()


def test_the_pod_of_the_chart_masquerades_with_the_rights_it_is_given(chart, node, backend, podman):
    assert node.source_seen(OTHER) == node.pod_address
    chart.start(exempting("10.99.0.0/16"))
    eventually(lambda: node.source_seen(OTHER) == NODE_ADDRESS, "the pod's rules are in force")
    assert node.source_seen(EXEMPT) == node.pod_address
    pid = podman.inspect("container", "ds-ip-masq-agent")["State"]["Pid"]
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    assert int(status["CapEff"], 16) == (NET_ADMIN if backend == "nftables" else NET_ADMIN | NET_RAW)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_helm_test_passes_where_the_policy_is_in_force_and_fails_where_it_is_not(chart, node, podman):
    config = exempting("10.99.0.0/16")
    assert chart.test("before", config) == "1"
    chart.start(config)
    eventually(lambda: node.source_seen(OTHER) == NODE_ADDRESS, "the pod's rules are in force")
    assert chart.test("after", config) == "0"
    assert chart.test("other", exempting("10.98.0.0/16")) == "1"
