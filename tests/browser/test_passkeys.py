"""A passkey with Chromium's virtual authenticator: added in the settings, then used to sign in."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.site import BrowserSite
from tests.browser.visitor import PASSWORD, Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def site() -> Iterator[BrowserSite]:
    """A Beacon at `localhost`, since a passkey can't be bound to an IP address, and Ada's account."""
    with (
        tempfile.TemporaryDirectory(prefix="beacon-browser-") as folder,
        BrowserSite(Path(folder)) as made,
    ):
        made.base = made.environment["BEACON_URL"] = f"http://localhost:{made.port}"
        made.manage(
            "createsuperuser", "--noinput", "--username=ada", "--email=ada@example.org",
            DJANGO_SUPERUSER_PASSWORD=PASSWORD,
        )  # fmt: skip
        made.start("web")
        yield made


@pytest.mark.requirement("R339")
def test_a_passkey_is_added_and_signs_in(site: BrowserSite, browser: Browser) -> None:
    ada = Visitor(browser, site.base)
    devices = ada.context.new_cdp_session(ada.page)
    devices.send("WebAuthn.enable")
    device = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    devices.send("WebAuthn.addVirtualAuthenticator", {"options": device})
    ada.sign_in("ada")
    ada.goto("/settings/sign-ins/passkeys/")
    ada.page.get_by_label("Your password").fill(PASSWORD)
    ada.press("Continue")
    ada.page.get_by_label("Name").fill("Work laptop")
    assert not ada.violations()
    ada.press("Create passkey")
    expect(ada.page.get_by_text("Passkey added.")).to_be_visible()
    assert "Work laptop" in ada.words("#passkeys")

    ada.context.clear_cookies()
    ada.goto("/sign-in/?next=/notes/")
    assert not ada.violations()
    ada.press("Sign in with a passkey")
    ada.page.wait_for_url("**/notes/")

    ada.context.clear_cookies()
    devices.send("WebAuthn.disable")
    ada.goto("/sign-in/")
    ada.page.evaluate("() => { navigator.credentials.get = async () => { throw new Error('no') } }")
    ada.press("Sign in with a passkey")
    expect(ada.page.get_by_text("You weren’t signed in with a passkey")).to_be_visible()
    ada.close()
    assert not ada.problems
