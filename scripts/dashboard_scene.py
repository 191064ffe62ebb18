#!/usr/bin/env python3
"""Three nodes with real agents, traffic and trouble, scraped by a real Prometheus: what the picture of the dashboard shows.

    .ci/tools && cargo build --release -p ip-masq-agent && python3 -m venv .tools/picture && .tools/picture/bin/pip install matplotlib
    sudo .tools/picture/bin/python scripts/dashboard_scene.py target/release/ip-masq-agent docs/images/dashboard.png

All of it lives in network, mount and process namespaces of its own and ends with them, after ten minutes. Look at the picture before
you commit it.
"""

import argparse
import itertools
import math
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

NODES = ["a", "b", "c"]
PORT = 4000
MINUTES = 10
CONFIG = "nonMasqueradeCIDRs: [10.0.0.0/8, 172.16.0.0/12, 'fd00::/8'{more}]\nresyncInterval: 5s\n"
# Node c has few source ports, so that they can run out.
FLAGS = {"a": ["--backend=iptables"], "b": ["--backend=nftables"], "c": ["--backend=nftables", "--to-ports=20000-20119"]}


def run(command):
    subprocess.run(["sh", "-euc", command], check=True)


def in_namespace(name, *command, **options):
    return subprocess.Popen(["ip", "netns", "exec", name, *command], **options)


def build_network():
    """Pods behind nodes, nodes on a bridge, and an outside that owns a few networks: the namespace that this runs in."""
    run("""
        mount -t tmpfs tmpfs /run && mkdir /run/netns
        ip link set lo up
        ip link add br0 type bridge && ip link set br0 up
        ip address add 198.51.100.254/24 dev br0 && ip address add 2001:db8:1::fe/64 dev br0 nodad
        for network in 203.0.113.0/24 10.9.0.0/16 2001:db8:2::/48 fd00:9::/32; do ip route add local $network dev lo; done
    """)
    for number, node in enumerate(NODES, 1):
        run(f"""
            for name in node-{node} pod-{node}; do
                ip netns add $name
                ip -n $name link set lo up
                ip netns exec $name sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0
            done
            ip link add up-{node} master br0 type veth peer name e0 netns node-{node}
            ip -n node-{node} link add p0 type veth peer name eth0 netns pod-{node}
            ip link set up-{node} up
            ip -n node-{node} address add 198.51.100.{number}/24 dev e0
            ip -n node-{node} address add 2001:db8:1::{number}/64 dev e0 nodad
            ip -n node-{node} address add 10.244.{number}.1/24 dev p0
            ip -n node-{node} address add fd00:244:{number}::1/64 dev p0 nodad
            ip -n node-{node} link set e0 up && ip -n node-{node} link set p0 up
            ip -n node-{node} route add default via 198.51.100.254
            ip -n node-{node} route add default via 2001:db8:1::fe
            ip -n pod-{node} address add 10.244.{number}.2/24 dev eth0
            ip -n pod-{node} address add fd00:244:{number}::2/64 dev eth0 nodad
            ip -n pod-{node} link set eth0 up
            ip -n pod-{node} route add default via 10.244.{number}.1
            ip -n pod-{node} route add default via fd00:244:{number}::1
            ip route add 10.244.{number}.0/24 via 198.51.100.{number}
            ip route add fd00:244:{number}::/64 via 2001:db8:1::{number}
        """)


def write_config(folder, node, text):
    fresh = folder / f"fresh-{node}"
    fresh.write_text(text)
    fresh.rename(folder / node)


def start_servers(agent, folder):
    for node in NODES:
        write_config(folder, node, CONFIG.format(more=""))
        in_namespace(f"node-{node}", agent, *FLAGS[node], "--enable-ipv6", "--config", str(folder / node),
                     "--http-bind-address=0.0.0.0:10268", stderr=open(folder / f"log-{node}", "w", encoding="utf-8"))
    targets = ", ".join(f"{{targets: ['198.51.100.{number}:10268'], labels: {{instance: node-{node}}}}}"
                        for number, node in enumerate(NODES, 1))
    (folder / "prometheus.yml").write_text(
        f"global: {{scrape_interval: 2s, scrape_timeout: 2s}}\n"
        f"scrape_configs: [{{job_name: ip-masq-agent, static_configs: [{targets}]}}]\n")
    subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                      "--web.listen-address=127.0.0.1:9090", "--log.level=error"])


