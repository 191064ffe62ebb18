"""A node, a pod and an outside in network namespaces; the pod is plugged in by the CNI bridge plugin, as on a real node."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

POD_NETWORK = "10.244.7.0/24"
NODE_ADDRESS = "198.51.100.1"
OUTSIDE_ADDRESS = "198.51.100.2"
PORT = 4711

CNI = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "type": "bridge",
    "bridge": "cni0",
    "isGateway": True,
    "ipMasq": False,
    "ipam": {"type": "host-local", "subnet": POD_NETWORK, "routes": [{"dst": "0.0.0.0/0"}]},
}

# Answers every connection with the address it came from.
ECHO = f"""
import socket
listener = socket.create_server(("", {PORT}))
print("ready", flush=True)
while True:
    connection, peer = listener.accept()
    connection.sendall(peer[0].encode())
    connection.close()
"""

ASK = f"""
import socket, sys
with socket.create_connection((sys.argv[1], {PORT}), timeout=5) as connection:
    print(connection.recv(64).decode())
"""


def run(*command, **options):
    """Runs a program to its end and returns what it printed; a failure shows what it complained about."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}"
    return done.stdout


def eventually(condition, what):
    """Waits until the condition holds."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"not within 20 s: {what}"
        time.sleep(0.02)


class Node:
    """The node's namespace and its neighbours. The names are private: the whole test runs in a mount namespace of its own."""

    def __init__(self):
        for name in ["node", "outside", "pod"]:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", "node", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", "outside")
        for name, address in [("node", NODE_ADDRESS), ("outside", OUTSIDE_ADDRESS)]:
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
        run("ip", "-n", "node", "route", "add", "default", "via", OUTSIDE_ADDRESS)
        # Whatever address a pod asks for, the outside is it.
        run("ip", "-n", "outside", "route", "add", "local", "0.0.0.0/0", "dev", "lo")
        run("ip", "-n", "outside", "route", "add", POD_NETWORK, "via", NODE_ADDRESS)
        self.inside("node", "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        answer = json.loads(self.plug("ADD"))
        self.pod_address = answer["ips"][0]["address"].split("/")[0]
        python = ["ip", "netns", "exec", "outside", sys.executable, "-c", ECHO]
        self.echo = subprocess.Popen(python, stdout=subprocess.PIPE, text=True)
        assert self.echo.stdout.readline() == "ready\n"

    def close(self):
        """Ends what runs; the namespaces go with the mount namespace."""
        self.echo.kill()
        self.echo.wait()
        self.plug("DEL")
        for name in ["node", "outside", "pod"]:
            run("ip", "netns", "delete", name)

    def inside(self, name, *command):
        """Runs a program in one of the namespaces."""
        return run("ip", "netns", "exec", name, *command)

    def plug(self, command):
        """Has the CNI plugin connect the pod, or disconnect it."""
        variables = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": "pod",
            "CNI_NETNS": "/run/netns/pod",
            "CNI_IFNAME": "eth0",
            "CNI_PATH": "/usr/lib/cni",
        }
        plugin = ["ip", "netns", "exec", "node", "/usr/lib/cni/bridge"]
        return run(*plugin, input=json.dumps(CNI), env={**os.environ, **variables})

    def source_seen(self, destination):
        """The address that a receiver at that destination sees when the pod connects to it."""
        return self.inside("pod", sys.executable, "-c", ASK, destination).strip()


class ConfigMap:
    """A volume as the kubelet writes it: a link to the data, which is swapped as a whole."""

    def __init__(self, path: Path, text: str):
        self.path = path
        self.generation = 0
        path.mkdir()
        self.swap(text)
        (path / "ip-masq-agent").symlink_to("..data/ip-masq-agent")

    def swap(self, text: str):
        """Puts another text in the place of the one that is there."""
        self.generation += 1
        folder = self.path / f"..generation_{self.generation}"
        folder.mkdir()
        (folder / "ip-masq-agent").write_text(text)
        (self.path / "..data_tmp").symlink_to(folder.name)
        (self.path / "..data_tmp").rename(self.path / "..data")


