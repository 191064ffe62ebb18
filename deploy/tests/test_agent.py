"""The real agent, started in a network namespace of its own by the words that the chart and the manifests would start it with."""

import os
import shlex
import sys
from pathlib import Path

import pytest

from rendering import CI_VALUES, ROOT, chart, documents, kustomize, one, run, template

AGENT = Path(os.environ["IP_MASQ_AGENT"])


def in_a_namespace(*scripts):
    """Runs commands one after the other in a private network namespace, until one fails."""
    return run("unshare", "--net", "sh", "-ec", "\n".join(["ip link set lo up", *scripts]))


def command(words, config, extra=()):
    """One command line of a container, with the program and the config where they are here."""
    assert words[0] == "/ip-masq-agent"
    return shlex.join([str(AGENT), *words[1:], *extra, f"--config={config}"])


def config_of(objects, folder):
    """The file that the pod would see; without a ConfigMap an empty one, which means the same as none."""
    path = folder / "ip-masq-agent"
    configmaps = [entry for entry in objects if entry["kind"] == "ConfigMap" and "config" in entry["data"]]
    path.write_text(configmaps[0]["data"]["config"] if configmaps else "")
    return path


def words_of(objects):
    """The command lines of the DaemonSet and of the two containers of `helm test`."""
    agent = one(objects, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    test = one(objects, "Pod")["spec"]
    return agent["command"] + agent["args"], test["initContainers"][0]["command"], test["containers"][0]["command"]


@pytest.mark.parametrize("case", CI_VALUES)
def test_what_the_chart_starts_puts_the_policy_in_force_and_helm_test_sees_it(case, tmp_path):
    objects = chart(case)
    config = config_of(objects, tmp_path)
    agent, check, diff = words_of(objects)
    once = ["--once", "--cleanup-on-exit=false"]
    done = in_a_namespace(command(agent, config, once), command(check, config), command(diff, config))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", ["default", "iptables"])
def test_helm_test_fails_where_no_agent_has_been(case, tmp_path):
    objects = chart(case)
    _, _, diff = words_of(objects)
    done = in_a_namespace(command(diff, config_of(objects, tmp_path)))
    assert done.returncode == 1, done.stdout + done.stderr


def test_helm_test_fails_for_a_config_that_the_agent_refuses(tmp_path):
    _, check, _ = words_of(chart("default"))
    (tmp_path / "config").write_text("nonMasqueradeCIDRs: [10.0.0.1/8]\n")
    done = in_a_namespace(command(check, tmp_path / "config"))
    assert done.returncode == 1, done.stdout + done.stderr


def test_helm_test_fails_for_an_unknown_key_that_a_strict_agent_refuses(tmp_path):
    agent, _, diff = words_of(documents(template("helm4", "--set", "strict=true")))
    (tmp_path / "config").write_text("masqLinkLoca: true\n")
    lenient = [word for word in agent if word != "--strict"]
    done = in_a_namespace(command(lenient, tmp_path / "config", ["--once"]), command(diff, tmp_path / "config"))
    assert done.returncode != 0 and "masqLinkLoca" in done.stdout + done.stderr, done.stdout + done.stderr


def probed(objects, config, expected, *before):
    """Runs the agent of the DaemonSet as a daemon until all three probes have been answered as expected."""
    container = one(objects, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    questions = []
    for probe, status in expected.items():
        request = container[f"{probe}Probe"]["httpGet"]
        host = f"[{request['host']}]" if ":" in request["host"] else request["host"]
        questions += [str(status), f"http://{host}:{ports[request['port']]}{request['path']}"]
    daemon = command(container["command"] + container["args"], config)
    probe = shlex.join([sys.executable, str(ROOT / "deploy/tests/probe.py"), *questions])
    return in_a_namespace(*before, f"{daemon} & agent=$!", "trap 'kill $agent; wait $agent' EXIT", probe)


@pytest.mark.parametrize("case", CI_VALUES)
def test_the_agent_answers_the_probes_of_its_pod(case, tmp_path):
    objects = chart(case)
    done = probed(objects, config_of(objects, tmp_path), {"startup": 200, "liveness": 200, "readiness": 200})
    assert done.returncode == 0, done.stdout + done.stderr


def test_served_for_ipv6_it_answers_the_probes_of_a_node_that_keeps_ipv4_apart(tmp_path):
    objects = documents(template("helm4", "--set", "httpBindAddress=[::]"))
    apart = "echo 1 > /proc/sys/net/ipv6/bindv6only"
    done = probed(objects, config_of(objects, tmp_path), {"startup": 200, "liveness": 200, "readiness": 200}, apart)
    assert done.returncode == 0, done.stdout + done.stderr


def test_with_a_config_that_it_refuses_the_pod_is_alive_but_not_ready(tmp_path):
    # A restart would mend nothing, and an update of the DaemonSet must not go on to the next nodes.
    (tmp_path / "config").write_text("nonMasqueradeCIDRs: [10.0.0.1/8]\n")
    done = probed(chart("default"), tmp_path / "config", {"startup": 200, "readiness": 503, "liveness": 200})
    assert done.returncode == 0, done.stdout + done.stderr


def test_azures_two_configs_are_merged(tmp_path):
    agent = one(documents(kustomize("overlays/azure")), "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    (tmp_path / "ip-masq-agent").write_text("nonMasqueradeCIDRs: [10.1.0.0/16]\n")
    (tmp_path / "ip-masq-agent-reconciled").write_text("nonMasqueradeCIDRs: [10.3.0.0/16]\nmasqLinkLocal: true\n")
    words = [word for word in agent["command"] + agent["args"] if not word.startswith("--config=")]
    done = in_a_namespace(command(words, tmp_path, ["--once"]), "nft list table inet ip-masq-agent")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10.1.0.0/16" in done.stdout and "10.3.0.0/16" in done.stdout


def test_on_the_way_back_the_references_chain_takes_over_from_our_table(tmp_path):
    config = config_of([], tmp_path)
    nftables = command(words_of(chart("default"))[0], config, ["--once"])
    rollback = one(documents(kustomize("overlays/rollback")), "DaemonSet")["spec"]["template"]["spec"]["initContainers"][0]
    rulesets = ["nft list tables", "iptables-save -t nat"]
    before = in_a_namespace(nftables, *rulesets).stdout
    assert "inet ip-masq-agent" in before and "IP-MASQ-AGENT" not in before
    after = in_a_namespace(nftables, command(rollback["command"] + rollback["args"], config), *rulesets).stdout
    assert "inet ip-masq-agent" not in after and "-A IP-MASQ-AGENT -d 10.0.0.0/8" in after
