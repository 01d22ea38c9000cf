"""How useful a first report's sentences are: `python -m benchmarks.real.rating COMMAND --mirror DIR`.

`ask` prints the sentences that have no rating yet, shuffled, without saying which engine chose them.
`rate FILE` stores lines such as `a1b2c3d4e5 u`: u useful, t true but trivial, o off topic, b broken.
`table` prints the shares for each engine. A sentence keeps its rating whichever engine chooses it.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.real.documents import Document, NotFetched
from benchmarks.real.engines import fetched, set_up_django

HERE = Path(__file__).parent
TOPICS, RATINGS = HERE / "baseline.toml", HERE / "ratings.tsv"
KINDS = {"u": "useful", "t": "trivial", "o": "off topic", "b": "broken"}
MAX = 10  # sentences of a topic that an engine gives


@dataclass(frozen=True)
class Topic:
    """A topic and the pages that a search by words finds for it."""

    title: str
    language: str
    half: str
    repository: str
    commit: str
    paths: tuple[str, ...]

    def documents(self, mirror: Path) -> list[Document]:
        """Read the pages.  Raises NotFetched."""
        repository = mirror / self.repository.replace("/", "+") / "repo"
        read = []
        for path in self.paths:
            command = ["git", "-C", str(repository), "show", f"{self.commit}:{path}"]
            done = subprocess.run(command, capture_output=True, check=False)
            if done.returncode:
                raise NotFetched(f"{self.repository} isn't in {mirror} with commit {self.commit}.")
            # Lines end as in a page that a run has stored.
            text = done.stdout.decode("utf-8", "replace").replace("\r\n", "\n")
            read.append(Document(path, text))
        return read


Engine = Callable[[Topic, Sequence[Document]], list[str]]


def topics() -> list[Topic]:
    """Read baseline.toml."""
    listed = tomllib.loads(TOPICS.read_text(encoding="utf-8"))["topics"]
    return [Topic(**{**entry, "paths": tuple(entry["paths"])}) for entry in listed]


def beacon(topic: Topic, documents: Sequence[Document]) -> list[str]:
    """Return what Beacon's report without a model would say."""
    from research.claims import selection
    from research.services.runs.reporting import delta

    pages = [
        selection.PageText(
            number,
            f"https://{n}.example/",
            one.title,
            f"{n}.example",
            fetched(one.path, one.source),
        )
        for number, one in enumerate(documents, start=1)
        for n in [f"p{number}"]
    ]
    found = selection.find(pages, topic=topic.title, limit=MAX, embed=delta.local_vectors())
    return [one.sentence for one in found]


def lead(topic: Topic, documents: Sequence[Document]) -> list[str]:
    """Return the first sentence of each page."""
    from beacon_site.text.sentences import sentences

    read = (sentences(document.text, topic.language) for document in documents)
    return [found[0].text for found in read if found]


ENGINES: dict[str, Engine] = {"beacon": beacon, "lead": lead}


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask for ratings, store them, or print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real.rating", description=__doc__)
    parser.add_argument("command", choices=("ask", "rate", "table"))
    parser.add_argument("file", nargs="?", type=Path, help="lines of id and rating, for rate")
    parser.add_argument("--mirror", type=Path, help="folder of OWNER+NAME/repo")
    parser.add_argument("--half", choices=("practice", "final", "all"), default="practice")
    parser.add_argument("--by-topic", action="store_true", help="a line for each topic")
    chosen = parser.parse_args(arguments)
    if chosen.command == "rate":
        return _rate(chosen.file)
    if chosen.mirror is None:
        parser.error("--mirror is needed")
    set_up_django()
    listed = [topic for topic in topics() if chosen.half in (topic.half, "all")]
    try:
        given = {topic: _given(topic, chosen.mirror) for topic in listed}
    except NotFetched as why:
        print(why, file=sys.stderr)
        return 1
    return _ask(given) if chosen.command == "ask" else _table(given, by_topic=chosen.by_topic)


Given = dict[Topic, dict[str, list[str]]]


def _given(topic: Topic, mirror: Path) -> dict[str, list[str]]:
    documents = topic.documents(mirror)
    return {name: engine(topic, documents) for name, engine in ENGINES.items()}


def _ask(given: Given) -> int:
    known = ratings()
    for topic, by_engine in given.items():
        said = sorted({text for texts in by_engine.values() for text in texts})
        random.Random(topic.title).shuffle(said)
        unrated = [text for text in said if key(topic, text) not in known]
        if unrated:
            print(f"\n# {topic.title}")
        for text in unrated:
            print(key(topic, text), text)
    return 0


def _rate(file: Path) -> int:
    known = ratings()
    for line in file.read_text(encoding="utf-8").splitlines():
        name, _space, rating = line.strip().partition(" ")
        if rating[:1] in KINDS and name:
            known[name] = rating[:1]
    rows = "".join(f"{name}\t{rating}\n" for name, rating in sorted(known.items()))
    RATINGS.write_text(rows, encoding="utf-8")
    return 0


def _table(given: Given, *, by_topic: bool) -> int:
    print(f"| | sentences | {' | '.join(KINDS.values())} | not rated | empty topics |")
    print("|---" * (len(KINDS) + 4) + "|")
    for name in ENGINES:
        total: Counter[str] = Counter()
        for topic, by_engine in given.items():
            count = _counted(topic, by_engine[name])
            total += count
            if by_topic:
                print(_row(f"{name}: {topic.title}", count))
        print(_row(f"**{name}**", total))
    return 0


def _counted(topic: Topic, said: Sequence[str]) -> Counter[str]:
    known = ratings()
    count = Counter(known.get(key(topic, text), "?") for text in said)
    count["empty"] += not said
    return count


def _row(name: str, count: Counter[str]) -> str:
    rated = sum(count[kind] for kind in KINDS)
    shares = [f"{100 * count[kind] / rated:.0f} %" if rated else "" for kind in KINDS]
    cells = [name, str(rated + count["?"]), *shares, str(count["?"]), str(count["empty"])]
    return f"| {' | '.join(cells)} |"


def ratings() -> dict[str, str]:
    """Read the stored ratings by the sentences' ids."""
    if not RATINGS.exists():
        return {}
    lines = RATINGS.read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t") for line in lines)


def key(topic: Topic, text: str) -> str:
    """Return the id of a sentence under its topic, which doesn't reveal the text."""
    return hashlib.sha256(f"{topic.title}\n{text}".encode()).hexdigest()[:10]


if __name__ == "__main__":
    sys.exit(main())
