"""The dated scenarios of benchmarks/data/delta as the product compares them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from research.claims.linking import Comparison, DatedSentence

if TYPE_CHECKING:
    from research.claims.linking import Embed

DATA = Path(__file__).resolve().parent / "data" / "delta"

PRACTICE = DATA.parent / "delta_practice.txt"
MARKS = {
    "+": "new",
    "=": "confirmed",
    ">": "changed",
    "!": "contradicted",
    "~": "repeat",
    "-": "noise",
}


@dataclass(frozen=True, slots=True)
class Labelled:
    """A sentence of a scenario with its label; `of` is the place of what it speaks of, or -1."""

    text: str
    status: str
    of: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario; a place counts known facts first, then the sentences of all pages in order."""

    name: str
    topic: str
    known: list[DatedSentence]
    found: list[DatedSentence]
    labels: list[Labelled]

    def comparison(self, embed: Embed | None) -> Comparison:
        return Comparison(self.known, self.found, self.topic, embed)


def scenarios(half: str) -> list[Scenario]:
    """Return the scenarios of one part ("open", "kept", "used", "final") or of "all", by name."""
    found = []
    for path in sorted(DATA.glob("*.json")):
        stored = json.loads(path.read_text(encoding="utf-8"))
        if half in ("all", stored["half"]):
            found.append(_scenario(path.stem, stored))
    return found


def practice() -> list[Scenario]:
    """Return what the author of the matcher wrote to fit it by; nothing is measured on it."""
    _head, *blocks = PRACTICE.read_text(encoding="utf-8").split("\n# ")
    return [_practised(f"practice-{number}", block) for number, block in enumerate(blocks, start=1)]


def _practised(name: str, block: str) -> Scenario:
    """Read one block in the format that the file tells of, as a stored scenario."""
    first, *lines = [line for line in block.splitlines() if line.strip()]
    known: list[dict] = []
    pages: list[dict] = []
    for line in lines:
        mark, rest = line.split(" ", 1)
        if mark == "K":
            key, day, text = rest.split(" ", 2)
            known.append({"id": key, "date": day, "text": text})
        elif mark == "P":
            day, title = rest.split(" ", 1)
            pages.append({"published": day, "title": title, "sentences": []})
        else:
            sentence = {"status": MARKS[mark], "text": rest}
            if mark in "=>!~":
                sentence["of"], sentence["text"] = rest.split(" ", 1)
            pages[-1]["sentences"].append(sentence)
    return _scenario(name, {"topic": first.split(" | ")[0], "known": known, "pages": pages})


def _scenario(name: str, stored: dict) -> Scenario:
    known = [
        DatedSentence(fact["text"], date.fromisoformat(fact["date"])) for fact in stored["known"]
    ]
    places = {fact["id"]: place for place, fact in enumerate(stored["known"])}
    found: list[DatedSentence] = []
    labels: list[Labelled] = []
    for page_number, page in enumerate(stored["pages"]):
        before, on = "", date.fromisoformat(page["published"])
        for number, sentence in enumerate(page["sentences"]):
            places[f"{page_number}:{number}"] = len(known) + len(found)
            found.append(DatedSentence(sentence["text"], on, before, page["title"]))
            before = sentence["text"]
            of = places[sentence["of"]] if "of" in sentence else -1
            labels.append(Labelled(before, sentence["status"], of))
    return Scenario(name, stored["topic"], known, found, labels)
