"""Pages that need JavaScript, read by a headless Chromium that can reach only public addresses.

A URL -> Chromium with an empty profile, whose only way out is a `GuardProxy` -> the page's scripts
run until the network is quiet -> the document as HTML.  Chromium is controlled over its debugging
pipe.  It and all its processes are killed afterwards, or at a limit of time, memory or bytes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any

import psutil
import structlog
from django.conf import settings

from beacon_site.net.address_guard import Resolver, check_url, is_allowed, resolve
from beacon_site.net.bounded import MIB, Limits, too_large
from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.guard_proxy import GuardProxy, SharedMeter
from beacon_site.net.http import refusal, user_agent
from beacon_site.text.messages import gettext as _

logger = structlog.get_logger(__name__)

# A page with its scripts and styles is larger and slower than its HTML.
LIMITS = Limits(whole_seconds=30.0, slow_seconds=float("inf"), wire_bytes=20 * MIB)
LOAD_SECONDS = 15.0  # then the page is read as it is
QUIET_SECONDS = 1.0  # without any request, after the page has loaded
QUEUE_SECONDS = 90.0
LOCK_FOLDER = Path(tempfile.gettempdir())
MEMORY_LIMIT = 1536 * MIB  # of all processes, with shared memory divided among them
MAX_MESSAGE_LENGTH = 24 * MIB
CHECK_SECONDS = 0.2

# These would search the local network, ask the vendor's servers, or go around the proxy.
_FEATURES = (
    "MediaRouter",
    "DialMediaRouteProvider",
    "CastMediaRouteProvider",
    "OptimizationHints",
    "AutofillServerCommunication",
    "Translate",
    "NetworkTimeServiceQuerying",
    "CertificateTransparencyComponentUpdater",
    "AsyncDns",
    "DnsOverHttps",
    "WebTransport",
    "DirectSockets",
    "PreconnectToSearch",
    "LensOverlay",
    "WebRtcHideLocalIpsWithMdns",  # which would ask the local network
)
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--mute-audio",
    "--hide-scrollbars",
    "--disable-gpu",
    "--disable-3d-apis",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-component-update",
    "--disable-background-networking",
    "--disable-client-side-phishing-detection",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-file-system",
    "--disable-notifications",
    "--deny-permission-prompts",
    "--metrics-recording-only",
    "--password-store=basic",
    "--use-mock-keychain",
    "--blink-settings=imagesEnabled=false",
    f"--disable-features={','.join(_FEATURES)}",
    # The vendor's servers, which Chromium would ask at each start: the proxy refuses this address.
    "--gaia-url=http://127.0.0.1:9/",
    "--google-apis-url=http://127.0.0.1:9/",
    "--google-base-url=http://127.0.0.1:9/",
    # Nothing leaves but through the proxy: no UDP, and no names are looked up.
    "--disable-quic",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # its name in other versions
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--proxy-bypass-list=<-loopback>",
)

# The profile's settings: the same for WebRTC, and nothing for the vendor's servers.
_PREFERENCES = {
    "net": {"network_prediction_options": 2},
    "safebrowsing": {"enabled": False},
    "search": {"suggest_enabled": False},
    "signin": {"allowed": False, "allowed_on_next_startup": False},
    "webrtc": {
        "ip_handling_policy": "disable_non_proxied_udp",
        "multiple_routes_enabled": False,
        "nonproxied_udp_enabled": False,
    },
}
# In case a version of Chromium ignores those settings.
_WITHOUT = """for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport"]) delete window[name];"""

# Chromium reads its pipe at descriptor 3 and writes at 4.  It ends if the pipe does.
_LAUNCH = """
import fcntl, os, resource, sys
came, went = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(came, 3)
os.dup2(went, 4)
os.closerange(5, max(256, *map(int, sys.argv[1:3])) + 1)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.execv(sys.argv[3], sys.argv[3:])
"""


