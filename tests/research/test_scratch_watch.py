from __future__ import annotations
from pathlib import Path
from typing import Any
import pytest
from memory.models import TopicFact, LibraryDocument, Source
from memory.services.library import folder as library_folder
from research.services.runs.execution.starting import create_topic
from tests.research.real_documents import write

pytestmark = pytest.mark.django_db(transaction=True)

DOCS = {
    "pricing.md": """# Harbor Cloud pricing

All Harbor Cloud plans include daily backups and support by email.

The Harbor Cloud trial lasts 14 days and needs no credit card.

| Plan | Price | Users |
| --- | --- | --- |
| Starter | 19 € | 3 |
| Team | 59 € | 10 |
| Business | 149 € | 50 |
""",
    "security.md": """# Harbor Cloud security

Harbor Cloud encrypts all data at rest with AES-256.

The security team of Harbor Cloud answers reports within two working days.
""",
    "roadmap.txt": """Harbor Cloud roadmap

Harbor Cloud plans to open a region in Lisbon in March 2027.

Harbor Cloud plans to support passkeys in the second quarter of 2027.
""",
    "about.md": """# About Harbor Cloud

Harbor Cloud was founded in Hamburg in 2014 by three engineers.

More than 4,000 organisations use Harbor Cloud every day.

The second brnach office of Harbor Cloud opened in Porto in 2021.

Visitors today: 4711

Last updated: 1 November 2026

© 2026 Harbor Cloud GmbH
""",
    "limits.csv": "Resource,Unit,Limit\nBackup retention,days,14\nProjects,count,200\n",
    "changelog.md": """# Harbor Cloud changelog

## 2.3.0 (2026-10-02)

- Added audit logs for the Business plan
- Fixed wrong totals in invoices

## 2.2.0 (2026-08-12)

- Added a dark theme for the console of Harbor Cloud
""",
}


def show(run, topic):
    report = run.report
    print("=" * 100)
    print("QUIET", report.is_quiet, "WARN", run.warnings)
    print("DELTA:", report.delta)
    print("BODY:", report.body)
    for i in run.delta_items.all():
        print(
            "  ITEM",
            i.status,
            "|",
            i.sentence,
            "| was:",
            i.previous_text,
            "| fact:",
            bool(i.previous_fact_id),
        )
    for f in TopicFact.objects.filter(topic=topic):
        print(
            "  FACT",
            f.state,
            f.retired_as,
            "|",
            f.text,
            "|",
            f.url[-3:],
            f.source_title,
            f.confirmed_run,
        )


@pytest.fixture
def topic(admin: Any, settings: Any, tmp_path: Path):
    settings.BEACON_LIBRARY_DIR, settings.BEACON_SEARCH = str(tmp_path), ["library"]
    write(tmp_path, DOCS)
    library_folder.scan_if_due(every=0)
    return create_topic(owner=admin, title="Harbor Cloud", by=admin.actor)


def edit(path, **texts):
    for name, (old, new) in texts.items():
        file = next(p for p in path.iterdir() if p.stem == name)
        t = file.read_text()
        assert old in t, (name, old)
        file.write_text(t.replace(old, new))
    library_folder.scan_if_due(every=0)


def test_y_all(topic, tmp_path, run_of):
    show(run_of(topic), topic)
    print("---- emptied")
    (tmp_path / "security.md").write_text("")
    (tmp_path / "roadmap.txt").write_text("\n")
    library_folder.scan_if_due(every=0)
    show(run_of(topic), topic)
    show(run_of(topic), topic)


def test_x_moved(topic, tmp_path, run_of):
    run_of(topic)
    s = "Harbor Cloud was founded in Hamburg in 2014 by three engineers.\n"
    edit(
        tmp_path,
        about=(s, ""),
        security=("# Harbor Cloud security\n", "# Harbor Cloud security\n\n" + s),
    )
    show(run_of(topic), topic)
    show(run_of(topic), topic)


def test_x_reword(topic, tmp_path, run_of):
    run_of(topic)
    edit(tmp_path, about=("organisations", "organizations"))
    edit(tmp_path, about=("brnach", "branch"))
    edit(
        tmp_path,
        pricing=(
            """| Plan | Price | Users |
| --- | --- | --- |
| Starter | 19 € | 3 |
| Team | 59 € | 10 |
| Business | 149 € | 50 |
""",
            """| Plan | Users | Price |
| --- | --- | --- |
| Starter | 3 | 19 € |
| Team | 10 | 59 € |
| Business | 50 | 149 € |
""",
        ),
    )
    show(run_of(topic), topic)
    show(run_of(topic), topic)


def test_x_values(topic, tmp_path, run_of):
    run_of(topic)
    edit(tmp_path, pricing=("14 days", "30 days"))
    edit(tmp_path, pricing=("149", "159"), about=("4711", "4812"))
    edit(tmp_path, about=("1 November 2026", "12 November 2026"))
    edit(tmp_path, about=("© 2026", "© 2027"))
    edit(tmp_path, limits=("days,14\nProjects,count,200", "days,30"))
    edit(
        tmp_path,
        changelog=(
            "# Harbor Cloud changelog\n",
            "# Harbor Cloud changelog\n\n## 2.4.0 (2026-11-20)\n\n- Fixed slow logins\n- Added passkeys for all plans of Harbor Cloud\n",
        ),
    )
    show(run_of(topic), topic)
    for s in Source.objects.filter(topic=topic):
        print("SRC", s.link, s.title)
    from memory.models import Observation

    for o in Observation.objects.all():
        print("OBS", o, getattr(o, "superseded_by_id", None))


def test_x_moved_table(topic, tmp_path, run_of):
    run_of(topic)
    edit(tmp_path, pricing=("| Plan |", "## Plans\n\n| Plan |"))
    edit(tmp_path, pricing=("59 €", "65 €"))
    show(run_of(topic), topic)
