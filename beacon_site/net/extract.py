"""Reading untrusted pages, PDFs and feeds in a child process that is killed at its limits.

A hostile document can keep a parser busy for minutes, and no signal handler or thread can stop it.
The child reads one JSON object per line and answers with one per line; its first line means that
it's ready.  It is reused for the next document, and ends after a minute of rest.  A child that takes
too much time or memory, or crashes, is killed, and the next document gets a new one.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import json
import os
import re
import selectors
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Literal

import psutil
import structlog
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.text.messages import gettext as _

logger = structlog.get_logger(__name__)

MIB = 1024 * 1024
ROOT = Path(__file__).resolve().parents[2]
# A child is also replaced, between documents, before small leaks add up.
REQUESTS_PER_CHILD = 1000
REST_SECONDS = 60.0
# Starting takes a second or two on a loaded machine, which isn't the document's fault.
START_SECONDS = 30.0
# How long a request waits for earlier ones, long enough for a few hostile documents.
QUEUE_SECONDS = 60.0
REPLY_LIMIT = 24 * MIB
POLL_SECONDS = 0.05
# A child that ends this soon after a request may have been dead before, so the request is repeated.
AT_ONCE_SECONDS = 1.0


class ChildFailed(Exception):
    """The child was killed or crashed; `reason` is "slow", "memory" or "crashed"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ChildNotStarted(ProviderUnavailable):
    """No child could be started, so none got the request."""

    def __init__(self, why: str) -> None:
        super().__init__(_("The document reader couldn’t be started: %(why)s.") % {"why": why})


