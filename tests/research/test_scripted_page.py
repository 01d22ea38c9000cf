"""A run that reads a page whose text is written by its scripts."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from beacon_site.net.fetch import GuardedFetcher
from beacon_site.providers.search.base import SearchHit
from memory.models import Topic
from research.models import Hit, Run
from tests.providers.fakes import FakeSearch
from tests.research import cast
from tests.research.conftest import Providers

APP = """<html><head><title>Cells</title></head><body><noscript>Turn JavaScript on.</noscript>
<div id=app></div><script>fetch('/data').then((r) => r.text()).then((t) => {
document.getElementById('app').innerHTML = '<main><p>' + t + '</p></main>'; });</script></body></html>"""

WARNING = "Pages that need JavaScript couldn’t be read. An admin can set up Chromium for them."


def carried_out(topic: Topic, providers: Providers, server: HTTPServer) -> Run:
    server.expect_request("/app").respond_with_data(APP, content_type="text/html")
    text = cast.page(1).replace("\n\n", "</p><p>")
    server.expect_request("/data").respond_with_data(text, content_type="text/plain; charset=utf-8")
    host = f"127.0.0.1:{server.port}"
    providers.search = FakeSearch([SearchHit(url=f"http://{host}/app", title="Cells")])
    providers.pages = GuardedFetcher(allow_hosts=frozenset({host}))
    return cast.carried_out(cast.started(topic))


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.requirement("R373")
def test_it_is_read_and_cited(
    topic: Topic, providers: Providers, httpserver: HTTPServer, settings: Any, chromium_path: str
):
    settings.BEACON_CHROMIUM, settings.BEACON_CHROMIUM_SANDBOX = chromium_path, False

    run = carried_out(topic, providers, httpserver)

    hit = run.hits.get()
    assert hit.reading == Hit.Reading.READ
    assert cast.sentence(1) in hit.content_item.content
    assert [source["link"] for source in run.report.sources] == [hit.link]
    assert cast.sentence(1) in run.report.body


@pytest.mark.requirement("R373")
def test_without_chromium_the_run_says_what_an_admin_can_do(
    topic: Topic, providers: Providers, httpserver: HTTPServer, settings: Any
):
    settings.BEACON_CHROMIUM = ""

    run = carried_out(topic, providers, httpserver)

    hit = run.hits.get()
    assert hit.reading == Hit.Reading.FAILED
    assert hit.reason.startswith(
        "This page needs JavaScript. To let Beacon read such pages, an admin"
    )
    assert run.warnings.count(WARNING) == 1
