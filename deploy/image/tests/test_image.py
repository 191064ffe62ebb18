"""The images as a node runs them: what is in them, what they may do, and what they do to packets."""

import json
from pathlib import Path

from conftest import DIST, ROOT, exempting
from node import NODE_ADDRESS, eventually

EXEMPT = "10.99.0.9"
OTHER = "203.0.113.9"
NET_ADMIN = 1 << 12

# Bytes that the program may have, so that an image is pulled in the time that a node takes anyway.
LARGEST_PROGRAM = 3_500_000


def test_the_image_holds_the_program_and_nothing_else(podman, images):
    image = podman.inspect("image", images["nftables"])
    program = DIST / "ip-masq-agent"
    assert image["Config"]["Entrypoint"] == ["/ip-masq-agent"]
    assert image["Config"]["User"] == "0"
    assert program.stat().st_size <= LARGEST_PROGRAM
    assert program.stat().st_size <= image["Size"] < program.stat().st_size + 10_000
    mounted = podman("image", "mount", images["nftables"]).strip()
    try:
        assert list(Path(mounted).rglob("*")) == [Path(mounted) / "ip-masq-agent"]
    finally:
        podman("image", "unmount", images["nftables"])


def test_labels_say_what_an_image_is(podman, images):
    for name in images.values():
        labels = podman.inspect("image", name)["Labels"]
        assert labels["org.opencontainers.image.title"].startswith("ip-masq-agent")
        assert labels["org.opencontainers.image.version"] in name
        assert len(labels["org.opencontainers.image.revision"]) == 40
        assert labels["org.opencontainers.image.source"] in (ROOT / "deploy/chart/Chart.yaml").read_text()
        assert "Apache-2.0" in labels["org.opencontainers.image.licenses"]


def test_it_works_with_one_capability_on_a_read_only_root(agent, node):
    status = agent.status()
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == NET_ADMIN
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2", "podman's default filter is on"
    with open(f"/proc/{agent.pid}/mountinfo", encoding="utf-8") as mounts:
        root = next(line.split() for line in mounts if line.split()[4] == "/")
    assert "ro" in root[5].split(",")
    assert node.source_seen(OTHER) == NODE_ADDRESS


def test_packets_of_a_pod_are_masqueraded_or_keep_their_address(agent, node, backend):
    assert node.source_seen(OTHER) == NODE_ADDRESS
    assert node.source_seen(EXEMPT) == node.pod_address
    assert json.loads(agent.tool("status", "-o", "json"))["backend"]["name"] == backend


def test_a_swapped_volume_is_in_force_without_a_restart(agent, node):
    assert node.source_seen(EXEMPT) == node.pod_address
    agent.config.swap(exempting("203.0.113.0/24"))
    eventually(lambda: node.source_seen(OTHER) == node.pod_address, "the new list is in force")
    assert node.source_seen(EXEMPT) == NODE_ADDRESS


def test_sigterm_ends_it_at_once_and_the_rules_stay_until_they_are_cleaned_up(agent, node, podman):
    # After one second podman would send SIGKILL, which the exit code would tell.
    podman("stop", "--time", "1", "agent")
    assert podman.inspect("container", "agent")["State"]["ExitCode"] == 0
    assert node.source_seen(OTHER) == NODE_ADDRESS
    podman("run", "--rm", *agent.rights, agent.image, "cleanup")
    assert node.source_seen(OTHER) == node.pod_address