class BrowserBusy(ProviderUnavailable):
    """Other pages use the browser. The page can be read in the next run."""


_turn = threading.Semaphore(1)  # a Chromium takes several hundred megabytes


@contextlib.contextmanager
def _only_one() -> Iterator[None]:
    """Wait until no other thread, and no other process of this user, has a Chromium.

    Raises BrowserBusy after QUEUE_SECONDS.
    """
    until = time.monotonic() + QUEUE_SECONDS
    if not _turn.acquire(timeout=QUEUE_SECONDS):
        raise _busy()
    try:
        path = LOCK_FOLDER / f"beacon-browser-{os.getuid()}.lock"
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)) as file:
            while not _locked(file):
                if time.monotonic() > until:
                    raise _busy()
                time.sleep(CHECK_SECONDS)
            yield
    finally:
        _turn.release()


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _busy() -> BrowserBusy:
    return BrowserBusy(_("Too many pages are waiting for the browser, so this one was skipped."))


def is_set_up() -> bool:
    """Return whether pages that need JavaScript can be read (BEACON_CHROMIUM)."""
    return bool(settings.BEACON_CHROMIUM)


def render(
    url: str,
    *,
    allow_hosts: frozenset[str] = frozenset(),
    resolver: Resolver = resolve,
    limits: Limits = LIMITS,
) -> tuple[str, str]:
    """Open a page in Chromium, and return its HTML after its scripts ran, and the URL it led to.

    Its scripts reach a host of `allow_hosts` only if the page itself is there.  Raises
    ProviderRejected (forbidden address, too large, scripts that don't end) or ProviderUnavailable
    (Chromium is busy or can't be started, or the server can't be reached).
    """
    target = check_url(url, allow_hosts)
    own_port = target.port or (443 if target.scheme == "https" else 80)
    is_exempt = is_allowed(target.raw_host.decode("ascii"), own_port, allow_hosts)
    own = {f"{target.host.lower()}:{own_port}", f"[{target.host.lower()}]:{own_port}"}
    allowed = allow_hosts & own if is_exempt else frozenset()
    with _only_one():
        started = time.monotonic()
        meter = SharedMeter(limits)
        with (
            GuardProxy(meter, allow_hosts=allowed, resolver=resolver) as proxy,
            _chromium(proxy.address) as chromium,
        ):
            html, final = _Page(*chromium, meter).read(str(target))
            if meter.is_used_up:
                raise too_large(limits.wire_bytes)
    check_url(final, allow_hosts)  # also refuses the browser's own error pages
    ms = round((time.monotonic() - started) * 1000)
    logger.info(
        "page rendered", host=target.host, bytes=meter.wire_bytes, refused=proxy.refused, ms=ms
    )
    return html, final


# --- the process ---


@contextlib.contextmanager
def _chromium(proxy: str) -> Iterator[tuple[subprocess.Popen[bytes], int, int]]:
    """Start Chromium with an empty profile, and kill all its processes at the end.

    The numbers are the descriptors that it reads and writes.
    """
    with tempfile.TemporaryDirectory(
        prefix="beacon-browser-", ignore_cleanup_errors=True
    ) as folder:
        read_by_it, to = os.pipe()
        of, written_by_it = os.pipe()
        try:
            process = _started(folder, proxy, read_by_it, written_by_it)
        except OSError as exc:
            os.close(to)
            os.close(of)
            raise _not_started(exc.strerror or str(exc)) from exc
        finally:
            os.close(read_by_it)
            os.close(written_by_it)
        try:
            yield process, to, of
        finally:
            _kill(process)
            os.close(to)
            os.close(of)


