"""How deeply a topic's runs read: how many pages, and how much of each.

One table that the budget, the reader, the writer and the topic's form take their numbers from.
"""

from __future__ import annotations

from dataclasses import dataclass

from research.models import TopicSettings

Choice = TopicSettings.Reading


@dataclass(frozen=True, slots=True)
class Depth:
    """`pages` and `tokens` of a run, unless the topic's own budget says otherwise.

    `text` are the characters of a page that findings are taken from without a model, `prompt`
    those that enter the writing prompt; a model with little room for text gets fewer.
    """

    pages: int
    tokens: int
    text: int
    prompt: int


# 24 pages and 60,000 tokens are what six queries and one report ask for, with room for a repair
# round.  The text of 48 pages, 120,000 characters each, is looked through in about a minute
# (docs/dev/benchmarks.md): thorough stays within a run's 15 minutes.
DEPTHS = {
    Choice.SKIM: Depth(pages=8, tokens=30_000, text=15_000, prompt=2_500),
    Choice.NORMAL: Depth(pages=24, tokens=60_000, text=60_000, prompt=6_000),
    Choice.THOROUGH: Depth(pages=48, tokens=150_000, text=120_000, prompt=12_000),
}


# What the tracks of a deep run may spend beside what reading and the report take: three of them,
# eight rounds each, a round of some 12,000 tokens while the content store keeps it short.
TRACKS_TOKENS = 300_000


def depth_of(settings: TopicSettings) -> Depth:
    """Return how deeply the topic's runs read."""
    return DEPTHS[Choice(settings.reading)]
