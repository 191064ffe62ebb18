"""The table of the chart's values in its README, made from values.yaml: a key, its default, and the comment above it."""

import json
import re

import yaml

BEGIN = "<!-- values: made from values.yaml by make renew-deploy -->"
END = "<!-- end of values -->"

KEY = re.compile(r"^( *)([A-Za-z0-9]+):")


def inserted(readme: str, values: str) -> str:
    """The README with the table between its two marks made anew."""
    head, rest = readme.split(BEGIN)
    tail = rest.split(END)[1]
    return f"{head}{BEGIN}\n\n{table(values)}\n{END}{tail}"


def table(values: str) -> str:
    """One row for each key that has a comment; groups, which have none, are entered."""
    rows = ["| value | default | meaning |", "|---|---|---|"]
    for path, comment in commented(values):
        default = yaml.safe_load(values)
        for key in path:
            default = default[key]
        shown = json.dumps(default, ensure_ascii=False) if default != "" else '""'
        rows.append(f"| `{'.'.join(path)}` | `{shown}` | {comment.replace('|', '/')} |")
    return "\n".join(rows) + "\n"


def commented(values: str) -> list[tuple[list[str], str]]:
    """The paths of all keys with their comments, in order.

    A key without a comment is taken for a group; a comment has to follow within it.
    """
    found: list[tuple[list[str], str]] = []
    group: list[str] = []
    comment: list[str] = []
    inside = -1  # The indentation of a key that has its row: what is deeper belongs to its default.
    for number, line in enumerate(values.splitlines(), 1):
        key = KEY.match(line)
        if line.strip().startswith("#"):
            comment.append(line.strip().lstrip("# "))
        elif not line.strip():
            comment = []
        elif key and (inside < 0 or len(key[1]) <= inside):
            depth = len(key[1]) // 2
            group = [*group[:depth], key[2]]
            if comment:
                found.append((list(group), " ".join(comment)))
                inside = len(key[1])
            else:
                assert line.endswith(":"), f"values.yaml:{number}: {key[2]} has no comment"
                inside = -1
            comment = []
    return found
