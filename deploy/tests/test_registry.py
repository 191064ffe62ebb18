"""The chart as an OCI artifact: packed, pushed to a registry that runs here, pulled and rendered again."""

import hashlib
import socket
import subprocess
import time

import pytest

from rendering import CHART, HELMS, TOOLS, helm, template

# The tests run in a network namespace of their own, so every port is free.
ADDRESS = ("127.0.0.1", 5055)


@pytest.fixture
def registry(tmp_path):
    config = tmp_path / "registry.yml"
    config.write_text(
        "version: 0.1\n"
        "log: {level: error, accesslog: {disabled: true}}\n"
        f"storage: {{filesystem: {{rootdirectory: {tmp_path / 'store'}}}}}\n"
        f"http: {{addr: '{ADDRESS[0]}:{ADDRESS[1]}'}}\n"
    )
    with open(tmp_path / "log", "w+") as log:
        server = subprocess.Popen([TOOLS / "bin/docker-registry", "serve", config], stdout=log, stderr=log)
        try:
            wait_until_it_answers(server, log)
            yield f"oci://{ADDRESS[0]}:{ADDRESS[1]}/charts"
        finally:
            server.kill()
            server.wait()


def wait_until_it_answers(server, log):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            socket.create_connection(ADDRESS, timeout=1).close()
            return
        except ConnectionRefusedError:
            assert server.poll() is None, f"the registry has ended: {log.seek(0) or log.read()}"
            time.sleep(0.02)
    pytest.fail("the registry does not answer within 30 s")


@pytest.mark.parametrize("version", HELMS)
def test_the_chart_survives_a_registry(version, registry, tmp_path):
    done = helm(version, "package", CHART, "--destination", tmp_path)
    assert done.returncode == 0, done.stderr
    package = tmp_path / "ip-masq-agent-0.1.0.tgz"
    done = helm(version, "push", package, registry, "--plain-http")
    assert done.returncode == 0, done.stderr

    pulled = tmp_path / "pulled"
    pulled.mkdir()
    reference = f"{registry}/ip-masq-agent"
    done = helm(version, "pull", reference, "--version", "0.1.0", "--plain-http", "--destination", pulled)
    assert done.returncode == 0, done.stderr
    assert digest(pulled / package.name) == digest(package)

    done = helm(
        version, "template", "ip-masq-agent", reference, "--version", "0.1.0", "--plain-http", "--namespace", "kube-system"
    )
    assert done.returncode == 0, done.stderr
    # Helm 4 tells on standard output, too, what it has pulled.
    assert done.stdout[done.stdout.index("---\n") :] == template(version)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()
