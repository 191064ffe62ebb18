"""What the documents tell people to type: the values are ones that the chart takes, and the kustomizations are there."""

import re
import shlex

import pytest

from rendering import CHART, HELMS, KUBECTL, ROOT, helm, output

DOCUMENTS = [ROOT / "README.md", CHART / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

# Options of install and upgrade that a rendering has no use for, since there is no cluster.
ONLY_WITH_A_CLUSTER = ("--install", "--reuse-values", "--take-ownership", "--force-conflicts", "--wait")


def commands(program):
    """Every command of a program in the shell examples of the documents, as words."""
    found = set()
    for document in DOCUMENTS:
        for block in re.findall(r"^```sh\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words and words[0] == program:
                    found.add(tuple(words))
    return sorted(found)


RENDERED = [words for words in commands("helm") if "deploy/chart" in words]
BUILT = [words for words in commands("kubectl") if "--kustomize" in words]


def test_there_are_such_commands():
    assert len(RENDERED) > 5 and len(BUILT) > 2


@pytest.mark.parametrize("version", HELMS)
@pytest.mark.parametrize("words", RENDERED, ids=" ".join)
def test_the_chart_takes_the_values_of_the_documents(words, version):
    arguments = [word for word in words[1:] if word not in (*ONLY_WITH_A_CLUSTER, "install", "upgrade")]
    arguments[arguments.index("deploy/chart")] = str(CHART)
    done = helm(version, "template", *arguments)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", BUILT, ids=" ".join)
def test_the_kustomizations_of_the_documents_build(words):
    output(KUBECTL, "kustomize", ROOT / words[words.index("--kustomize") + 1])
