"""The workflows of CI and release, and the scripts that they and everybody else run."""

import re

import yaml

from rendering import PYTHON_TOOLS, ROOT, output

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
SCRIPTS = sorted(path for path in (ROOT / ".ci").iterdir() if path.is_file())


def steps():
    for workflow in WORKFLOWS:
        for job in yaml.safe_load(workflow.read_text())["jobs"].values():
            yield from job["steps"]


def test_workflows_are_well_formed():
    assert [workflow.name for workflow in WORKFLOWS] == ["ci.yml", "release.yml"]
    output(PYTHON_TOOLS / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS)


def test_workflows_give_nothing_away():
    output(PYTHON_TOOLS / "zizmor", "--offline", "--no-progress", "--persona", "pedantic", *WORKFLOWS)


def test_actions_of_others_are_pinned_by_commit_with_the_version_beside_it():
    used = [line for workflow in WORKFLOWS for line in workflow.read_text().splitlines() if "uses:" in line]
    assert len(used) > 5
    for line in used:
        assert re.fullmatch(r" *(- )?uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_what_workflows_run_is_there():
    commands = "\n".join(step.get("run", "") for step in steps())
    scripts = set(re.findall(r"\./(\.ci/[\w-]+)", commands))
    assert ".ci/run" in scripts and ".ci/publish" in scripts
    assert {script for script in scripts if not (ROOT / script).exists()} == set()
    targets = {target for words in re.findall(r"make ([a-z -]+)", commands) for target in words.split()}
    makefile = (ROOT / "Makefile").read_text()
    assert targets != set()
    assert {target for target in targets if f"\n{target}:" not in makefile} == set()


def test_the_chart_takes_the_images_that_a_release_pushes():
    repository = yaml.safe_load((ROOT / "deploy/chart/values.yaml").read_text())["image"]["repository"]
    registry, _, rest = repository.partition("/")
    assert f"{registry}/$GITHUB_REPOSITORY_OWNER" in (ROOT / ".github/workflows/release.yml").read_text()
    assert rest.split("/")[1] == "ip-masq-agent"


def test_scripts_are_sound():
    output("shellcheck", *SCRIPTS)