class ChildProcess:
    """Child processes of one kind, shared safely between threads; a forked process starts its own.

    With `most` above 1, a request that finds all children busy starts another one.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        seconds: float,
        memory_limit: int,
        most: int = 1,
        rest: float = REST_SECONDS,
        queue: float = QUEUE_SECONDS,
        repeats: bool = True,
    ) -> None:
        """`seconds` is for one request, `memory_limit` in bytes of resident memory.

        A child ends after `rest` seconds without a request.  A request waits for earlier ones for
        `queue` seconds at most.  With `repeats`, a request on which a child ends at once is given
        to another child; don't use it for requests that have effects.
        """
        self._command = tuple(command)
        self._seconds = seconds
        self._memory_limit = memory_limit
        self._most = most
        self._rest = rest
        self._queue = queue
        self._repeats = repeats
        self._others = [
            ChildProcess(
                command, seconds=seconds, memory_limit=memory_limit, rest=rest, repeats=repeats
            )
            for _ in range(most - 1)
        ]
        self._reset()
        _instances.add(self)

    def _reset(self) -> None:
        self._slots = threading.Semaphore(self._most)
        self._turn = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._requests = 0
        self._used_at = 0.0
        self._timer: threading.Timer | None = None

    def ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        """Return the child's reply.

        Raises ChildFailed, ChildNotStarted, and ProviderUnavailable if it is too busy.
        """
        line = json.dumps(request).encode("ascii") + b"\n"
        if not self._slots.acquire(timeout=self._queue):
            raise ProviderUnavailable(
                _("Too many documents are waiting to be read, so this one was skipped.")
            )
        try:
            one = self._take()
            try:
                return one._reply(line)
            except ChildFailed as exc:
                one._kill()
                logger.warning("child process failed", reason=exc.reason)
                raise
            except ChildNotStarted as exc:
                one._kill()
                logger.warning("child process not started", reason=str(exc))
                raise
            finally:
                one._end_later()
                one._turn.release()
        finally:
            self._slots.release()

    def _take(self) -> ChildProcess:
        """Return a child that is free, the first one if possible; its turn is then taken."""
        for one in (self, *self._others):
            if one._turn.acquire(blocking=False):
                return one
        self._turn.acquire()  # a timer holds the free one for a moment
        return self

    def _end_later(self) -> None:
        """End the child after its rest, unless it gets another request."""
        self._used_at = time.monotonic()
        if self._timer is None and self._child is not None:
            self._start_timer(self._rest)

    def _start_timer(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._end_if_idle)
        self._timer.daemon = True
        self._timer.start()

    def _end_if_idle(self) -> None:
        if not self._turn.acquire(blocking=False):
            self._start_timer(self._rest)
            return
        try:
            self._timer = None
            left = self._used_at + self._rest - time.monotonic()
            if left > 0:
                self._start_timer(left)
            else:
                self._kill()
        finally:
            self._turn.release()

    def warm_up(self) -> None:
        """Start a child now, without waiting for it, so that the first request needn't."""
        if self._turn.acquire(blocking=False):
            try:
                self._running()
            finally:
                self._end_later()
                self._turn.release()

    @property
    def is_ready(self) -> bool:
        """Return True if a child is loaded, so that a request doesn't wait for its start."""
        child = self._child
        return self._ready and child is not None and child.poll() is None

    def close(self) -> None:
        """Kill the children, if there are any; the next request starts another."""
        for one in (self, *self._others):
            timer, one._timer = one._timer, None
            if timer is not None:
                timer.cancel()
            one._kill()

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            _close_pipes(child)

    def forget(self) -> None:
        """Drop a child that belongs to the process this one was forked from."""
        child = self._child
        self._reset()
        if child is not None:
            child.returncode = 0  # not ours to wait for
            # With a copy of its pipes open, it wouldn't see that its own parent has died.
            _close_pipes(child)

    @property
    def pid(self) -> int | None:
        child = self._child
        return child.pid if child is not None else None

    def _reply(self, request: bytes) -> dict[str, Any]:
        """Exchange one request; a child that died, perhaps while idle, is replaced once."""
        for _attempt in range(2 if self._repeats else 1):
            child = self._started()
            try:
                reply = json.loads(self._exchange(child, request, time.monotonic() + self._seconds))
            except OSError:
                self._kill()
                continue
            except ValueError:
                break
            self._requests += 1
            worn = _resident_bytes(child.pid) > self._memory_limit // 2
            if worn or self._requests >= REQUESTS_PER_CHILD:
                self._kill()
            if isinstance(reply, dict):
                return reply
            break
        raise ChildFailed("crashed")

    def _started(self) -> subprocess.Popen[bytes]:
        """Return a child that has said that it's ready; one that dies at once is replaced once."""
        for _attempt in range(2):
            child = self._running()
            if self._ready:
                return child
            try:
                self._exchange(child, b"", time.monotonic() + START_SECONDS)
            except OSError:
                self._kill()
            except ChildFailed as exc:
                raise ChildNotStarted(exc.reason) from exc
            else:
                self._ready = True
                return child
        raise ChildNotStarted("crashed")

    def _running(self) -> subprocess.Popen[bytes]:
        child = self._child
        if child is not None and child.poll() is None:
            return child
        self._kill()
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        try:
            child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd=ROOT,
                # No keys and passwords: a parser of untrusted documents doesn't need them.
                env={
                    "PATH": os.environ.get("PATH", os.defpath),
                    "PYTHONPATH": os.pathsep.join(paths),
                    "PYTHONUTF8": "1",
                },
                # Ctrl-C is for the parent; the child ends when its input does.
                start_new_session=True,
            )
        except OSError as exc:
            raise ChildNotStarted(str(exc.strerror)) from exc
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        self._child, self._requests, self._ready = child, 0, False
        return child

    def _exchange(self, child: subprocess.Popen[bytes], request: bytes, until: float) -> bytes:
        """Write `request` and read one line, neither of which can block beyond `until`.

        Raises ChildFailed at a limit, or if the child ended over this request, and OSError (a
        broken pipe) if it may have ended before.
        """
        stdin, stdout = child.stdin, child.stdout
        if stdin is None or stdout is None:
            raise BrokenPipeError
        left, line, began = memoryview(request), bytearray(), time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if left:
                selector.register(stdin, selectors.EVENT_WRITE)
            while not line.endswith(b"\n"):
                self._check_limits(child, until)
                for key, _events in selector.select(POLL_SECONDS):
                    if key.fileobj is stdin:
                        left = left[os.write(key.fd, left) :]
                        if not left:
                            selector.unregister(stdin)
                        continue
                    piece = os.read(key.fd, 1 << 20)
                    if not piece and time.monotonic() - began < AT_ONCE_SECONDS:
                        raise BrokenPipeError
                    if not piece or len(line) + len(piece) > REPLY_LIMIT:
                        raise ChildFailed("crashed")
                    line += piece
        return bytes(line)

    def _check_limits(self, child: subprocess.Popen[bytes], until: float) -> None:
        if time.monotonic() > until:
            raise ChildFailed("slow")
        if _resident_bytes(child.pid) > self._memory_limit:
            raise ChildFailed("memory")


