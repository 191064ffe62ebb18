"""The packages: what is in them, what their unit may do, and what the deb does to a node that boots with systemd."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ARCH = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
DEB = ROOT / "dist" / ARCH / "ip-masq-agent.deb"
RPM = DEB.with_suffix(".rpm")
DEBIAN = ROOT / "dist" / ARCH / "debian-node.tar"

# The scale of systemd-analyze goes from 0, which may do nothing, to 10. What is left is the network and its administration.
EXPOSURE = 2.0


def run(*command, check=True, **options):
    """Runs a program to its end and returns what it printed; a failure shows what it complained about."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0 or not check, f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def eventually(condition, what, seconds=60):
    """Waits until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    run("dpkg-deb", "--extract", DEB, folder)
    return folder


def test_the_package_holds_what_a_node_needs(unpacked):
    files = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    tools = {path.name for path in (ROOT / "docs/man").glob("*.8")}
    expected = {
        "etc/config/ip-masq-agent",
        "etc/default/ip-masq-agent",
        "usr/sbin/ip-masq-agent",
        "usr/share/bash-completion/completions/ip-masq-agent",
        "usr/share/doc/ip-masq-agent/NEWS.md",
        "usr/share/doc/ip-masq-agent/THIRD-PARTY.txt",
        "usr/share/doc/ip-masq-agent/changelog.Debian.gz",
        "usr/share/doc/ip-masq-agent/copyright",
        "usr/share/doc/ip-masq-agent/examples/iptables.conf",
        "usr/share/fish/vendor_completions.d/ip-masq-agent.fish",
        "usr/share/lintian/overrides/ip-masq-agent",
        "usr/share/zsh/vendor-completions/_ip-masq-agent",
        *(f"usr/share/man/man8/{tool}.gz" for tool in tools),
    }
    unit = {name for name in files if name.endswith("lib/systemd/system/ip-masq-agent.service")}
    assert len(unit) == 1
    assert files - unit == expected
    assert "completion" in (unpacked / "usr/share/zsh/vendor-completions/_ip-masq-agent").read_text()


def test_both_packages_tell_whose_work_is_in_the_program(unpacked):
    told = (unpacked / "usr/share/doc/ip-masq-agent/THIRD-PARTY.txt").read_text()
    for title in ("rustix [0-9.]+: ", "nix [0-9.]+: MIT$", "GNU C Library, LGPL"):
        assert re.search(title, told, re.MULTILINE), title
    crates = re.findall("^=+\n(.*) [0-9.]+: .*\n=+\n\n(.*)", told, re.MULTILINE)
    assert len(crates) > 20 and all(text for _, text in crates)
    listed = run("rpm", "--query", "--list", "--package", RPM).splitlines()
    assert "/usr/share/licenses/ip-masq-agent/THIRD-PARTY.txt" in listed


def test_the_config_it_brings_is_good_and_means_the_defaults(unpacked, tmp_path):
    program, brought = unpacked / "usr/sbin/ip-masq-agent", unpacked / "etc/config/ip-masq-agent"
    (tmp_path / "empty").touch()
    run(program, "check", "--config", brought)
    render = [program, "render", "--backend=nftables", "--config"]
    assert run(*render, brought) == run(*render, tmp_path / "empty") != ""


def test_the_changelog_is_of_this_version():
    version = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    packaged = run("dpkg-deb", "--field", DEB, "Version").strip()
    assert packaged.split("-")[0] == version
    assert (ROOT / "deploy/deb/changelog").read_text().startswith(f"ip-masq-agent ({packaged})")


def test_the_rpm_holds_the_same(unpacked):
    def names(paths):
        paths = {path.removesuffix(".gz") for path in paths}
        return {path for path in paths if not re.search("/doc/[^/]*/[^/]*$|lintian|licenses|/_ip-masq-agent$", path)}

    listed = run("rpm", "--query", "--list", "--package", RPM).splitlines()
    assert names(listed) == names(f"/{path.relative_to(unpacked)}" for path in unpacked.rglob("*") if path.is_file())
    config = run("rpm", "--query", "--configfiles", "--package", RPM).split()
    assert config == ["/etc/config/ip-masq-agent", "/etc/default/ip-masq-agent"]
    run("rpm", "--checksig", "--nosignature", RPM)
    for script in ("post", "preun", "postun"):
        run("sh", "-n", ROOT / "deploy/rpm" / script)
    requires = run("rpm", "--query", "--requires", "--package", RPM)
    assert "/usr/bin/kill" in requires and "libc" not in requires


def test_lintian_has_nothing_to_say():
    assert run("lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", DEB) == ""


def test_the_unit_is_confined(unpacked):
    threshold = ["--offline=true", f"--threshold={round(EXPOSURE * 10)}", f"--root={unpacked}"]
    run("systemd-analyze", "security", *threshold, "ip-masq-agent.service")


class Machine:
    """A Debian that booted with systemd in containers' namespaces, its network one that it shares with nobody."""

    def __init__(self, folder: Path):
        self.root = folder / "root"
        self.root.mkdir()
        run("tar", "--extract", "--file", DEBIAN, "--directory", self.root)
        (self.root / "package.deb").write_bytes(DEB.read_bytes())
        run("ip", "netns", "add", "machine")
        nspawn = ["systemd-nspawn", "--quiet", f"--directory={self.root}", "--boot", "--register=no", "--keep-unit"]
        nspawn += ["--network-namespace-path=/run/netns/machine", "--capability=CAP_NET_ADMIN", "--console=pipe"]
        self.console = (folder / "console").open("wb")
        self.nspawn = subprocess.Popen(nspawn, stdin=subprocess.DEVNULL, stdout=self.console, stderr=self.console)
        eventually(self.init, "systemd-nspawn starts an init")
        self.leader = self.init()
        eventually(lambda: "running" in self.call("systemctl", "is-system-running", check=False), "it has booted")

    def init(self):
        """The process that is the machine's first, once there is one."""
        children = Path(f"/proc/{self.nspawn.pid}/task/{self.nspawn.pid}/children").read_text().split()
        inits = [child for child in children if Path(f"/proc/{child}/comm").read_text() == "systemd\n"]
        return inits[0] if inits else None

    def call(self, *command, check=True):
        """Runs a program in the machine."""
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
        return run("nsenter", "--target", self.leader, "--all", *command, check=check, env=environment)

    def table(self):
        """The agent's table as the kernel holds it, or what nft complains about."""
        return self.call("nft", "list", "table", "inet", "ip-masq-agent", check=False)

    def property(self, name):
        """What systemd knows about the service."""
        return self.call("systemctl", "show", "--value", "--property", name, "ip-masq-agent").strip()

    def close(self):
        """Switches it off."""
        self.nspawn.send_signal(signal.SIGTERM)
        try:
            self.nspawn.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.nspawn.kill()
            self.nspawn.wait()
        run("ip", "netns", "delete", "machine")


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machine")
    machine = Machine(folder)
    try:
        yield machine
    finally:
        machine.close()
        print((folder / "console").read_text(errors="replace"))


