"""Asks for URLs as kubelet's probes do, until each answers with the expected status: probe.py STATUS URL ..."""

import sys
import time
import urllib.error
import urllib.request

DEADLINE = time.monotonic() + 20


def status(url: str) -> str:
    """The status of one answer, or why there is none."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.status)
    except urllib.error.HTTPError as error:
        return str(error.code)
    except OSError as error:
        return str(error)


for expected, url in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
    while (seen := status(url)) != expected:
        if time.monotonic() > DEADLINE:
            sys.exit(f"{url} answers {seen}, not {expected}")
        time.sleep(0.02)
    print(expected, url)
