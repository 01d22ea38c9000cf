"""What Beacon asks of an embedder: vectors that lie near each other where texts mean the same.

No adapter is imported before one is needed.  All return vectors of length 1, so that distances of
different models have one meaning: 0 is the same, 2 the opposite (L2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from django.utils.translation import gettext as _

from beacon_site.llm.base import LlmProfile
from beacon_site.net.errors import ProviderNonsense

DEFAULT_MODEL = "text-embedding-3-small"
KNOWN_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
MOST_DIMENSIONS = 16_000  # as many as pgvector stores
LOCAL = "local"
ENDPOINT = "endpoint"


@dataclass(frozen=True, slots=True)
class EmbedderProfile:
    """One embedder: LOCAL, or an ENDPOINT with its address.

    `dimensions` is None where the model's is not known before its first answer; `timeout` is in
    seconds for one call, of which what may pass is made `tries` times at most.  The key is never part of the repr.
    """

    where: str
    model: str = DEFAULT_MODEL
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    kind: str = "compatible"  # one of endpoint_kinds.KINDS
    dimensions: int | None = None
    timeout: float = 30
    tries: int = 2

    def as_endpoint(self) -> LlmProfile:
        """Return the endpoint as the modules see it that know endpoints."""
        return LlmProfile(
            base_url=self.base_url,
            model=self.model,
            api_key=self.api_key,
            kind=self.kind,
            timeout=self.timeout,
        )


class Embedder(Protocol):
    """Whatever makes vectors of texts.

    `model` names the vectors, which are compared with none of another name; `dimensions` is None
    until it is known; `is_local` says that no text leaves this machine's own process.
    """

    @property
    def model(self) -> str:
        """Return the name that is stored with each vector."""
        ...

    @property
    def dimensions(self) -> int | None:
        """Return how many figures a vector has, None where that is not known yet."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether sensitive texts may be given to it."""
        ...

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector of length 1 for each text, in their order.

        A text that is longer than the model reads is cut.  Raises ProviderUnavailable if asking
        again later may help, ProviderRejected if not; never returns a part.
        """
        ...


def get_embedder(profile: EmbedderProfile | None) -> Embedder | None:
    """Return the embedder of `profile`, or None where there is none (which is a mode)."""
    if profile is None:
        return None
    if profile.where == LOCAL:
        from beacon_site.llm.minilm_embedder import MiniLmEmbedder

        return MiniLmEmbedder()
    from beacon_site.llm.openai_embedder import OpenAIEmbedder

    return OpenAIEmbedder(profile)


def local_is_installed() -> bool:
    """Whether the packages of the local embedder are there; nothing of them is loaded."""
    from beacon_site.llm.minilm_embedder import is_installed

    return is_installed()


def unit_vectors(
    vectors: Sequence[object], *, count: int, dimensions: int | None, who: str
) -> list[list[float]]:
    """Return vectors that came from outside, scaled to length 1.

    Raises ProviderNonsense unless there are `count`, all of `dimensions` (None: of the first's)
    finite figures, and not all of them 0.
    """
    if len(vectors) != count:
        text = _("%(who)s answered with %(got)d vectors for %(count)d texts.")
        raise ProviderNonsense(text % {"who": who, "got": len(vectors), "count": count})
    made: list[list[float]] = []
    for vector in vectors:
        if not isinstance(vector, list) or not vector or not all(map(_is_figure, vector)):
            text = _("%(who)s answered with a vector that holds something other than numbers.")
            raise ProviderNonsense(text % {"who": who})
        wanted = dimensions or min(len(vectors[0]), MOST_DIMENSIONS)  # type: ignore[arg-type]
        if len(vector) != wanted:
            text = _("%(who)s answered with a vector of %(got)d figures instead of %(wanted)d.")
            told = {"who": who, "got": len(vector), "wanted": wanted}
            raise ProviderNonsense(text % told)
        size = math.hypot(*vector)
        if not size or not math.isfinite(size):
            raise ProviderNonsense(_("%(who)s answered with an empty vector.") % {"who": who})
        made.append([figure / size for figure in vector])
    return made


def _is_figure(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]