def test_its_life_on_a_node_from_installation_to_purge(machine):
    machine.call("dpkg", "--install", "/package.deb")
    assert machine.property("ActiveState") == "active", machine.call("journalctl", "-u", "ip-masq-agent")
    assert machine.property("UnitFileState") == "enabled"
    assert machine.call("systemd-analyze", "verify", "--man=no", "ip-masq-agent.service") == ""
    assert "10.0.0.0/8" in machine.table()

    pid = machine.property("MainPID")
    status = Path(f"/proc/{machine.leader}/root/proc/{pid}/status").read_text()
    assert re.search(r"^CapEff:\s*0000000000001000$", status, re.MULTILINE), status
    assert not re.search(r"^Uid:\s*0\s", status, re.MULTILINE), status

    config = machine.root / "etc/config/ip-masq-agent"
    config.write_text("nonMasqueradeCIDRs:\n  - 100.64.0.0/10\n")
    eventually(lambda: "100.64.0.0/10" in machine.table(), "the edited config is in force")
    machine.call("systemctl", "reload", "ip-masq-agent")
    assert machine.property("MainPID") == pid, "a reload is no restart"

    machine.call("dpkg", "--install", "/package.deb")
    assert "100.64.0.0/10" in machine.table(), "an upgrade keeps the config, and the rules"
    eventually(lambda: machine.property("MainPID") not in ("0", pid), "the new program runs")

    machine.call("dpkg", "--remove", "ip-masq-agent")
    assert "No such file or directory" in machine.table(), "a removal takes the rules along"
    assert config.exists(), "a removal keeps the config"

    machine.call("dpkg", "--purge", "ip-masq-agent")
    assert not config.parent.exists()
    left = run("find", machine.root / "etc", machine.root / "usr", machine.root / "var", "-name", "*ip-masq-agent*")
    assert left == ""


