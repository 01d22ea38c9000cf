"""`make audit`: how it handles pip-audit's answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scripts.audit import judged

FINE = {"name": "django", "version": "5.2", "vulns": []}
WEAK = {"name": "pypdf", "version": "1.0", "vulns": [{"id": "CVE-1", "fix_versions": ["1.1"]}]}
SKIPPED = {"name": "apprise", "skip_reason": "not found on the index"}


@pytest.mark.parametrize(
    ("packages", "code", "said"),
    [
        ([FINE], 0, "1 packages, 0 known weaknesses, 0 left out"),
        ([FINE, WEAK], 1, "pypdf 1.0: CVE-1, fixed in 1.1"),
        ([FINE, SKIPPED], 1, "apprise: left out, not found on the index"),
        ([], 2, "not audited: no package was checked"),
        (
            [SKIPPED, SKIPPED],
            2,
            "not audited: none of 2 packages was found where weaknesses are listed",
        ),
    ],
)
def test_a_weakness_and_a_package_left_out_are_failures(
    packages: list[dict[str, Any]], code: int, said: str
):
    lines, found = judged(json.dumps({"dependencies": packages, "fixes": []}), "")

    assert (found, said in lines) == (code, True)


@pytest.mark.parametrize(
    "error",
    [
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='pypi.org', port=443): Max retries",
        "ERROR:pip_audit._cli:Tried to connect to PyPI, but it timed out",
        "error: Failed to fetch: dns error: failed to lookup address information",
    ],
)
def test_without_a_network_it_says_that_nothing_was_audited(error: str):
    assert judged("", error) == (["not audited: no network"], 2)


def test_another_failure_is_reported_as_it_is():
    lines, code = judged("no JSON", "ERROR: bad hash\n")

    assert (lines[-1], code) == ("ERROR: bad hash", 2)
