"""The chart, rendered by both major versions of Helm: what comes out, and that its files agree with each other and the agent."""

import json
import re
import tarfile

import pytest
import yaml

import values_table
from rendering import CHART, CI_VALUES, GOLDEN, HELMS, ROOT, chart, documents, helm, one, template, values_file


@pytest.mark.parametrize("version", HELMS)
@pytest.mark.parametrize("case", CI_VALUES)
def test_helm_finds_nothing_to_complain_about(case, version):
    done = helm(version, "lint", "--strict", CHART, "--values", values_file(case))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize("case", CI_VALUES)
def test_the_chart_renders_as_expected(case, expect):
    text = template("helm4", "--values", values_file(case))
    # The copies are compared below, and need not be here once more.
    text = re.sub(r"(\n  ip-masq-agent\.json: \|\n)(?: {4}.*\n)+", r"\1    (files/dashboard.json)\n", text)
    text = re.sub(r"(\nspec:\n)  groups:\n(?: {2}.*\n|\n)+", r"\1  (files/alerts.yaml)\n", text)
    expect(text, GOLDEN / f"chart-{case}.yaml")


@pytest.mark.parametrize("case", CI_VALUES)
def test_both_helms_render_the_same_objects(case):
    texts = [template(version, "--values", values_file(case)) for version in HELMS]
    third, fourth = (sorted(documents(text), key=lambda entry: (entry["kind"], entry["metadata"]["name"])) for text in texts)
    assert third == fourth


def test_the_notes_say_what_to_do_next(expect):
    done = helm(
        "helm4", "install", "ip-masq-agent", CHART, "--namespace", "kube-system", "--dry-run=client", "--set", "backend=auto"
    )
    assert done.returncode == 0, done.stderr
    expect(done.stdout.split("NOTES:\n")[1], GOLDEN / "notes.txt")


@pytest.mark.parametrize("version", HELMS)
def test_metrics_that_prometheus_cannot_reach_are_refused_with_the_remedy(version):
    done = helm(version, "template", CHART, "--set", "podMonitor.enabled=true")
    assert done.returncode != 0
    assert "set httpBindAddress to 0.0.0.0 or [::]" in done.stderr


@pytest.mark.parametrize("version", HELMS)
@pytest.mark.parametrize("flag", ["--backend=iptables", "-http-bind-address=", "--once"])
def test_flags_that_the_pod_would_not_survive_are_refused_with_the_remedy(flag, version):
    done = helm(version, "template", CHART, "--set", f"extraArgs={{--resync-interval=30,{flag}}}")
    assert done.returncode != 0
    assert f"extraArgs: {flag} does not go with this chart: " in done.stderr
    assert "<no value>" not in done.stderr