@pytest.mark.parametrize("stack", ["nft", "legacy"])
def test_with_the_drop_in_of_its_documentation_it_serves_iptables_until_it_is_removed(machine, stack):
    def chains():
        return machine.call(f"iptables-{stack}-save", "-t", "nat")

    for family in ("iptables", "ip6tables"):
        machine.call("update-alternatives", "--set", family, f"/usr/sbin/{family}-{stack}")
    machine.call("dpkg", "--install", "/package.deb")
    assert "10.0.0.0/8" in machine.table()
    (machine.root / "etc/default/ip-masq-agent").write_text('FLAGS="--backend=iptables --masq-chain=IP-MASQ"\n')
    drop_ins = "/etc/systemd/system/ip-masq-agent.service.d"
    machine.call("mkdir", "--parents", drop_ins)
    machine.call("cp", "/usr/share/doc/ip-masq-agent/examples/iptables.conf", drop_ins)
    machine.call("systemctl", "daemon-reload")
    machine.call("systemctl", "restart", "ip-masq-agent")
    assert "-A IP-MASQ -d 10.0.0.0/8 " in chains(), machine.call("journalctl", "-u", "ip-masq-agent")
    assert "No such file or directory" in machine.table(), "the other backend's rules are gone"

    config = machine.root / "etc/config/ip-masq-agent"
    config.write_text("nonMasqueradeCIDRs:\n  - 100.64.0.0/10\n")
    eventually(lambda: "-A IP-MASQ -d 100.64.0.0/10 " in chains(), "the edited config is in force")

    machine.call("dpkg", "--remove", "ip-masq-agent")
    assert "IP-MASQ" not in chains(), "a removal takes the rules along, whatever the chain is called"
    machine.call("dpkg", "--purge", "ip-masq-agent")
    machine.call("rm", "--recursive", drop_ins)


def test_without_its_files_the_service_runs_with_the_defaults(machine):
    machine.call("dpkg", "--install", "/package.deb")
    machine.call("rm", "--recursive", "/etc/config", "/etc/default/ip-masq-agent")
    machine.call("systemctl", "restart", "ip-masq-agent")
    assert machine.property("ActiveState") == "active", machine.call("journalctl", "-u", "ip-masq-agent")
    assert "10.0.0.0/8" in machine.table()
    machine.call("dpkg", "--purge", "ip-masq-agent")


def test_a_daemon_that_hangs_is_replaced(machine):
    machine.call("dpkg", "--install", "/package.deb")
    drop_in = machine.root / "etc/systemd/system/ip-masq-agent.service.d/watchdog.conf"
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text("[Service]\nWatchdogSec=1\n")
    machine.call("systemctl", "daemon-reload")
    machine.call("systemctl", "restart", "ip-masq-agent")
    pid = machine.property("MainPID")
    machine.call("kill", "-STOP", pid)
    eventually(lambda: machine.property("MainPID") not in ("0", pid), "the watchdog replaces it")
    eventually(lambda: machine.property("ActiveState") == "active", "the new one is ready")
    machine.call("dpkg", "--purge", "ip-masq-agent")
