"""The benchmark of real documents: its manifest is sound, and its scores add up."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from benchmarks.real import __main__ as command
from benchmarks.real import documents, engines
from benchmarks.real.documents import Document, Step, Topic, Truth, Version
from benchmarks.real.patterns import folded_plain, tells
from benchmarks.real.scoring import replay, score_step

TOPICS = documents.topics()


def test_the_manifest_has_70_topics_in_five_languages():
    halves = Counter(topic.half for topic in TOPICS)
    kinds = {topic.kind for topic in TOPICS}

    assert len(TOPICS) == len({topic.name for topic in TOPICS}) >= 70
    # Topics whose misses were read leave the final half, which is empty until there are new ones.
    assert set(halves) <= set(documents.HALVES)
    assert {topic.language for topic in TOPICS} >= {"en", "de", "fr", "zh", "ja"}
    assert {"release table", "changelog", "law", "policy", "blog", "price list"} <= kinds


def test_there_are_200_true_changes_and_most_are_in_place():
    truths = [truth for topic in TOPICS for step in topic.steps for truth in step.truths]

    assert len(truths) >= 200
    assert sum(truth.is_in_place for truth in truths) >= len(truths) / 2


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_a_topic_is_complete(topic: Topic):
    days = [day for day, _commit in topic.versions]
    truths = [truth for step in topic.steps for truth in step.truths]
    patterns = [part for step in topic.steps for part in (*step.minor, *step.not_news)]
    patterns += [pattern for truth in truths for pattern in truth.patterns]

    assert len(topic.versions) >= 3
    assert len(topic.steps) == len(topic.versions) - 1
    assert days == sorted(set(days))
    assert all(re.fullmatch("[0-9a-f]{16}", commit) for _day, commit in topic.versions)
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", topic.repository)
    assert topic.title and len(topic.title) <= 60
    assert topic.paths and len(topic.paths) == len(set(topic.paths))
    assert all(step.truths for step in topic.steps)
    assert all(truth.patterns and truth.sentence.strip() for truth in truths)
    assert all(
        truth.statuses and set(truth.statuses) <= set(documents.STATUSES) for truth in truths
    )
    assert all(part.strip() for pattern in patterns for part in pattern.split(" & "))


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("| [26.x][] | **Current** |", "26.x & current"),
        ("Node.js 26: end of life 30 April 2029", "26 & 2029-04-30"),
        ("am 3. März 2020 beschlossen", "2020-03-03"),
        ("le 1er août 2024", "2024-08-01"),
        ("2025-Oct-28", "2025-10-28"),
        ("on October 7th, 2025", "2025-10-07"),
        ("gilt ab 01.10.2025", "2025-10-01"),
        ("2026年8月7日发布", "2026-08-07"),
        ("the loi de l’Etat", "l'etat"),
        ("CVE-2026-4873", "4873"),
        ("latest: 18.3", "18.3"),
        ("released 18.3.", "18.3"),
    ],
)
def test_an_item_shows_a_change_however_it_is_written(text: str, pattern: str):
    assert tells(text, (pattern,))


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("latest: 18.30", "18.3"),
        ("latest: 18.3.1", "18.3"),
        ("latest: 118.3", "18.3"),
        ("max", "xs"),
        ("26.x is current", "26.x & 2027-10-20"),
        ("on 33 Nonember 2026", "2026-11-33"),
    ],
)
def test_a_similar_item_does_not_tell_it(text: str, pattern: str):
    assert not tells(text, (pattern,))


APPLE = Truth(("changed",), "Apples cost 3 euros.", ("apples & 3",), is_in_place=True)
PEARS = Truth(("gone",), "Pears aren't sold.", ("pears",), is_in_place=True)
SHOP = Truth(("new", "changed"), "A shop opened.", ("shop",), is_in_place=False)


def test_a_step_is_scored_by_what_is_told_and_what_is_true():
    step = Step((APPLE, PEARS, SHOP), minor=("plums",), not_news=("address",))
    items = [
        ("changed", "Apples: 3 euros", "apples | 3"),
        ("new", "Apples at 3 euros", ""),
        ("new", "The shop is open.", ""),
        ("new", "Plums are ripe.", ""),
        ("new", "The address of the page changed.", ""),
        ("changed", "Unrelated.", ""),
    ]

    score, missing = score_step(step, items)

    assert (score.told, score.truths, score.in_place_told, score.in_place) == (2, 3, 1, 2)
    assert (score.true_items, score.items, score.repeats) == (4, 6, 1)
    assert score.right_status == 2
    assert score.words == 24
    assert score.by_status == {"changed": [1, 2], "new": [2, 4]}
    assert missing == [PEARS]
    assert score.noise == [
        "[not news] new: The address of the page changed.",
        "[noise] changed: Unrelated.",
    ]


def test_a_new_item_that_was_there_before_is_old_and_a_gone_one_that_is_still_there_is_false():
    text = "# Prices\nPlums are **ripe** in September.\nPears are sold by the pound."
    plums = ("new", "Plums", "Plums are ripe in September.")
    pound = ("gone", "Gone", "pears are sold by the pound.")
    step = Step((APPLE,), minor=("plums", "pound"))

    score, _missing = score_step(step, [plums, pound], (), *[folded_plain(text)] * 2)

    assert (score.true_items, score.old) == (0, 1)
    assert score.noise == ["[old] new: Plums", "[still there] gone: Gone"]
    assert score.by_status == {"new": [0, 1], "gone": [0, 1]}
    assert (score.gone, score.gone_from_pages) == (1, 0)


def test_a_true_change_can_quote_a_line_that_only_moved():
    moved = ("changed", "Apples 3: status Scheduled", "a line of twenty characters")

    score, _missing = score_step(Step((APPLE,)), [moved], (), moved[2], moved[2])

    assert (score.told, score.right_status, score.old) == (1, 1, 0)


def test_a_wrong_status_is_told_but_not_right():
    score, _missing = score_step(Step((APPLE,)), [("new", "Apples cost 3", "")])

    assert (score.told, score.right_status) == (1, 0)


def test_what_is_told_a_step_later_is_late_and_what_is_reported_again_is_old():
    topic = _topic([Step((APPLE, SHOP)), Step((PEARS,))])
    told = [[("new", "The shop is open.", "")], [("new", "The shop", ""), ("new", "apples 3", "")]]

    score = replay(topic, _versions(3), lambda _topic, versions: told[len(versions) - 2])

    assert (score.told, score.late, score.old, score.silent) == (1, 1, 2, 0)
    assert score.missed == [
        "fruit 2026-01-02: changed: Apples cost 3 euros.",
        "fruit 2026-01-03: gone: Pears aren't sold.",
    ]


def test_an_engine_that_tells_nothing_is_silent_and_what_is_confirmed_is_not_announced():
    topic = _topic([Step((APPLE,)), Step((PEARS,))])

    score = replay(topic, _versions(3), lambda _topic, _versions: [("confirmed", "apples 3", "")])

    assert (score.items, score.told, score.silent, score.steps) == (0, 0, 2, 2)
    assert score.share("true_items", "items") is None


def test_the_plain_diffs_tell_lines_and_blocks():
    before, after = "a\nold line\nb", "a\nnew line\nb\nmore"
    versions = [
        Version("2026-01-01", "1", (Document("x", before),)),
        Version("2026-01-02", "2", (Document("x", after),)),
    ]
    topic = _topic([])

    assert engines.lines(topic, versions) == [
        ("gone", "old line", ""),
        ("new", "new line", ""),
        ("new", "more", ""),
    ]
    assert engines.blocks(topic, versions) == [
        ("changed", "new line", "old line"),
        ("new", "more", ""),
    ]


def test_beacon_compares_known_documents_and_searches_new_ones(monkeypatch: pytest.MonkeyPatch):
    asked: dict[str, list] = {}

    def outcome(pages, facts, struck=()):
        asked["known"] = [(page.text, page.previous) for page in pages]
        return SimpleNamespace(
            changes=[SimpleNamespace(status="gone", sentence="Pears", quote="p")]
        )

    def find(readings, *, topic, known_pages, limit, more_news):
        asked["beside"] = [page.text for page in known_pages]
        asked["added"] = [(page.text, page.previous, str(page.published_at)) for page in readings]
        return [SimpleNamespace(sentence=f"{topic}: a shop opened.", quote="A shop opened.")]

    selection = SimpleNamespace(PageText=SimpleNamespace, find=find)
    rereading = SimpleNamespace(outcome=outcome)
    for name, module in (
        ("research.claims.selection", selection),
        ("research.services.runs.reporting.rereading", rereading),
    ):
        parent, _dot, child = name.rpartition(".")
        package = ModuleType(parent)
        setattr(package, child, module)
        monkeypatch.setitem(sys.modules, parent, package)
        monkeypatch.setitem(sys.modules, name, module)
    versions = [
        Version("2026-01-01", "1", (Document("prices.md", "pears"),)),
        Version("2026-01-02", "2", (Document("prices.md", "none"), Document("n.md", "A shop"))),
    ]

    told = engines.beacon(_topic([]), versions)

    assert asked["known"] == [("none", "pears"), ("A shop", "")]
    assert asked["beside"] == ["none"]
    assert asked["added"] == [("A shop", "", "2026-01-02 00:00:00+00:00")]
    assert told == [("gone", "Pears", "p"), ("new", "Fruit: a shop opened.", "A shop opened.")]


def test_the_command_reads_versions_from_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    days = _repository(tmp_path / "o+fruit" / "repo")
    manifest = tmp_path / "manifest.toml"
    manifest.write_text(f"""