@pytest.mark.parametrize("case", ["config", "pool"])
def test_the_list_stays_when_helm_is_done_with_it(case):
    # An empty list in the values, or no release any more, must not make agents that are still there take the defaults.
    assert one(chart(case), "ConfigMap")["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_the_image_is_the_variant_that_the_backend_needs():
    def image(*sets):
        arguments = [word for setting in sets for word in ("--set", setting)]
        daemonset = one(documents(template("helm4", *arguments)), "DaemonSet")
        return daemonset["spec"]["template"]["spec"]["containers"][0]["image"].removeprefix("ghcr.io/ip-masq-agent/")

    digest = "sha256:" + "ab" * 32
    assert image() == "ip-masq-agent:0.1.0"
    assert image("backend=iptables") == "ip-masq-agent:0.1.0-iptables"
    assert image("backend=auto") == "ip-masq-agent:0.1.0-iptables"
    assert image("backend=iptables", "image.tag=mine") == "ip-masq-agent:mine"
    assert image("image.tag=mine", f"image.digest={digest}") == f"ip-masq-agent@{digest}"


def test_only_a_backend_that_may_run_iptables_gets_a_raw_socket_and_the_nodes_lock():
    for case in CI_VALUES:
        pod = one(chart(case), "DaemonSet")["spec"]["template"]["spec"]
        agent = pod["containers"][0]
        may_run_iptables = agent["args"][0] != "--backend=nftables"
        added = agent["securityContext"]["capabilities"]["add"]
        paths = [volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume]
        assert added == (["NET_ADMIN", "NET_RAW"] if may_run_iptables else ["NET_ADMIN"]), case
        assert paths == (["/run/xtables.lock"] if may_run_iptables else []), case


def test_a_changed_config_restarts_no_agent():
    pods = []
    for limit in (1, 2):
        rendered = documents(template("helm4", "--set", f"config.cidrLimit={limit}"))
        assert yaml.safe_load(one(rendered, "ConfigMap")["data"]["config"]) == {"cidrLimit": limit}
        pods.append(one(rendered, "DaemonSet"))
    assert pods[0] == pods[1]


def test_without_a_config_the_users_own_configmap_is_left_alone():
    assert "ConfigMap" not in [entry["kind"] for entry in chart("default")]


def test_no_label_of_the_addon_manager_is_shipped():
    # It deletes what it finds under these labels and did not make.
    for case in CI_VALUES:
        rendered = template("helm4", "--values", values_file(case))
        assert "kubernetes.io/cluster-service" not in rendered
        assert "addonmanager.kubernetes.io" not in rendered


def test_every_value_has_a_comment_and_stands_in_the_table(expect):
    readme = CHART / "README.md"
    expect(values_table.inserted(readme.read_text(), (CHART / "values.yaml").read_text()), readme)


def test_the_schema_knows_exactly_the_values_there_are():
    def compare(schema, values, path):
        assert set(schema["properties"]) - {"global"} == set(values), path or "the top"
        for key, value in values.items():
            inner = schema["properties"][key]
            if value and "properties" in inner:
                compare(inner, value, f"{path}{key}.")

    compare(json.loads((CHART / "values.schema.json").read_text()), yaml.safe_load((CHART / "values.yaml").read_text()), "")


def test_the_schema_knows_exactly_the_keys_that_the_agent_knows():
    schema = json.loads((CHART / "values.schema.json").read_text())
    source = (ROOT / "crates/masq/src/config/keys.rs").read_text()
    table = source[source.index("const KEYS") : source.index("];", source.index("const KEYS"))]
    keys = re.findall(r'name: "([^"]+)"', table)
    assert keys and sorted(schema["definitions"]["config"]["properties"]) == sorted(keys)


def test_the_version_is_the_programs():
    version = re.search(r'^version = "([^"]+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    described = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert described["version"] == described["appVersion"] == version
    images = yaml.safe_load(described["annotations"]["artifacthub.io/images"])
    assert [image["image"].rpartition(":")[2] for image in images] == [version, f"{version}-iptables"]


@pytest.mark.parametrize("name", ["alerts.yaml", "dashboard.json"])
def test_the_alerts_and_the_dashboard_are_copies(name, expect):
    # A chart is packed without what lies beside it, so it has its own.
    expect((ROOT / "deploy/monitoring" / name).read_text(), CHART / "files" / name)


def test_the_alerts_and_the_dashboard_arrive_unchanged():
    objects = chart("monitoring")
    alerts = yaml.safe_load((CHART / "files/alerts.yaml").read_text())
    assert one(objects, "PrometheusRule")["spec"] == alerts
    dashboards = [entry["data"] for entry in objects if entry["metadata"]["name"] == "ip-masq-agent-dashboard"]
    assert [json.loads(data["ip-masq-agent.json"]) for data in dashboards] == [
        json.loads((CHART / "files/dashboard.json").read_text())
    ]


def test_the_package_holds_what_the_cluster_needs_and_no_more(tmp_path):
    done = helm("helm4", "package", CHART, "--destination", tmp_path)
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / "ip-masq-agent-0.1.0.tgz") as package:
        names = {name.removeprefix("ip-masq-agent/") for name in package.getnames()}
    assert {"Chart.yaml", "README.md", "values.yaml", "values.schema.json", "files/alerts.yaml", "templates/NOTES.txt"} <= names
    assert not [name for name in names if name.startswith("ci/")]