def _started(folder: str, proxy: str, *pipe: int) -> subprocess.Popen[bytes]:
    profile = Path(folder, "Default")
    profile.mkdir()
    Path(profile, "Preferences").write_text(json.dumps(_PREFERENCES))
    sandbox = () if settings.BEACON_CHROMIUM_SANDBOX else ("--no-sandbox",)
    return subprocess.Popen(
        [
            sys.executable, "-I", "-S", "-c", _LAUNCH, *map(str, pipe), settings.BEACON_CHROMIUM,
            *FLAGS, *sandbox,
            f"--user-agent={user_agent()}",
            f"--user-data-dir={folder}",
            f"--proxy-server=http://{proxy}",
            "about:blank",
        ],
        pass_fds=pipe,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        # No keys and passwords.
        env={"PATH": os.environ.get("PATH", os.defpath), "HOME": folder, "TMPDIR": folder},
        start_new_session=True,
    )  # fmt: skip


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill Chromium and what it started, some of which may have left its process group."""
    others = _children(process.pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for other in others:
        with contextlib.suppress(psutil.Error):
            other.kill()
    process.wait()
    psutil.wait_procs(others, timeout=2)


def _children(pid: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.Error:
        return []


def _memory(pid: int) -> int:
    """Return the bytes of Chromium and its children."""
    try:
        own = [psutil.Process(pid)]
    except psutil.Error:
        return 0
    total = 0
    for one in (*own, *_children(pid)):
        with contextlib.suppress(psutil.Error):
            known = one.memory_full_info()
            total += getattr(known, "pss", known.rss)  # macOS has no PSS
    return total


def _not_started(why: str) -> ProviderUnavailable:
    return ProviderUnavailable(
        _("The browser for pages that need JavaScript can’t be started: %(why)s.") % {"why": why}
    )


# --- the page ---


class _Page:
    """One page, over Chromium's debugging protocol: JSON messages that end with a zero byte."""

    def __init__(
        self, process: subprocess.Popen[bytes], to: int, of: int, meter: SharedMeter
    ) -> None:
        self._process, self._to, self._of = process, to, of
        self._meter = meter
        self._ends_at = time.monotonic() + meter.limits.whole_seconds
        self._checked_at = 0.0
        self._buffer = bytearray()
        self._last = 0  # the number of the last message
        self._session = ""
        self._frame = ""
        self._status = 0  # of the main frame's last answer
        self._going: set[str] = set()  # requests without an answer
        self._quiet_since = 0.0
        self._has_loaded = False

    def read(self, url: str) -> tuple[str, str]:
        """Open the page, wait for its scripts, and return its HTML and its URL."""
        try:
            # A context of its own keeps what scripts store in memory, which is limited.
            context = self._ask("Target.createBrowserContext").get("browserContextId", "")
            values = self._ask(
                "Target.createTarget", {"url": "about:blank", "browserContextId": context}
            )
        except _Ended as exc:
            raise _not_started(
                _(
                    "it exited immediately. When run as root, and in most containers, it needs BEACON_CHROMIUM_SANDBOX=0"
                )
            ) from exc
        try:
            joined = self._ask(
                "Target.attachToTarget", {"targetId": values["targetId"], "flatten": True}
            )
            self._session = joined["sessionId"]
            denied = {"behavior": "deny", "browserContextId": context}
            self._ask("Browser.setDownloadBehavior", denied, session="")
            self._frame = values["targetId"]  # the main frame's id, too
            for domain in ("Page", "Network"):
                self._ask(f"{domain}.enable")
            self._ask("Page.addScriptToEvaluateOnNewDocument", {"source": _WITHOUT})
            opened = self._ask("Page.navigate", {"url": url})
            if opened.get("errorText"):
                raise ProviderUnavailable(
                    _("The browser couldn’t open the page: %(why)s.")
                    % {"why": str(opened["errorText"])[:80]}
                )
            self._wait()
            if self._status >= HTTPStatus.BAD_REQUEST:
                raise refusal(self._status, {}, url)
            tree = self._ask("Page.getFrameTree")
            root = self._ask("DOM.getDocument", {"depth": 0})["root"]["nodeId"]
            html = self._ask("DOM.getOuterHTML", {"nodeId": root})["outerHTML"]
        except (_Ended, KeyError, TypeError) as exc:
            raise ProviderRejected(_("The page crashed the browser, so it was skipped.")) from exc
        return str(html), str(tree["frameTree"]["frame"]["url"])

    def _wait(self) -> None:
        """Wait until the page has loaded and its scripts request nothing more, up to a time limit."""
        until = time.monotonic() + LOAD_SECONDS
        self._quiet_since = time.monotonic()
        while (now := time.monotonic()) < until:
            if self._has_loaded and not self._going and now - self._quiet_since > QUIET_SECONDS:
                return
            self._take(self._next(min(until, now + CHECK_SECONDS)))

    def _ask(
        self, method: str, params: dict[str, Any] | None = None, *, session: str | None = None
    ) -> dict[str, Any]:
        """Send a command and return its result."""
        number = self._send(method, params or {}, self._session if session is None else session)
        while True:
            message = self._next(self._ends_at)
            if message.get("id") == number:
                if "error" in message:
                    raise _Ended
                result = message.get("result")
                return result if isinstance(result, dict) else {}
            self._take(message)

    def _send(self, method: str, params: dict[str, Any], session: str) -> int:
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        try:
            os.write(self._to, json.dumps(message).encode() + b"\0")
        except OSError as exc:
            raise _Ended from exc
        return self._last

    def _take(self, message: dict[str, Any]) -> None:
        method, params = message.get("method", ""), message.get("params") or {}
        if method == "Page.loadEventFired":
            self._has_loaded = True
            self._quiet_since = time.monotonic()
        elif method == "Page.frameNavigated" and not params.get("frame", {}).get("parentId"):
            # What the page before still asked for is never reported as ended.
            self._has_loaded = False
            self._going.clear()
        elif method == "Network.responseReceived":
            if params.get("type") == "Document" and params.get("frameId") == self._frame:
                status = (params.get("response") or {}).get("status")
                self._status = status if isinstance(status, int) else 0
        elif method == "Network.requestWillBeSent":
            self._going.add(str(params.get("requestId")))
            self._quiet_since = time.monotonic()
        elif method in ("Network.loadingFinished", "Network.loadingFailed"):
            self._going.discard(str(params.get("requestId")))
            self._quiet_since = time.monotonic()
        elif method == "Page.javascriptDialogOpening":
            self._send("Page.handleJavaScriptDialog", {"accept": False}, self._session)

    def _next(self, until: float) -> dict[str, Any]:
        """Return the next message, or {} at `until`. Raises at a limit, or if Chromium ended."""
        while (end := self._buffer.find(b"\0")) < 0:
            self._check_limits()
            left = min(until, self._ends_at) - time.monotonic()
            if left <= 0 and until < self._ends_at:
                return {}
            ready, _w, _x = select.select([self._of], [], [], max(0, min(left, CHECK_SECONDS)))
            if not ready:
                continue
            piece = os.read(self._of, 1 << 20)
            if not piece:
                raise _Ended
            self._buffer += piece
            if len(self._buffer) > MAX_MESSAGE_LENGTH:
                raise too_large(MAX_MESSAGE_LENGTH)
        raw = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            message = json.loads(raw)
        except (ValueError, RecursionError) as exc:
            raise _Ended from exc
        return message if isinstance(message, dict) else {}

    def _check_limits(self) -> None:
        now = time.monotonic()
        if now > self._ends_at:
            raise ProviderRejected(_("The page’s scripts took too long, so they were stopped."))
        if now - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = now
        if self._meter.is_used_up:
            raise too_large(self._meter.limits.wire_bytes)
        if _memory(self._process.pid) > MEMORY_LIMIT:
            raise ProviderRejected(
                _("The page’s scripts took too much memory, so they were stopped.")
            )


class _Ended(Exception):
    """Chromium ended, or its answer makes no sense."""
