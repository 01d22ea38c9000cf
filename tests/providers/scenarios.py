"""Nine scenarios of a search request, the same for every service.

A service's server is a subclass of `SearchServer` with the vendor's formats:

    class TavilyServer(SearchServer):
        service = "tavily"                      # its name in the catalog
        key = "tvly-…"                          # what the profile carries; "" for no key

        @staticmethod
        def result(number, **more): ...         # one result as the vendor writes it
        def answer(self, asked): ...            # the vendor's page of self.results for `asked`
        def unauthorized(self): return status(401, …)     # only where the vendor has own words

`play(name)` sets the scenario for every request until `forget()`:

    with TavilyServer(results=[TavilyServer.result(1)]) as server:
        server.play("rate")
        get_search(server.profile()).search("x", SearchOptions())

"ok" and "empty" are `answer` with results and without; the scenes of the others have defaults
(what a proxy in front of any service might say), so a service without keys overrides nothing but
what it says in its own words.  `asked` holds what came, oldest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from werkzeug import Request, Response

from beacon_site.providers.search.base import SearchProfile
from tests.providers import loopback
from tests.providers.loopback import LoopbackServer, Scene, body_of, status

SCENARIOS = (
    "ok",
    "empty",
    "unauthorized",
    "rate",
    "quota",
    "html",
    "slow",
    "cut",
    "500 then ok",
)
PATIENCE = 0.5  # seconds that a client has here; set beacon_site.net.http.PATIENCE to it
SLOW = 1.5  # seconds that a slow server takes, which is longer
RETRY_AFTER = "7"  # seconds that a server which limits the rate asks for


class Asked(dict[str, str]):
    """One request: its query parameters, with the rest as attributes (header names in lower case).

    `body` is what was sent as JSON, {} if nothing was.
    """

    def __init__(self, request: Request) -> None:
        super().__init__(request.args.to_dict())
        self.method = request.method
        self.path = request.path
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        self.body = body_of(request)


class SearchServer(LoopbackServer):
    """A search service on loopback; see the module for how to write one."""

    service = ""
    key = ""

    def __init__(self, results: Any = (), *, page: int = 10) -> None:
        """`results` are in the vendor's format; a page has `page` of them."""
        super().__init__()
        self.asked: list[Asked] = []
        self.results = results
        self.page = page
        self._scene: Scene | None = None

    # --- what a subclass says -------------------------------------------------------------------

    @staticmethod
    def result(number: int, **more: Any) -> dict[str, Any]:
        """Return one result as the vendor writes it, at https://news.example.org/<number>."""
        raise NotImplementedError

    def answer(self, asked: Asked) -> Response:
        """Return the vendor's answer from `self.results`, which can be empty."""
        raise NotImplementedError

    def unauthorized(self) -> Scene:
        """A rejected key, or a proxy that requires one."""
        return status(401, "Unauthorized")

    def rate(self) -> Scene:
        """Too many requests for now, with a time to wait."""
        return status(429, "Too Many Requests", {"Retry-After": RETRY_AFTER})

    def quota(self) -> Scene:
        """A used-up quota, or a proxy that blocks the request."""
        return status(403, "Quota exceeded")

    def html(self) -> Scene:
        """A web page with 200 instead of data."""
        return loopback.html()

    def cut(self) -> Scene:
        """A connection that closes in the middle of the body."""
        return loopback.cut()

    def failing(self) -> Scene:
        """The vendor's server error."""
        return status(500, "Internal Server Error")

    # --- what a test does -----------------------------------------------------------------------

    def play(self, scenario: str) -> None:
        """Answer every request by the scenario of that name, until `forget()`."""
        if scenario == "ok":
            self.results = self.results or [self.result(number) for number in (1, 2, 3)]
        elif scenario == "empty":
            self.results = []
        elif scenario == "500 then ok":
            self.play("ok")
            self.enqueue(self.failing())
        elif scenario == "slow":
            self._scene = loopback.slow(SLOW)
        elif scenario in SCENARIOS:
            self._scene = getattr(self, scenario)()
        else:
            raise ValueError(scenario)

    def profile(self, *, key: str | None = None, base_url: str | None = None) -> SearchProfile:
        """Return the profile of this server, with the correct key by default."""
        return SearchProfile(
            service=self.service,
            base_url=self.origin if base_url is None else base_url,
            api_key=self.key if key is None else key,
        )

    def forget(self) -> None:
        super().forget()
        self.asked.clear()
        self._scene = None

    def record(self, request: Request) -> None:
        self.asked.append(Asked(request))

    def stand(self, request: Request) -> Response:
        return self._scene(request) if self._scene else self.answer(Asked(request))

    def shown(self, start: int) -> Sequence[dict[str, Any]]:
        """Return the page of results that begins at `start` (from 0)."""
        return list(self.results)[start : start + self.page]