[[topics]]
name = "fruit"
title = "Fruit prices"
language = "en"
kind = "price list"
half = "practice"
repository = "o/fruit"
paths = ["prices.md", "news.xml"]
versions = {[list(pair) for pair in days]}
[[topics.steps]]
edited = [["changed", "Apples cost 3 euros.", "apples & 3"]]
[[topics.steps]]
edited = [["gone", "Pears aren't sold.", "pears"]]
added = [["new", "A shop opened.", "shop & opened"]]
""")
    listed = documents.topics(manifest)
    monkeypatch.setattr(documents, "topics", lambda: listed)
    read = documents.versions(listed[0], tmp_path)

    ended = command.main(["--mirror", str(tmp_path), "--engine", "blocks", "--misses"])

    assert [len(version.documents) for version in read] == [1, 1, 2]
    assert read[2].documents[1].text == "A shop opened & sells."
    assert read[0].documents[0].title == "Prices"
    assert ended == 0
    assert (
        "| **blocks** | 3 | 100 % | 100 % | 100 % | 100 % | 0 | 3 | 4 | 100 % |"
        in capsys.readouterr().out
    )


def test_a_missing_repository_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    ended = command.main(["--mirror", str(tmp_path), "--topic", "node-releases"])

    assert ended == 1
    assert "nodejs/Release isn't in" in capsys.readouterr().err


def _topic(steps: list[Step]) -> Topic:
    days = tuple((f"2026-01-0{n}", str(n)) for n in range(1, len(steps) + 2))
    return Topic(
        "fruit", "Fruit", "en", "price list", "practice", "o/fruit", (), days, tuple(steps)
    )


@pytest.mark.parametrize("name", ["news.xml", "policy.html"])
def test_a_wrapped_paragraph_of_markup_is_one_paragraph(name: str):
    source = """<!-- A <p>draft</p> --><div>Rules<ul><li>Members may
      use the <b>lathe</b>.</li>
      <LI>Guests may\nnot.</UL></div>"""

    assert documents._text(name, source) == (
        "Rules\n\nMembers may use the lathe.\n\nGuests may not."
    )


def _versions(count: int) -> list[Version]:
    return [Version(f"2026-01-0{n}", str(n), ()) for n in range(1, count + 1)]


def _repository(folder: Path) -> list[tuple[str, str]]:
    folder.mkdir(parents=True)

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        command = ["git", "-C", str(folder), *who, *arguments]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()

    git("init", "-q")
    days = []
    texts = ("apples: 2\n\npears: 4", "apples: 3\n\npears: 4", "apples: 3\n")
    for number, text in enumerate(texts, start=1):
        (folder / "prices.md").write_text(f"# Prices\n\n{text}")
        if number == 3:
            (folder / "news.xml").write_text("<entry><p>A shop opened &amp; sells.</p></entry>")
        git("add", ".")
        git("commit", "-qm", str(number))
        days.append((f"2026-01-0{number}", git("rev-parse", "HEAD")))
    return days
