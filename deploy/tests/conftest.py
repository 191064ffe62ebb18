"""The option --renew, and the comparison of a text with the file that says how it should be."""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--renew", action="store_true", help="write the expected files anew; then look at the difference")


@pytest.fixture
def expect(request: pytest.FixtureRequest):
    """Holds a text against a file; with --renew writes the file instead, and fails so that nobody takes that for a test."""

    def compare(text: str, path: Path) -> None:
        before = path.read_text() if path.exists() else None
        if request.config.getoption("--renew") and before != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            pytest.fail(f"renewed {path.name}: look at what changed, then run the tests without --renew", pytrace=False)
        assert text == before, f"{path} is not what is made now; if it should be: make renew-deploy"

    return compare
