"""A release as far as it goes without the project's name: images and chart pushed to a registry that runs here."""

import json
import re
import shutil
import subprocess
import urllib.request

import pytest
from conftest import DIST, ROOT
from node import eventually, run

# The tests run in a network namespace of their own, so every port is free.
ADDRESS = "127.0.0.1:5055"
INDEX = "application/vnd.oci.image.index.v1+json"


def get(path, accept="*/*"):
    request = urllib.request.Request(f"http://{ADDRESS}/v2/{path}", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.load(answer)


def answers():
    try:
        return get("") == {}
    except OSError:
        return False


@pytest.fixture
def registry(tmp_path):
    config = tmp_path / "registry.yml"
    config.write_text(
        "version: 0.1\n"
        f"storage: {{filesystem: {{rootdirectory: {tmp_path / 'store'}}}}}\n"
        f"http: {{addr: '{ADDRESS}'}}\n"
    )
    run("ip", "link", "set", "lo", "up")
    with open(tmp_path / "log", "w") as log:
        server = subprocess.Popen([ROOT / ".tools/bin/docker-registry", "serve", config], stdout=log, stderr=log)
        try:
            eventually(answers, "the registry answers")
            yield
        finally:
            server.kill()
            server.wait()


@pytest.fixture
def project(tmp_path):
    """What publishing reads. For the other architecture this one's images stand in, swapped so that they differ: nobody looks inside."""
    project = tmp_path / "project"
    for part in (".ci", "deploy/chart"):
        shutil.copytree(ROOT / part, project / part)
    shutil.copy(ROOT / "Cargo.toml", project)
    (project / ".tools").symlink_to(ROOT / ".tools")
    archives = ["image.tar", "image-iptables.tar"]
    for arch, stand_ins in (("amd64", archives), ("arm64", archives[::-1])):
        folder = project / "dist" / arch
        folder.mkdir(parents=True)
        for archive, stand_in in zip(archives, stand_ins, strict=True):
            (folder / archive).symlink_to(DIST / stand_in)
    return project


def test_both_images_and_the_chart_are_published_and_their_digests_told(registry, project):
    run(project / ".ci/publish", f"{ADDRESS}/owner", "--plain-http")
    told = dict(line.split("=", 1) for line in (project / "dist/digests").read_text().splitlines())
    assert list(told) == ["image", "image_iptables", "chart"]
    version = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    assert set(get("owner/ip-masq-agent/tags/list")["tags"]) == {version, f"{version}-iptables"}
    for name in ("image", "image_iptables"):
        digest = told[name].removeprefix(f"{ADDRESS}/owner/ip-masq-agent@")
        index = get(f"owner/ip-masq-agent/manifests/{digest}", INDEX)
        assert [image["platform"]["architecture"] for image in index["manifests"]] == ["amd64", "arm64"]
    digest = told["chart"].removeprefix(f"{ADDRESS}/owner/charts/ip-masq-agent@")
    assert get("owner/charts/ip-masq-agent/tags/list")["tags"] == [version]
    chart = get(f"owner/charts/ip-masq-agent/manifests/{digest}", "application/vnd.oci.image.manifest.v1+json")
    assert chart["config"]["mediaType"] == "application/vnd.cncf.helm.config.v1+json"


def test_a_registry_that_is_not_there_is_an_error(project):
    done = subprocess.run([project / ".ci/publish", f"{ADDRESS}/owner", "--plain-http"], capture_output=True, check=False)
    assert done.returncode != 0
    assert (project / "dist/digests").read_text() == ""
