"""How much of what truly changed is reported, and how much of what is reported is true (as in TREC's temporal summarization)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks.real.documents import Step, Topic, Truth, Version
from benchmarks.real.patterns import folded_plain, tells

Item = tuple[str, str, str]  # status, sentence, quote
Engine = Callable[[Topic, Sequence[Version]], list[Item]]
ANNOUNCED = ("new", "changed", "gone", "contradicted")
QUOTABLE = 20  # characters: what is shorter can be in a text by chance


@dataclass
class Score:
    """What was counted over some steps.  Shares are of 1; one without a base is None."""

    truths: int = 0
    told: int = 0
    in_place: int = 0
    in_place_told: int = 0
    right_status: int = 0
    late: int = 0
    items: int = 0
    words: int = 0
    true_items: int = 0
    repeats: int = 0
    old: int = 0
    steps: int = 0
    silent: int = 0
    gone: int = 0
    gone_from_pages: int = 0
    by_status: dict[str, list[int]] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    noise: list[str] = field(default_factory=list)

    def add(self, other: Score) -> None:
        """Count another score in."""
        for name, value in vars(other).items():
            if isinstance(value, dict):
                for status, (right, all_) in value.items():
                    had = self.by_status.get(status, [0, 0])
                    self.by_status[status] = [had[0] + right, had[1] + all_]
            else:
                setattr(self, name, getattr(self, name) + value)

    def share(self, part: str, base: str) -> float | None:
        """One count over another."""
        return getattr(self, part) / getattr(self, base) if getattr(self, base) else None


def replay(topic: Topic, versions: Sequence[Version], engine: Engine) -> Score:
    """Give the engine one version after the other, and score what it tells of each step."""
    total = Score()
    earlier: list[Truth] = []  # of earlier steps
    untold: list[Truth] = []
    for number, step in enumerate(topic.steps, start=1):
        told = engine(topic, versions[: number + 1])
        items = [item for item in told if item[0] in ANNOUNCED]
        before, after = (_all_text(versions[place]) for place in (number - 1, number))
        score, missing = score_step(step, items, earlier, before, after)
        late = [truth for truth in untold if any(_is_told(truth, item) for item in items)]
        score.late = len(late)
        day = versions[number].date
        score.missed = [f"{topic.name} {day}: {line}" for line in score.missed]
        score.noise = [f"{topic.name} {day}: {line}" for line in score.noise]
        total.add(score)
        earlier += step.truths
        untold = [truth for truth in untold if truth not in late] + missing
    return total


def score_step(
    step: Step,
    items: Sequence[Item],
    earlier: Iterable[Truth] = (),
    before: str = "",
    after: str = "",
) -> tuple[Score, list[Truth]]:
    """Score the items of one step; also return the truths that none of them tells.

    `before` and `after` are the texts of all documents at both ends of the step.
    """
    score = Score(truths=len(step.truths), items=len(items), steps=1)
    score.in_place = sum(truth.is_in_place for truth in step.truths)
    score.words = sum(len(_text(item).split()) for item in items)
    score.silent = int(bool(step.truths) and not items)
    told: dict[Truth, set[str]] = {}
    for item in items:
        matched = [truth for truth in step.truths if _is_told(truth, item)]
        false = "" if matched else _why_false(item, step, earlier, before, after)
        right, all_ = score.by_status.get(item[0], [0, 0])
        is_right = any(item[0] in truth.statuses for truth in matched) or not (matched or false)
        score.by_status[item[0]] = [right + is_right, all_ + 1]
        if item[0] == "gone":
            score.gone += 1
            score.gone_from_pages += folded_plain(item[2] or item[1]) not in after
        if false:
            score.old += false == "old"
            score.noise.append(f"[{false}] {item[0]}: {_short(item)}")
        else:
            score.true_items += 1
            score.repeats += bool(matched) and all(truth in told for truth in matched)
        for truth in matched:
            told.setdefault(truth, set()).add(item[0])
    score.told = len(told)
    score.in_place_told = sum(truth.is_in_place for truth in told)
    score.right_status = sum(bool(found & set(truth.statuses)) for truth, found in told.items())
    missing = [truth for truth in step.truths if truth not in told]
    score.missed = [f"{'|'.join(truth.statuses)}: {truth.sentence}" for truth in missing]
    return score, missing


def _why_false(item: Item, step: Step, earlier: Iterable[Truth], before: str, after: str) -> str:
    # An empty answer is a true, minor item.  A quote decides before a pattern: those of minor are wide.
    quote = folded_plain(item[2] or item[1])
    if len(quote) >= QUOTABLE and item[0] == "new" and quote in before:
        return "old"
    if len(quote) >= QUOTABLE and item[0] == "gone" and quote in after:
        return "still there"
    if tells(_text(item), step.minor):
        return ""
    if any(_is_told(truth, item) for truth in earlier):
        return "old"
    return "not news" if tells(_text(item), step.not_news) else "noise"


def _is_told(truth: Truth, item: Item) -> bool:
    return tells(_text(item), truth.patterns)


def _all_text(version: Version) -> str:
    return folded_plain("\n".join(document.text for document in version.documents))


def _text(item: Item) -> str:
    return f"{item[1]} {item[2]}"


def _short(item: Item) -> str:
    text = " ".join((item[1] or item[2]).split())
    return text if len(text) <= 160 else f"{text[:157]}..."
