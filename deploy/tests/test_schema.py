"""What values.schema.json refuses, and that both major versions of Helm refuse it."""

import json

import pytest
import yaml

from rendering import CHART, CI_VALUES, HELMS, PYTHON_TOOLS, helm, output, values_file

# What is wrong, as values, and what the message has to name.
WRONG = {
    "an unknown value": ({"backedn": "nftables"}, "backedn"),
    "an unknown value in a group": ({"image": {"repo": "x"}}, "repo"),
    "an unknown backend": ({"backend": "ipvs"}, "backend"),
    "a backend in capitals": ({"backend": "NFTables"}, "backend"),
    "an unknown key of the config": ({"config": {"nonMasqueradeCIDR": []}}, "nonMasqueradeCIDR"),
    "a config as text": ({"config": "nonMasqueradeCIDRs: []"}, "config"),
    "CIDRs as a string": ({"config": {"nonMasqueradeCIDRs": "10.0.0.0/8"}}, "nonMasqueradeCIDRs"),
    "a number for a CIDR": ({"config": {"nonMasqueradeCIDRs": [10]}}, "nonMasqueradeCIDRs"),
    "no CIDR at all": ({"config": {"nonMasqueradeCIDRs": [None]}}, "nonMasqueradeCIDRs"),
    "an address without a prefix": ({"config": {"nonMasqueradeCIDRs": ["10.0.0.0"]}}, "nonMasqueradeCIDRs"),
    "a prefix with a leading zero": ({"config": {"nonMasqueradeCIDRs": ["172.16.0.0/012"]}}, "nonMasqueradeCIDRs"),
    "a limit below zero": ({"config": {"cidrLimit": -1}}, "cidrLimit"),
    "half a limit": ({"config": {"cidrLimit": 1.5}}, "cidrLimit"),
    "a boolean as text": ({"config": {"masqLinkLocal": "true"}}, "masqLinkLocal"),
    "an interval without a unit": ({"config": {"resyncInterval": "60"}}, "resyncInterval"),
    "an interval as a number": ({"config": {"resyncInterval": 60}}, "resyncInterval"),
    "IPv6 as text": ({"enableIPv6": "yes"}, "enableIPv6"),
    "no port": ({"httpPort": 0}, "httpPort"),
    "a port out of range": ({"httpPort": 65536}, "httpPort"),
    "a port as text": ({"httpPort": "10268"}, "httpPort"),
    "an address of one node": ({"httpBindAddress": "192.0.2.1"}, "httpBindAddress"),
    "source ports out of range": ({"toPorts": "1024-70000"}, "toPorts"),
    "source ports with a blank": ({"toPorts": "1024-2000, 3000"}, "toPorts"),
    "a chain name that is too long": ({"masqChain": "A" * 29}, "masqChain"),
    "a chain name like a flag": ({"masqChain": "-X"}, "masqChain"),
    "a word among the flags": ({"extraArgs": ["status"]}, "extraArgs"),
    "flags as a string": ({"extraArgs": "--v=2"}, "extraArgs"),
    "a verbosity as text": ({"verbosity": "2"}, "verbosity"),
    "an unknown log format": ({"logFormat": "logfmt"}, "logFormat"),
    "a digest that is too short": ({"image": {"digest": "sha256:abc"}}, "digest"),
    "a tag with a colon": ({"image": {"tag": "a:b"}}, "tag"),
    "an unknown pull policy": ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
    "a Secret without a name": ({"imagePullSecrets": [{}]}, "imagePullSecrets"),
    "a name in capitals": ({"fullnameOverride": "Agent"}, "fullnameOverride"),
    "no node to be updated": ({"maxUnavailable": 0}, "maxUnavailable"),
    "zero per cent": ({"maxUnavailable": "0%"}, "maxUnavailable"),
    "a label that is a boolean": ({"podLabels": {"a": True}}, "podLabels"),
    "the selector's label": ({"podLabels": {"k8s-app": "x"}}, "podLabels"),
    "a toleration's unknown key": ({"tolerations": [{"operater": "Exists"}]}, "operater"),
    "a quantity that is none": ({"resources": {"limits": {"memory": "64 MB"}}}, "memory"),
    "an unknown kind of affinity": ({"affinity": {"nodesAffinity": {}}}, "nodesAffinity"),
    "a scrape interval without a unit": ({"podMonitor": {"interval": "30"}}, "interval"),
}

RIGHT = {
    "IPv6": {"config": {"nonMasqueradeCIDRs": ["fd00::/8", "::/0", "64:ff9b::10.0.0.0/104"]}, "enableIPv6": True},
    "no CIDRs": {"config": {"nonMasqueradeCIDRs": []}},
    "all ports": {"toPorts": "0-65535"},
    "every node at once": {"maxUnavailable": "100%"},
    "no limits": {"resources": {"limits": None}},
    "a parent's values": {"global": {"imageRegistry": "x"}},
}


def test_the_schema_is_one():
    output(PYTHON_TOOLS / "check-jsonschema", "--check-metaschema", CHART / "values.schema.json")


@pytest.mark.parametrize("version", HELMS)
@pytest.mark.parametrize("what", WRONG)
def test_wrong_values_are_refused(what, version, tmp_path):
    values, named = WRONG[what]
    done = helm(version, "template", CHART, "--values", written(values, tmp_path))
    assert done.returncode != 0, f"{what} passed"
    assert "values don't meet the specifications of the schema" in done.stderr
    assert named in done.stderr, f"the message does not name {named}:\n{done.stderr}"


@pytest.mark.parametrize("version", HELMS)
@pytest.mark.parametrize("what", RIGHT)
def test_unusual_but_right_values_pass(what, version, tmp_path):
    done = helm(version, "template", CHART, "--values", written(RIGHT[what], tmp_path))
    assert done.returncode == 0, done.stderr


def test_the_cases_of_the_chart_leave_no_value_out():
    # A value that no case sets is rendered by no test.
    values = set(yaml.safe_load((CHART / "values.yaml").read_text()))
    used = set().union(*(yaml.safe_load(values_file(case).read_text()) for case in CI_VALUES))
    assert not values - used


def written(values, folder):
    path = folder / "values.yaml"
    path.write_text(json.dumps(values))
    return path
