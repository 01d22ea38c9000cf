"""The MCP server over HTTP (streamable HTTP at /mcp).

It checks host, origin, method and token first. It keeps no sessions, so a restart loses nothing,
and a revoked token is rejected on the next request. Uvicorn runs it: in a separate process
(`serve`), or in a thread of the web server's processes (beside_pages.py).
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from http import HTTPStatus
from typing import Any

import anyio.to_thread
import structlog
import uvicorn
from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.http.request import split_domain_port, validate_host
from django.utils.translation import gettext as _
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beacon_site.web.request_log import HEADER, number_from
from memory.accounts import tokens
from memory.accounts.tokens import MCP_PATH, mcp_url, resource_metadata
from memory.api import frame as api_frame
from memory.api.auth import caller_of
from memory.api.problems import Problem
from memory.models import ApiToken
from research.mcp.server import Caller, Context, build, close_connection, no_database

logger = structlog.get_logger(__name__)

MOST_BYTES = 12 * 1024 * 1024  # of one message, the same as for a form
MOST_CONNECTIONS = 200
TOO_LARGE = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
FOUND = "beacon.token"  # where AccessMiddleware stores the text of a request's token
METADATA_PATH = "/.well-known/oauth-protected-resource"


class AccessMiddleware:
    """Rejects requests without access, with the reason as JSON."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on with its token."""
        if scope["type"] != "http" or scope["path"] != MCP_PATH:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        number = number_from(headers.get(HEADER, ""))
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=number)
        send = _numbered(send, number)
        answer = foreign(headers) or _wrong_method(scope["method"])
        if answer is None:
            text = _text_in(headers)
            answer = await anyio.to_thread.run_sync(_rejected, text, headers)
            if answer is None:
                await self._app(
                    {**scope, FOUND: text}, receive, _in_our_words(scope, receive, send)
                )
                return
        await answer(scope, receive, send)


def _in_our_words(scope: Scope, receive: Receive, send: Send) -> Send:
    """Wrap `send` so the package's error for a body that is too large looks like all others."""
    is_told = False

    async def told(message: Message) -> None:
        nonlocal is_told
        if message["type"] == "http.response.start" and message["status"] == TOO_LARGE:
            is_told = True
            most = {"most": MOST_BYTES // (1024 * 1024)}
            text = _(
                "This message is larger than the limit of %(most)d MiB. Send smaller messages."
            )
            await problem(TOO_LARGE, text % most)(scope, receive, send)
        elif not is_told:
            await send(message)

    return told


def _numbered(send: Send, number: str) -> Send:
    """Wrap `send` so the response headers contain the request's number."""

    async def numbered(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)[HEADER] = number
        await send(message)

    return numbered


def foreign(headers: Headers) -> Response | None:
    """Return a refusal if the host or origin isn't Beacon's (DNS rebinding), else None."""
    host = headers.get("host", "")
    if not _is_known(host):
        text = _("Beacon doesn’t accept this host name. An admin can add it to ALLOWED_HOSTS.")
        return problem(HTTPStatus.MISDIRECTED_REQUEST, text)
    origin = headers.get("origin")
    if origin is not None and not _is_known(origin.partition("://")[2]):
        text = _("This origin isn’t allowed. Pages on other sites can’t call Beacon.")
        return problem(HTTPStatus.FORBIDDEN, text)
    return None


def _is_known(host: str) -> bool:
    domain, _port = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def _wrong_method(method: str) -> Response | None:
    if method == "POST":
        return None
    text = _(
        "Send each message with POST. This server has no sessions and doesn’t send messages on its own."
    )
    return problem(HTTPStatus.METHOD_NOT_ALLOWED, text, {"Allow": "POST"})


def _text_in(headers: Headers) -> str:
    scheme, _space, text = headers.get("authorization", "").strip().partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def _rejected(text: str, headers: Headers) -> Response | None:
    """Return why the request's token isn't accepted, or None. Runs in a separate thread."""
    try:
        token = tokens.find(text, at_mcp=True)
    except (DatabaseError, InterfaceError) as exc:
        logger.warning("token not looked up: database error", why=str(exc)[:200])
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, no_database(exc), {"Retry-After": "30"})
    finally:
        close_connection()
    if token is not None:
        return _too_many(token)
    words = _(
        "The token is missing, unknown, revoked or expired. Send a valid one as “Authorization: Bearer bcn_…”. You can create one in Agents → API tokens. Apps that support OAuth can sign in instead."
    )
    where = _here(headers).removesuffix(MCP_PATH) + METADATA_PATH + MCP_PATH
    told = f'Bearer realm="Beacon", resource_metadata="{where}", scope="read write"'
    if text:
        told += ', error="invalid_token"'
    return problem(HTTPStatus.UNAUTHORIZED, words, {"WWW-Authenticate": told})


def _here(headers: Headers) -> str:
    """Return the URL of this server as the app knows it; without a proxy, by the host it used."""
    if settings.BEACON_HTTPS:
        return mcp_url()
    return f"http://{headers.get('host', '')}{MCP_PATH}"


async def _metadata(request: Request) -> Response:
    """Tell apps where they get a token (RFC 9728)."""
    return foreign(request.headers) or JSONResponse(resource_metadata(_here(request.headers)))


def _too_many(token: ApiToken) -> Response | None:
    """Return a response if the token has used up its requests per minute, including REST's."""
    try:
        api_frame.check(caller_of(token))
    except Problem as exc:
        return problem(HTTPStatus.TOO_MANY_REQUESTS, str(exc), dict(exc.headers))
    return None


def problem(status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> Response:
    """Return a refusal in the same form as the REST API."""
    body = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": text}
    return Response(
        json.dumps(body, ensure_ascii=False),
        status_code=status.value,
        headers=headers,
        media_type="application/problem+json",
    )


def who(context: Context) -> Caller:
    """Return who sent the request, by the token that was checked before the body was read.

    It's looked up again for the call, since it can be revoked while a slow body arrives.
    """
    text: str = context.request.scope[FOUND]  # type: ignore[union-attr]
    return Caller(find=lambda: tokens.find(text, at_mcp=True))


async def _livez(request: Request) -> Response:
    return PlainTextResponse("ok\n")


def application() -> ASGIApp:
    """Return the whole ASGI application. Each instance runs only once."""
    app: Starlette = build(who).streamable_http_app(
        streamable_http_path=MCP_PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=MOST_BYTES,
        host=settings.BEACON_BIND,
        custom_starlette_routes=[
            Route("/livez", _livez),
            Route(METADATA_PATH, _metadata),
            Route(METADATA_PATH + MCP_PATH, _metadata),
        ],
    )
    app.add_middleware(AccessMiddleware)
    return app


def listening(bind: str, port: int) -> socket.socket:
    """Return a socket that listens on this address. Raises OSError."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((bind, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def made(kind: type[uvicorn.Server] = uvicorn.Server) -> uvicorn.Server:
    """Return the server, for one run. It finishes calls in progress before it stops."""
    options: dict[str, Any] = {
        "log_config": None,
        "http": "h11",
        "ws": "none",
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "limit_concurrency": MOST_CONNECTIONS,
        "timeout_graceful_shutdown": 10,
    }
    return kind(uvicorn.Config(application(), **options))


def serve(listener: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    # Uvicorn raises the signal again after stopping, which isn't a failure.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    asyncio.run(made().serve(sockets=[listener]))
