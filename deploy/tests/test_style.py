"""How the YAML of deploy/ is written."""

from rendering import PYTHON_TOOLS, ROOT, output

# Templates are no YAML until they are rendered, and what a program writes is as it is.
NOT_OURS = ("deploy/chart/templates", "deploy/tests/golden")


def test_every_yaml_file_is_tidy():
    files = [path for path in (ROOT / "deploy").rglob("*.yaml") if not str(path.relative_to(ROOT)).startswith(NOT_OURS)]
    assert len(files) > 20
    output(PYTHON_TOOLS / "yamllint", "--strict", "--config-file", ROOT / "deploy/tests/yamllint.yaml", *files)
