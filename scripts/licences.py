"""Prints the licences of what the static program holds of others: scripts/licences.py TARGET

Fails for a crate that brings no text, since somebody then has to look.
"""

import json
import subprocess
import sys
from pathlib import Path

# Of several licences that one may choose among, the shortest text; what has to be fulfilled besides it comes along.
PREFERRED = ("LICENSE-MIT", "LICENSE", "LICENSE-BSD", "LICENSE-APACHE")
BESIDES = ("LICENSE-UNICODE",)

HEAD = """\
The program ip-masq-agent is licensed under the Apache License 2.0. It is linked with the following works of others.

The standard library of Rust: MIT or Apache-2.0, https://www.rust-lang.org/policies/licenses

The C library of the target: the GNU C Library, LGPL-2.1-or-later, of the distribution that the program was built on; or musl,
MIT. Whoever wants another one linked builds the program anew: its sources and .ci/static are all that it takes.
"""


def linked(target):
    """The packages that end up in the program, by name, without the workspace's own."""
    words = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={target}"]
    metadata = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    dependencies = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
    ahead = [identity for identity, package in packages.items() if package["name"] == "ip-masq-agent"]
    found = set()
    while ahead:
        identity = ahead.pop()
        if identity not in found:
            found.add(identity)
            normal = (entry for entry in dependencies[identity] if any(kind["kind"] is None for kind in entry["dep_kinds"]))
            ahead += [entry["pkg"] for entry in normal]
    foreign = (packages[identity] for identity in found - set(metadata["workspace_members"]))
    return sorted(foreign, key=lambda package: (package["name"], package["version"]))


def texts(package):
    """The licence texts that a package asks to be handed on with it."""
    folder = Path(package["manifest_path"]).parent
    chosen = next((folder / name for name in PREFERRED if (folder / name).is_file()), None)
    if chosen is None:
        sys.exit(f"licences.py: {package['name']} {package['version']} brings no text of its licence {package['license']}")
    also = [folder / name for name in BESIDES if (folder / name).is_file()]
    return [path.read_text(encoding="utf-8").strip() for path in (chosen, *also)]


def main():
    parts = [HEAD]
    for package in linked(sys.argv[1]):
        title = f"{package['name']} {package['version']}: {package['license']}"
        parts += [f"{'=' * len(title)}\n{title}\n{'=' * len(title)}\n", *(f"{text}\n" for text in texts(package))]
    print("\n".join(parts), end="")


main()