def _close_pipes(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _resident_bytes(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


_instances: weakref.WeakSet[ChildProcess] = weakref.WeakSet()


def _forget_all() -> None:
    for instance in list(_instances):
        instance.forget()


def _close_all() -> None:
    for instance in list(_instances):
        instance.close()


os.register_at_fork(after_in_child=_forget_all)
atexit.register(_close_all)


# --- pages and feeds ---

COMMAND = (sys.executable, "-m", "beacon_site.net.extract_child")
SECONDS_PER_DOCUMENT = 10.0
MEMORY_LIMIT = 512 * MIB


@dataclass(frozen=True, slots=True)
class Extracted:
    """A page's text, with a blank line between paragraphs, and its metadata."""

    text: str
    title: str = ""
    published_at: date | None = None
    has_scripts: bool = False  # which may add text to a page that has almost none


class NoText(ProviderRejected):
    """The page has no text; `has_scripts` is whether its scripts may add some."""

    def __init__(self, message: str, *, has_scripts: bool = False) -> None:
        super().__init__(message)
        self.has_scripts = has_scripts


class PartNotFound(NoText):
    """The page doesn't have the part that was asked for."""


class Extractor(ChildProcess):
    """Reads pages and feeds in child processes."""

    def __init__(
        self,
        *,
        seconds: float = SECONDS_PER_DOCUMENT,
        memory_limit: int = MEMORY_LIMIT,
        command: Sequence[str] = COMMAND,
        most: int = 1,
        rest: float = REST_SECONDS,
    ) -> None:
        super().__init__(command, seconds=seconds, memory_limit=memory_limit, most=most, rest=rest)

    def extract(
        self, content: bytes, *, content_type: str = "", url: str = "", part: PagePart | None = None
    ) -> Extracted:
        """Read one document: HTML, PDF, Markdown or plain text, in any charset.

        With a part, only the text of that part of an HTML page.

        Raises ProviderRejected if it has no text or can't be read within the limits, and
        ProviderUnavailable if the reader is too busy or can't be started.
        """
        page = {"content": _encoded(content), "content_type": content_type, "url": url}
        if part is not None:
            page |= {"part_kind": part.kind, "part": part.wanted}
        try:
            answer = self.ask(page)
        except ChildFailed as exc:
            raise ProviderRejected(explain(exc.reason)) from exc
        trouble = str(answer.get("trouble", ""))
        has_scripts = bool(answer.get("has_scripts"))
        if trouble == "no part":
            raise PartNotFound(
                _("The page doesn’t contain “%(part)s”.") % {"part": part}, has_scripts=has_scripts
            )
        if trouble == "empty":
            raise NoText(_("The page has no text."), has_scripts=has_scripts)
        if trouble:
            raise ProviderRejected(explain(trouble))
        return Extracted(
            text=valid_text(str(answer.get("text", ""))),
            title=valid_text(str(answer.get("title", ""))),
            published_at=_date(answer.get("date")),
            has_scripts=has_scripts,
        )

    def read_feed(self, content: bytes, url: str) -> dict[str, Any] | None:
        """Return the feed as `extract_child.read_feed` does; None if it exceeds the limits.

        Raises ProviderUnavailable if the reader is too busy or can't be started.
        """
        try:
            return self.ask({"feed": _encoded(content), "url": url})
        except ChildFailed:
            return None


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


@cache
def get_extractor() -> Extractor:
    """Return the extractor of this process; its children start with the first documents.

    A worker of threads executes several runs, so it can use several cores.
    """
    return Extractor(most=min(4, os.cpu_count() or 1))


def _date(value: object) -> date | None:
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def valid_text(text: str) -> str:
    """Return the text without NUL, lone surrogates and other invalid characters.

    Line feeds and tabs stay.  The result can be encoded as UTF-8 and stored.
    """
    return _SURROGATES.sub("\ufffd", text.translate(_NOT_TEXT))


_SURROGATES = re.compile("[\ud800-\udfff]")
_NOT_TEXT = dict.fromkeys((*range(9), 0x0B, 0x0C, *range(0x0D, 0x20), *range(0x7F, 0xA0)))


def explain(trouble: str) -> str:
    """Return why a page wasn't read, as a sentence; `trouble` is a reason of the child or ChildFailed."""
    reasons = {
        "no parts": _("You asked Beacon to read only part of this page, but it isn’t HTML."),
        "scanned": _("The PDF contains only scanned images, no text."),
        "encrypted": _("The PDF is password-protected."),
        "damaged": _("The document is damaged and can’t be read."),
        "protected": _("The document is password-protected or copy-protected."),
        "bomb": _(
            "The document was skipped because it expands to many times its size, which can be a sign of an attack."
        ),
        "no text": _("The document has no text."),
        "unknown zip": _("The file is damaged, or it’s a zip file rather than a document."),
        "old office": _(
            "The file is in an Office format from before 2007, or it’s password-protected. Save it as .docx, .pptx or .xlsx without a password."
        ),
        "binary": _("The server didn’t send text."),
        "attributes": _(
            "The page was skipped because a tag has too many attributes, which can be a sign of an attack."
        ),
        "levels": _(
            "The page was skipped because its tags are nested too deeply, which can be a sign of an attack."
        ),
        "slow": _("The page was skipped because reading it took too long."),
        "memory": _("The page was skipped because reading it took too much memory."),
    }
    return reasons.get(trouble) or _("The page crashed the document reader, so it was skipped.")


# --- a part of a page ---
# Text such as `css: main .prices` or `heading: Pricing` -> `part_from` -> `PagePart` ->
# `extract_html.text_of_part`, in the child process.


MAX_PART_LENGTH = 300  # characters of a selector or a heading
_PART = re.compile(r"(css|heading)\s*:\s*(.*)", re.IGNORECASE | re.DOTALL)


class InvalidPart(ValueError):
    """The text doesn't describe a part of a page; the message is a sentence for people."""


@dataclass(frozen=True, slots=True)
class PagePart:
    """A part of a page; as text, it is what `part_from` reads."""

    kind: Literal["css", "heading"]
    wanted: str  # a CSS selector, or the text of a heading

    def __str__(self) -> str:
        return f"{self.kind}: {self.wanted}"


def part_from(text: str) -> PagePart:
    """Return the part that a text describes. Raises InvalidPart."""
    match = _PART.fullmatch(text.strip())
    if match is None:
        raise InvalidPart(
            _(
                "“%(text)s” isn’t valid here. Enter a CSS selector such as “css: main .prices”, or a heading such as “heading: Pricing”."
            )
            % {"text": text.strip()[:80]}
        )
    value = " ".join(match[2].split())
    if len(value) > MAX_PART_LENGTH:
        raise InvalidPart(
            _("Use at most %(most)d characters to specify part of a page (currently %(count)d).")
            % {"most": MAX_PART_LENGTH, "count": len(value)}
        )
    if match[1].lower() == "css":
        _check_selector(value)
        return PagePart("css", value)
    if not any(map(str.isalnum, value)):
        raise InvalidPart(_("Enter the heading’s text after “heading:”."))
    return PagePart("heading", value)


def _check_selector(selector: str) -> None:
    if not selector:
        raise InvalidPart(_("Enter a CSS selector after “css:”, such as “main .prices”."))
    try:
        LexborHTMLParser("<p>").css(selector)
    except (SelectolaxError, ValueError) as exc:
        raise InvalidPart(
            _(
                "“%(selector)s” isn’t a valid CSS selector. Use names, classes and ids, such as “main .prices” or “#plans > table”."
            )
            % {"selector": selector[:80]}
        ) from exc
