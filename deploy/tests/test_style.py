"""How the YAML and the Python of deploy/ are written."""

from rendering import PYTHON_TOOLS, ROOT, output

RULES = ROOT / "deploy/tests"
PYTHON = (ROOT / "deploy/tests", ROOT / ".ci/deploy", ROOT / "scripts/licences.py")

# Templates are no YAML until they are rendered, and what a program writes is as it is.
NOT_OURS = ("deploy/chart/templates", "deploy/tests/golden")


def test_every_yaml_file_is_tidy():
    files = [path for path in (ROOT / "deploy").rglob("*.yaml") if not str(path.relative_to(ROOT)).startswith(NOT_OURS)]
    assert len(files) > 20
    output(PYTHON_TOOLS / "yamllint", "--strict", "--config-file", RULES / "yamllint.yaml", *files)


def test_the_python_is_tidy():
    ruff = (PYTHON_TOOLS / "ruff", "--config", RULES / "ruff.toml", "--no-cache")
    output(ruff[0], "check", *ruff[1:], *PYTHON)
    output(ruff[0], "format", "--check", *ruff[1:], *PYTHON)
