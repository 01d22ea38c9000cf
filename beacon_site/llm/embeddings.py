"""The interface of embedders, which turn texts into vectors that are close if the meanings are.

Adapters are imported when they are needed.  All vectors have length 1, so that distances mean the
same for every model: 0 is the same, 2 the opposite (L2).
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
MOST_DIMENSIONS = 16_000  # the limit of pgvector
LOCAL = "local"
ENDPOINT = "endpoint"


@dataclass(frozen=True, slots=True)
class EmbedderProfile:
    """One embedder: LOCAL, or an ENDPOINT with its URL.

    `dimensions` is None if unknown before the first answer.  `timeout` is in seconds for one call,
    which is tried at most `tries` times.  The key is never part of the repr.
    """

    where: str
    model: str = DEFAULT_MODEL
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    kind: str = "compatible"  # one of endpoints.KINDS
    dimensions: int | None = None
    timeout: float = 30
    tries: int = 2

    def as_endpoint(self) -> LlmProfile:
        """Return the endpoint as an LlmProfile, which the modules about endpoints use."""
        return LlmProfile(
            base_url=self.base_url,
            model=self.model,
            api_key=self.api_key,
            kind=self.kind,
            timeout=self.timeout,
        )


class Embedder(Protocol):
    """Anything that turns texts into vectors.

    Only vectors with the same `model` name are compared.  `dimensions` is None until it is known.
    `is_local` means that no text leaves this process.
    """

    @property
    def model(self) -> str:
        """Return the name stored with each vector."""
        ...

    @property
    def dimensions(self) -> int | None:
        """Return the length of a vector, or None if it isn't known yet."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether sensitive texts can be embedded with it."""
        ...

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector of length 1 for each text, in order.

        A text that is too long for the model is cut.  Raises ProviderUnavailable if a later retry
        can help, and ProviderRejected if not.  It never returns only some of the vectors.
        """
        ...


def unit_vectors(
    vectors: Sequence[object], *, count: int, dimensions: int | None, who: str
) -> list[list[float]]:
    """Return vectors from an endpoint, scaled to length 1.

    Raises ProviderNonsense unless there are `count` vectors of `dimensions` finite numbers (None:
    as many as the first has), and each has a number other than 0.
    """
    if len(vectors) != count:
        text = _("%(who)s returned %(got)d vectors for %(count)d texts.")
        raise ProviderNonsense(text % {"who": who, "got": len(vectors), "count": count})
    made: list[list[float]] = []
    for vector in vectors:
        if not isinstance(vector, list) or not vector or not all(map(_is_figure, vector)):
            text = _("%(who)s returned a vector that isn’t a list of numbers.")
            raise ProviderNonsense(text % {"who": who})
        wanted = dimensions or min(len(vectors[0]), MOST_DIMENSIONS)  # type: ignore[arg-type]
        if len(vector) != wanted:
            text = _("%(who)s returned a vector with %(got)d numbers instead of %(wanted)d.")
            told = {"who": who, "got": len(vector), "wanted": wanted}
            raise ProviderNonsense(text % told)
        size = math.hypot(*vector)
        if not size or not math.isfinite(size):
            raise ProviderNonsense(_("%(who)s returned an empty vector.") % {"who": who})
        made.append([figure / size for figure in vector])
    return made


def _is_figure(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]
