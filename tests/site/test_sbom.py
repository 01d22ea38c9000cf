"""`make sbom`: what is added to cyclonedx-py's reading of the lock files."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import pytest

from scripts import sbom


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The document, from what cyclonedx-py would make of the lock files."""
    entries = sbom.locked()
    components = [{"name": one, "purl": f"pkg:pypi/{one}@1"} for one in entries]
    return sbom.completed({"metadata": {"component": {}}, "components": components}, entries)


def test_everything_in_it_is_needed_by_something_in_it(document: dict[str, Any]):
    edges = {one["ref"]: one["dependsOn"] for one in document["dependencies"]}
    needed = {ref for refs in edges.values() for ref in refs}

    assert set(edges) - needed == {sbom.BEACON}
    assert needed <= set(edges)
    assert "pkg:pypi/django@1" in edges[sbom.BEACON]
    assert "pkg:pypi/sqlparse@1" in edges["pkg:pypi/django@1"]


def test_it_shows_licenses_and_the_files_from_npm(document: dict[str, Any]):
    licences = {one["name"]: one.get("licenses") for one in document["components"]}

    assert licences["psycopg"] == [{"expression": "LGPL-3.0-only"}]
    assert licences["htmx.org"] == [{"expression": "0BSD"}]
    assert "esbuild" not in licences, "it builds and is not in what was built"
    installed = {one.name.lower().replace("_", "-") for one in metadata.distributions()}
    assert [name for name, told in licences.items() if not told and name in installed] == []
