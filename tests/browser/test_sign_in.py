"""In Chromium: a passkey with its virtual authenticator, and single sign-on with a provider on loopback."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.site import BrowserSite
from tests.browser.visitor import PASSWORD, Visitor
from tests.pages.provider_cast import Provider

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture(scope="module")
def site(provider: Provider) -> Iterator[BrowserSite]:
    """A Beacon at `localhost`, since a passkey can't be bound to an IP address, and Ada's account."""
    variables = {
        "BEACON_OIDC_URL": provider.url,
        "BEACON_OIDC_CLIENT_ID": "beacon",
        "BEACON_OIDC_CLIENT_SECRET": "secret",
        "BEACON_OIDC_NAME": "Example SSO",
    }
    with (
        tempfile.TemporaryDirectory(prefix="beacon-browser-") as folder,
        BrowserSite(Path(folder), **variables) as made,
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
    ada.sign_in_by_form("ada")
    ada.goto("/settings/sign-ins/passkeys/")
    ada.page.get_by_label("Your password").fill(PASSWORD)
    ada.press("Continue")
    ada.page.get_by_label("Name").fill("Work laptop")
    assert not ada.violations()
    ada.press("Create passkey")
    expect(ada.page.get_by_text("Passkey added.")).to_be_visible()
    assert "Work laptop" in ada.words("#passkeys")

    # A late answer to a request of the last page would set its cookie again.
    ada.page.goto("about:blank")
    ada.context.clear_cookies()
    ada.goto("/sign-in/?next=/notes/")
    assert not ada.violations()
    ada.press("Sign in with a passkey")
    ada.page.wait_for_url("**/notes/")

    ada.page.goto("about:blank")
    ada.context.clear_cookies()
    devices.send("WebAuthn.disable")
    ada.goto("/sign-in/")
    ada.page.evaluate("() => { navigator.credentials.get = async () => { throw new Error('no') } }")
    ada.press("Sign in with a passkey")
    expect(ada.page.get_by_text("Signing in with a passkey failed")).to_be_visible()
    ada.close()
    assert not ada.problems


def test_an_account_is_linked_and_signs_in_by_the_provider(
    site: BrowserSite, browser: Browser
) -> None:
    """The page's policy lets the browser leave for the provider, and its cookie is there when it returns."""
    ada = Visitor(browser, site.base)
    ada.sign_in_by_form("ada")
    ada.goto("/settings/sign-ins/single-sign-on/")
    ada.page.get_by_label("Your password").fill(PASSWORD)
    ada.press("Continue to Example SSO")
    _enters(ada, "sub-ada")
    expect(ada.page.get_by_text("Linked. You can now sign in")).to_be_visible()

    plain = Visitor(browser, site.base, java_script_enabled=False)
    plain.goto("/sign-in/?next=/notes/")
    plain.press("Sign in with Example SSO")
    _enters(plain, "sub-ada")
    plain.page.wait_for_url("**/notes/**")

    plain.close()
    ada.close()
    problems = ada.problems + plain.problems
    assert not [one for one in problems if not one.startswith("another origin")]


def _enters(visitor: Visitor, sub: str) -> None:
    """Sign in at the provider's own page."""
    visitor.page.wait_for_url("**/oauth2/authorize**")
    visitor.page.get_by_placeholder("sub").fill(sub)
    visitor.page.get_by_role("button", name="Authorize").click()