def send_traffic(node):
    """Each datagram is a connection, for it comes from a port of its own. Rates rise and fall like those of a day."""
    began, phase = time.monotonic(), NODES.index(node) * 2.1
    ports = itertools.cycle(range(10_000, 60_000))
    owed = {}
    for turn in itertools.count():
        now = time.monotonic() - began
        wave = math.sin(2 * math.pi * now / 420 + phase)
        rates = {f"203.0.113.{turn % 200 + 20}": 20 + 9 * wave, f"10.9.{turn % 200}.7": 11 - 4 * wave,
                 f"2001:db8:2::{turn % 999}": 6 + 2 * wave, f"fd00:9::{turn % 999}": 3}
        if node == "c":
            # A client that opens a connection for each request to one server, more and more of them.
            rates["203.0.113.10"] = 4.4 * min(1, now / 420)
        for kind, (destination, rate) in enumerate(rates.items()):
            owed[kind] = owed.get(kind, 0) + rate / 10
            for _ in range(int(owed[kind])):
                send(destination, next(ports))
            owed[kind] %= 1
        time.sleep(0.1)


def send(destination, port):
    family, any_address = (socket.AF_INET6, "::") if ":" in destination else (socket.AF_INET, "0.0.0.0")
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.bind((any_address, port))
        try:
            sender.sendto(b"x", (destination, PORT))
        except OSError:
            pass  # No free source port: this is what the picture is to show.


def trouble(folder):
    """What happens when, in seconds from the start."""
    flush = "ip netns exec node-a iptables -t nat -F IP-MASQ-AGENT"
    delete = "ip netns exec node-b nft delete table inet ip-masq-agent"
    foreign = """ip netns exec node-b nft 'add table ip docker; add chain ip docker post { type nat hook postrouting priority 110; };
        add rule ip docker post ip saddr 172.17.0.0/16 masquerade'"""
    # An owner who holds the table under our name: the agent cannot put its rules there until the owner ends.
    owner = """(echo 'delete table inet ip-masq-agent; add table inet ip-masq-agent { flags owner; }'; sleep 25) |
        ip netns exec node-c nft -i >/dev/null 2>&1 || true"""
    events = [(100 + 4 * number, lambda: run(flush)) for number in range(5)]
    events += [(360 + 3 * number, lambda: run(delete)) for number in range(8)]
    events += [(150, lambda: write_config(folder, "b", "nonMasqueradeCIDRs: [10.0.0.0/33]\n")),
               (215, lambda: write_config(folder, "b", CONFIG.format(more=""))),
               (300, lambda: run(foreign)),
               (470, lambda: run(owner))]
    for node in NODES:
        events += [(250, lambda node=node: write_config(folder, node, CONFIG.format(more=", 203.0.113.128/25"))),
                   (330, lambda node=node: write_config(folder, node, CONFIG.format(more="")))]
    for after, event in events:
        timer = threading.Timer(after, event)
        timer.daemon = True
        timer.start()


def play(agent, picture):
    build_network()
    # Nobody reads from it: without it, the outside would answer that there is nobody.
    sink = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sink.bind(("::", PORT))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        start_servers(agent, folder)
        for node in NODES:
            in_namespace(f"pod-{node}", sys.executable, __file__, "--send", node)
        trouble(folder)
        time.sleep(MINUTES * 60 + 15)
        draw = pathlib.Path(__file__).with_name("dashboard_picture.py")
        subprocess.run([sys.executable, draw, "http://127.0.0.1:9090", picture, f"--minutes={MINUTES}"], check=True)


def main():
    if sys.argv[1:2] == ["--send"]:
        send_traffic(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("agent", help="the built program")
    parser.add_argument("picture", help="the PNG to write")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        play(os.path.abspath(arguments.agent), arguments.picture)
    else:
        private = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        os.execvp(private[0], [*private, sys.executable, __file__, "--inside", *sys.argv[1:]])


if __name__ == "__main__":
    main()
