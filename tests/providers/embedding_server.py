"""A loopback server that simulates an endpoint with embeddings."""

from __future__ import annotations

from typing import Any

from werkzeug import Request, Response

from tests.providers.loopback import LoopbackServer, Scene, body_of, json_answer


class EmbeddingServer(LoopbackServer):
    """`POST /v1/embeddings`: answers vectors of `dimensions` figures; `asked` holds what came."""

    def __init__(self, dimensions: int = 4) -> None:
        super().__init__()
        self.dimensions = dimensions
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []

    @property
    def base_url(self) -> str:
        """Return the base URL that a person would enter."""
        return f"{self.origin}/v1"

    @property
    def texts(self) -> list[str]:
        """Return every received text, in order."""
        return [text for body in self.asked for text in body.get("input", [])]

    def forget(self) -> None:
        """Start over, for the next test."""
        super().forget()
        self.asked.clear()
        self.headers.clear()
        self.paths.clear()

    def record(self, request: Request) -> None:
        """Store the request."""
        self.asked.append(body_of(request))
        self.headers.append({key.lower(): value for key, value in request.headers.items()})
        self.paths.append(request.path)

    def stand(self, request: Request) -> Response:
        """Answer with one vector for each text."""
        texts = body_of(request).get("input", [])
        return vectors(*[_vector(text, self.dimensions) for text in texts])(request)


def vectors(*rows: object, backwards: bool = False) -> Scene:
    """An answer with these vectors; `backwards` sends them last first, each with its index."""
    data = [{"object": "embedding", "index": n, "embedding": row} for n, row in enumerate(rows)]
    if backwards:
        data.reverse()
    body = {"object": "list", "data": data, "model": "loopback", "usage": {"prompt_tokens": 3}}
    return lambda _request: json_answer(body)


def _vector(text: str, dimensions: int) -> list[float]:
    total = [0.01] * dimensions
    for word in text.lower().split():
        total[sum(word.encode()) % dimensions] += 1.0
    return total
