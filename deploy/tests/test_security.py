"""The rendered objects under the eyes of checkov, with a reason for each finding that stays."""

import json

import pytest

from rendering import PYTHON_TOOLS, kustomize, run, template, values_file

# Each finding that stays, with the reason. One that no longer comes up has to leave this list.
STAYS = {
    "CKV2_K8S_6": "no NetworkPolicy: it would not apply to pods in the network of the node",
    "CKV_K8S_8": "no liveness probe of the pod of `helm test`, which runs two commands and ends",
    "CKV_K8S_9": "no readiness probe of that pod, either",
    "CKV_K8S_11": "no CPU limit: throttling would delay the healing of rules",
    "CKV_K8S_15": "pull policy IfNotPresent: a node that cannot reach the registry has to masquerade, too",
    "CKV_K8S_19": "the network of the node: its rules are what the agent is for",
    "CKV_K8S_23": "UID 0: the kernel gives added capabilities to no other",
    "CKV_K8S_25": "added capability NET_ADMIN (and NET_RAW for iptables): nobody else may change rules",
    "CKV_K8S_26": "a port of the node: kubelet's probes reach it there, and the scheduler keeps a second agent away",
    "CKV_K8S_40": "a high UID: as CKV_K8S_23",
    "CKV_K8S_43": "image by tag: the digest is known only once the image is published; image.digest takes it",
}


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rendered")
    for case in ("default", "iptables", "monitoring"):
        (folder / f"chart-{case}.yaml").write_text(template("helm4", "--values", values_file(case)))
    (folder / "azure.yaml").write_text(kustomize("overlays/azure"))
    done = run(PYTHON_TOOLS / "checkov", "--directory", folder, "--framework", "kubernetes", "--output", "json", "--quiet")
    report = json.loads(done.stdout)
    assert report["summary"]["passed"] > 100 and report["summary"]["parsing_errors"] == 0, report["summary"]
    return report["results"]["failed_checks"]


def test_every_finding_is_explained(findings):
    unexplained = [
        f"{found['check_id']} {found['check_name']}: {found['resource']}" for found in findings if found["check_id"] not in STAYS
    ]
    assert not unexplained, "\n".join(sorted(set(unexplained)))


def test_every_explanation_is_of_a_finding(findings):
    assert {found["check_id"] for found in findings} == set(STAYS)
