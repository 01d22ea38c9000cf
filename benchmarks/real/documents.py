"""The topics of manifest.toml, and their dated documents as read from fetched repositories."""

from __future__ import annotations

import html
import re
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

MANIFEST = Path(__file__).with_name("manifest.toml")
HALVES = ("practice", "final")
STATUSES = ("new", "changed", "gone")
MARKUP = (".xml", ".html", ".htm")
BLOCK = re.compile(
    r"</?(?:p|li|ul|ol|dl|dt|dd|h\d|tr|table|br|title|published|updated|div|section)\b[^>]*>",
    re.IGNORECASE,
)
HIDDEN = re.compile(r"<!--.*?-->|<(script|style)\b.*?</\1>", re.DOTALL | re.IGNORECASE)


class NotFetched(Exception):
    """A repository, or a commit of it, is missing from the folder of fetched repositories."""


@dataclass(frozen=True)
class Truth:
    """One change that a person interested in the topic would list."""

    statuses: tuple[str, ...]
    sentence: str
    patterns: tuple[str, ...]
    is_in_place: bool


@dataclass(frozen=True)
class Step:
    """What changed from one version to the next."""

    truths: tuple[Truth, ...]
    minor: tuple[str, ...] = ()
    not_news: tuple[str, ...] = ()


@dataclass(frozen=True)
class Topic:
    """A topic, the documents it watches, and the true changes of each of its steps."""

    name: str
    title: str
    language: str
    kind: str
    half: str
    repository: str
    paths: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Document:
    """One file at one version."""

    path: str
    source: str

    @cached_property
    def text(self) -> str:
        """The source without markup, if it is HTML or XML."""
        return _text(self.path, self.source)

    @property
    def title(self) -> str:
        """The title in the front matter, else the first heading, else the file's name."""
        found = re.search(r'^title\s*[:=]\s*"?(.+?)"?\s*$', self.text[:2_000], re.MULTILINE)
        found = found or re.search(r"^(?:#+|=+)\s+(\S.*)$", self.text, re.MULTILINE)
        return found[1].strip() if found else Path(self.path).stem


@dataclass(frozen=True)
class Version:
    """All documents of a topic on one day."""

    date: str
    commit: str
    documents: tuple[Document, ...]


def topics(manifest: Path = MANIFEST) -> list[Topic]:
    """Read the manifest."""
    listed = tomllib.loads(manifest.read_text(encoding="utf-8"))["topics"]
    return [_topic(entry) for entry in listed]


def versions(topic: Topic, mirror: Path) -> list[Version]:
    """Read all versions of a topic.  Raises NotFetched."""
    repository = mirror / topic.repository.replace("/", "+") / "repo"
    if not repository.is_dir():
        raise NotFetched(f"{topic.repository} isn't in {mirror}. Fetch it, then run this again.")
    return [
        Version(day, commit, _documents(repository, commit, topic.paths))
        for day, commit in topic.versions
    ]


def _topic(entry: dict) -> Topic:
    plain = {key: entry[key] for key in ("name", "title", "language", "kind", "half", "repository")}
    return Topic(
        **plain,
        paths=tuple(entry["paths"]),
        versions=tuple((day, commit) for day, commit in entry["versions"]),
        steps=tuple(_step(step) for step in entry["steps"]),
    )


def _step(entry: dict) -> Step:
    truths = [
        Truth(tuple(status.split("|")), sentence, tuple(patterns), is_in_place)
        for key, is_in_place in (("edited", True), ("added", False))
        for status, sentence, *patterns in entry.get(key, [])
    ]
    minor, not_news = entry.get("minor", []), entry.get("not_news", [])
    return Step(tuple(truths), tuple(minor), tuple(not_news))


def _documents(repository: Path, commit: str, paths: Sequence[str]) -> tuple[Document, ...]:
    # A path that this commit doesn't have yet is a document that comes later.
    if _git(repository, "cat-file", "-e", f"{commit}^{{commit}}") is None:
        raise NotFetched(f"{repository} has no commit {commit}. Fetch it again.")
    read = ((path, _git(repository, "show", f"{commit}:{path}")) for path in paths)
    return tuple(Document(path, text) for path, text in read if text is not None)


def _text(path: str, text: str) -> str:
    if not path.endswith(MARKUP):
        return text
    # A break in the source is only a space. A policy wrapped at 80 columns has whole paragraphs.
    blocks = BLOCK.sub("\n", " ".join(HIDDEN.sub(" ", text).split()))
    lines = html.unescape(re.sub(r"<[^>]*>", "", blocks)).splitlines()
    return "\n\n".join(line.strip() for line in lines if line.strip())


def _git(repository: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(repository), *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
