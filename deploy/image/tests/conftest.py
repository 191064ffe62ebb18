"""Containers run by podman and runc, with the archives that .ci/image made, in a store of their own."""

import json
import os
import platform
import subprocess
from pathlib import Path

import pytest

from node import POD_NETWORK, ConfigMap, Node, eventually, run

ROOT = Path(__file__).resolve().parents[3]
DIST = ROOT / "dist" / {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]

# crun, Debian's default, does not know the mixed hierarchy of cgroups; the default limits need a capability that a CI may lack.
CONTAINERS_CONF = """
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
"""


class Podman:
    """Podman with its own store, so that the machine's containers and images are out of reach."""

    def __init__(self, folder: Path):
        (folder / "containers.conf").write_text(CONTAINERS_CONF)
        self.environment = {**os.environ, "CONTAINERS_CONF": str(folder / "containers.conf")}
        store = ["--root", folder / "images", "--runroot", folder / "run", "--tmpdir", folder / "tmp"]
        self.command = ["podman", *map(str, store), "--storage-driver", "vfs"]

    def __call__(self, *arguments):
        return run(*self.command, *map(str, arguments), env=self.environment)

    def load(self, archive: Path):
        """Takes an image out of an archive and returns its name."""
        assert archive.exists(), f"{archive} is missing: run .ci/image"
        return self("load", "--quiet", "--input", archive).strip().removeprefix("Loaded image: ")

    def inspect(self, kind, name):
        """What podman knows about an image or a container."""
        return json.loads(self(kind, "inspect", name))[0]


class Agent:
    """The daemon in a container, with the rights that the manifests give it and no more."""

    def __init__(self, podman: Podman, image: str, folder: Path, config: str, *arguments: str):
        self.podman = podman
        self.image = image
        self.config = ConfigMap(folder / "config", config)
        (folder / "xtables.lock").touch()
        self.rights = ["--network", "ns:/run/netns/node", "--cap-drop", "ALL", "--cap-add", "NET_ADMIN", "--read-only"]
        self.rights += ["--security-opt", "no-new-privileges", "--volume", f"{self.config.path}:/etc/config:ro"]
        self.rights += ["--volume", f"{folder}/xtables.lock:/run/xtables.lock"]
        podman("run", "--detach", "--name", "agent", *self.rights, image, *arguments)
        self.pid = podman.inspect("container", "agent")["State"]["Pid"]

    def close(self):
        """Removes the container, whatever its state."""
        self.podman("rm", "--force", "--time", "0", "agent")

    def log(self):
        """What the daemon has written so far."""
        logs = [*self.podman.command, "logs", "agent"]
        return subprocess.run(logs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout

    def status(self):
        """The lines of /proc/PID/status."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def tool(self, *arguments):
        """Runs one of the program's tools in the running container, as kubectl exec does."""
        return self.podman("exec", "agent", "/ip-masq-agent", *arguments)


def exempting(cidr: str):
    """A config with that CIDR, and with the pods' own."""
    return f"nonMasqueradeCIDRs:\n- {POD_NETWORK}\n- {cidr}\n"


@pytest.fixture(scope="session")
def podman(tmp_path_factory):
    return Podman(tmp_path_factory.mktemp("podman"))


@pytest.fixture(scope="session")
def images(podman):
    """The names of the two images, by backend."""
    return {
        "nftables": podman.load(DIST / "image.tar"),
        "iptables": podman.load(DIST / "image-iptables.tar"),
    }


@pytest.fixture
def node():
    node = Node()
    yield node
    node.close()


@pytest.fixture(params=["nftables", "iptables"])
def backend(request):
    return request.param


@pytest.fixture
def agent(podman, images, node, backend, tmp_path):
    agent = Agent(podman, images[backend], tmp_path, exempting("10.99.0.0/16"))
    try:
        eventually(lambda: node.source_seen("203.0.113.9") != node.pod_address, "the first destination is masqueraded")
        yield agent
    finally:
        print(agent.log())
        agent.close()
