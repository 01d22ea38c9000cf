"""The Helm chart: against the code on every machine, and rendered where `helm` is installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from beacon_site.launcher import runner
from research.management.variables import VARIABLES

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "beacon"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
PROCESSES = runner.commands("0.0.0.0", 8000, Path("schedule"))
NAMED = {**VALUES, "existingSecret": "beacon"}


def test_it_runs_the_processes_that_several_hosts_run():
    text = (CHART / "templates" / "processes.yaml").read_text()
    [listed] = re.findall(r"range \$name := list (.*?) }}", text)

    assert set(json.loads(f"[{listed.replace(' ', ',')}]")) == set(PROCESSES)
    assert set(PROCESSES) <= set(VALUES)


def test_it_sets_only_settings_that_exist():
    text = (CHART / "templates" / "settings.yaml").read_text()
    names = re.findall(r"^  ([A-Z_]+):", text, flags=re.MULTILINE)

    assert len(names) > 5
    known = {name for some in VARIABLES.values() for one in some for name in one.names.split()}
    assert set(names) <= known


def test_the_schema_accepts_the_values_and_refuses_mistakes():
    jsonschema.validate(NAMED, SCHEMA)
    for wrong in (
        VALUES,  # no secret
        {**NAMED, "url": "beacon.example"},
        {**NAMED, "web": {"replicas": "two"}},
        {**NAMED, "wokrer": {"replicas": 2}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


@pytest.mark.skipif(not shutil.which("helm"), reason="helm isn't installed")
def test_helm_renders_it():
    words = ["--set", "existingSecret=beacon", "--set", "ingress.enabled=true"]
    told = subprocess.run(
        ["helm", "template", "beacon", str(CHART), *words],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    kinds = [one["kind"] for one in yaml.safe_load_all(told.stdout) if one]

    assert kinds.count("Deployment") == len(PROCESSES)
    assert {"ConfigMap", "Ingress", "Job", "PersistentVolumeClaim", "Service"} <= set(kinds)
