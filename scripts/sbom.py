"""`make sbom`: what Beacon is made of, as CycloneDX, into dist/beacon-VERSION.cdx.json.

cyclonedx-py reads the lock files; this adds what it cannot know: who needs what, the licenses that the
installed packages declare, and which npm packages are in static/vendor.  The result is checked against
CycloneDX's schema.  It says the same for the same lock files: no time and no number by chance.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from importlib import metadata
from pathlib import Path
from typing import Any

from beacon_site import __version__

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("base", "embeddings", "extras")  # what a user installs; without those of the tests
BEACON = "root-component"  # as cyclonedx-py calls it
OPTIONS = ["--pyproject", "pyproject.toml", "--output-reproducible", "--short-PURLs"]


def main() -> int:
    """Write the file; return the exit code."""
    entries = locked()
    command = [sys.executable, "-W", "ignore", "-m", "cyclonedx_py", "requirements", "-", *OPTIONS]
    told = subprocess.run(
        command, cwd=ROOT, input="\n".join(entries.values()), text=True, capture_output=True,
        check=False,
    )  # fmt: skip
    if told.returncode != 0:
        print(f"sbom: cyclonedx-py failed:\n{told.stderr.strip()}")
        return 1
    document = completed(json.loads(told.stdout), entries)
    if problem := problem_of(document):
        print(f"sbom: not what CycloneDX's schema wants: {problem}")
        return 1
    path = ROOT / "dist" / f"beacon-{__version__}.cdx.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"dist/{path.name}: {len(document['components'])} components")
    return 0


def locked() -> dict[str, str]:
    """Return name -> its lines in the lock files, each package once."""
    entries: dict[str, str] = {}
    for lock in LOCKS:
        text = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
        for entry in re.split(r"\n(?=[a-z0-9])", text.strip()):
            entries.setdefault(re.split(r"[\[=]", entry)[0], entry)
    return entries


def completed(document: dict[str, Any], entries: dict[str, str]) -> dict[str, Any]:
    """Return cyclonedx-py's document with licenses, versions, edges, and the files from npm."""
    document["metadata"]["component"]["version"] = __version__
    for one in document["components"]:
        one["bom-ref"] = one["purl"]
        one.pop("description", None)  # the line of a lock file, which only its reader has
        if licences := licences_of(one["name"]):
            one["licenses"] = licences
    refs = {one["name"]: one["bom-ref"] for one in document["components"]}
    needs: dict[str, set[str]] = defaultdict(set)
    for name, entry in entries.items():
        for parent in re.findall(r"^    #(?: via|  ) ([-\w./ ]+)$", entry, re.M):
            if parent.startswith("-r "):
                needs[BEACON].add(refs[name])
            elif parent in refs:
                needs[refs[parent]].add(refs[name])
    vendored = list(from_npm())
    document["components"] += vendored
    needs[BEACON] |= {one["bom-ref"] for one in vendored}
    everything = [BEACON, *refs.values(), *(one["bom-ref"] for one in vendored)]
    document["dependencies"] = [
        {"ref": ref, "dependsOn": sorted(needs[ref])} for ref in sorted(everything)
    ]
    return document


def licences_of(name: str) -> list[dict[str, Any]]:
    """Return what an installed package declares; nothing for one of another platform."""
    try:
        told = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return []
    if expression := told.get("License-Expression"):
        return [{"expression": expression}]
    classifiers = [c for c in told.get_all("Classifier") or [] if c.startswith("License :: ")]
    names = [c.rpartition(" :: ")[2] for c in classifiers]
    if not names and (said := (told.get("License") or "").strip().partition("\n")[0]):
        names = [said]
    return [{"license": {"name": one}} for one in names]


def from_npm() -> list[dict[str, Any]]:
    """Return the packages whose code is in static/vendor."""
    lock = json.loads((ROOT / "vendor-src" / "package-lock.json").read_text(encoding="utf-8"))
    found = []
    for place, one in lock["packages"].items():
        if not place or one.get("dev"):
            continue
        name = place.rpartition("node_modules/")[2]
        purl = f"pkg:npm/{name.replace('@', '%40')}@{one['version']}"
        found.append(
            {
                "type": "library", "name": name, "version": one["version"], "purl": purl,
                "bom-ref": purl, "licenses": [{"expression": one["license"]}],
            }
        )  # fmt: skip
    return found


def problem_of(document: dict[str, Any]) -> str:
    """Return what CycloneDX's own schema has against the document, or an empty text."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    wanted = SchemaVersion.from_version(document["specVersion"])
    problem = JsonStrictValidator(wanted).validate_str(json.dumps(document))
    return str(problem) if problem else ""


if __name__ == "__main__":
    sys.exit(main())
