"""What each environment variable does: the words of docs/reference/settings.md (`make docs`).

What a variable may hold, and what stands in for it, is said by the code that reads it (`env.READ`);
`usual` says it in words where that is worked out, or where no setting reads the variable.
"""

from __future__ import annotations

from dataclasses import dataclass

from beacon_site.search_services.catalogue import BY_NAME, CATALOGUE


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable, or several of one kind, separated by spaces; `does` is Markdown."""

    names: str
    does: str
    usual: str = ""


# Group -> what belongs to it, in the order in which somebody needs them.
VARIABLES = {
    "Web": (
        Variable(
            "BEACON_ENV",
            "`production` insists on `SECRET_KEY` and serves hashed static files",
        ),
        Variable(
            "SECRET_KEY",
            "signs sessions and encrypts stored keys; changing it signs everybody out and loses "
            "stored keys",
            usual="made once in the data folder",
        ),
        Variable(
            "BEACON_DATA_DIR",
            "where the embedded servers, the made secret and the schedule's state lie",
            usual="`./data`; of a wheel `~/.local/share/beacon`",
        ),
        Variable("BEACON_BIND", "the address at which the web server listens"),
        Variable("BEACON_PORT", "the port at which it does"),
        Variable(
            "BEACON_MCP_PORT",
            "where the MCP server listens, at `BEACON_BIND` and under `/mcp` "
            "([how](../agents.md#connect-over-mcp)); `0`: there is none",
            usual="`8001`",
        ),
        Variable(
            "BEACON_API_TOKEN",
            "the token by which `manage.py mcp --stdio` acts, and the [Python "
            "client](../../clients/python/README.md) comes in; nothing else reads it",
        ),
        Variable(
            "BEACON_URL",
            "the address people use, from which every absolute link is made; `https://…` turns on "
            "redirect, HSTS (of this host alone) and secure cookies; scheme, host and port only",
            usual="`http://<bind>:<port>`",
        ),
        Variable(
            "BEACON_TRUST_PROXY",
            "`1` believes `X-Forwarded-Proto` and `X-Forwarded-For`: only behind a proxy that "
            "sets them",
        ),
        Variable(
            "ALLOWED_HOSTS",
            "host names that are answered, separated by commas",
            usual="localhost and the host of `BEACON_URL`",
        ),
        Variable(
            "CSRF_TRUSTED_ORIGINS",
            "origins from which forms are taken",
            usual="`BEACON_URL`",
        ),
        Variable(
            "BEACON_SIGN_INS_PER_MINUTE",
            "how many tries to sign in are taken from one address in a minute, whatever names "
            "they bear; each costs half a second of a processor on purpose",
        ),
        Variable(
            "BEACON_LOG_FORMAT",
            "how the log is written ([what is in it](../hosting.md#the-log)): `readable` is "
            "`key=value`, `json` one object a line",
            usual="`readable`; `json` in production",
        ),
        Variable(
            "BEACON_PROCESS",
            "`web`, `worker`, `beat`, `mcp` or `command`; only `web` and `mcp` keep a pool of "
            "database connections, and the log of a command holds warnings alone",
            usual="set by the runner",
        ),
    ),
    "Servers": (
        Variable(
            "DATABASE_URL",
            "`postgres://user:password@host:port/name`; libpq's parameters may follow, such as "
            "`?sslmode=require`, and those for a lost server: `connect_timeout` (5 s), "
            "`keepalives_idle` (15 s), `keepalives_interval` (5 s), `keepalives_count` (3), "
            "`tcp_user_timeout` (30000 ms); and for web, mcp, worker, upkeep and beat how long one "
            "waits for another's lock, `lock_timeout` (10000 ms), and pauses in a transaction, "
            "`idle_in_transaction_session_timeout` (60000 ms; 0 leaves either to the server)",
            usual="embedded Postgres",
        ),
        Variable(
            "REDIS_URL",
            "`redis://host:port/0`",
            usual="embedded Valkey",
        ),
    ),
    "Mail": (
        Variable(
            "EMAIL_URL",
            "the mail server: `smtp+tls://user:password@host:587` (STARTTLS), "
            "`smtps://user:password@host:465` (TLS), `smtp://host:25` (neither); `file:///folder` "
            "keeps mails there, `console:` writes them into the log. Signs such as `@ : /` in a "
            "name or password are written as `%40 %3A %2F` ([how](../notifications.md#email))",
            usual="mails are kept in `mail/` of the data folder and can be read under Settings → "
            "Notifications; in production none is sent",
        ),
        Variable(
            "BEACON_MAIL_FROM",
            "whom mails come from",
            usual="`Beacon <beacon@` the host of `BEACON_URL` `>`",
        ),
    ),
    "Research": (
        Variable(
            "BEACON_LLM_BASE_URL",
            "any OpenAI-compatible endpoint, such as `http://127.0.0.1:11434/v1`",
            usual="OpenAI's, if a key is set",
        ),
        Variable(
            "BEACON_LLM_MODEL",
            "the model's name; without it Beacon works without a model",
        ),
        Variable(
            "OPENAI_API_KEY",
            "the key for that endpoint",
        ),
        Variable(
            "BEACON_EMBEDDINGS",
            "what makes vectors, by which recall also finds what was said in other words. `auto`: "
            "the endpoint set up for it, else the model's own endpoint (OpenAI with a key, or one "
            "with an embedding model named in Settings), else the small model on this machine "
            "where its packages are installed (`make up` does that), else nothing. `local`: only "
            "the one on this machine. `endpoint`: only an endpoint. `none`: no vectors are made "
            "and words alone are looked for. Notes marked as sensitive go to the one on this "
            "machine alone",
        ),
        Variable(
            "BEACON_EMBEDDINGS_BASE_URL",
            "an OpenAI-compatible endpoint with `/embeddings`; its model "
            "(`text-embedding-3-small` unless named) and key are set in Settings → Connections",
            usual="the model's endpoint",
        ),
        Variable(
            " ".join(one.key_variable for one in CATALOGUE if one.key_variable),
            "makes that service one to search with",
        ),
        Variable(
            "SEARXNG_BASE_URL",
            "the address of your SearXNG, which makes it a service to search with",
        ),
        Variable(
            " ".join(one.url_variable for one in CATALOGUE if one.vendor_url and one.url_variable),
            "so that another server, such as a mirror of yours, stands in; the polite pace is "
            "then not kept",
            usual="the vendor's own",
        ),
        Variable(
            "BEACON_SEARCH",
            "the services a topic uses that names none, and the outer limit of what one may name: "
            f"`{' '.join(BY_NAME)}`; unset, GDELT and the sample are asked only where a topic names them",
            usual="those with a key, and those that need none",
        ),
        Variable(
            "BEACON_LIBRARY_DIR",
            "a folder of documents that is watched, for research to draw on "
            "([how](../how-to/research-your-documents.md))",
        ),
        Variable(
            "BEACON_MIRROR_DIR",
            "the one folder that holds a copy of the memory files, both ways: what is saved is "
            "written there, what is edited there is taken in ([how](../memory.md#on-disk))",
            usual="none; `make up` sets `memory/` in the data folder",
        ),
        Variable(
            "BEACON_MIRROR_READ",
            "`0` writes the copies only: an edit in that folder is set aside as a `.conflict` file "
            "and never counts as yours",
        ),
        Variable(
            "BEACON_MIRROR_GIT",
            "`1` commits each change of a memory file in that folder, with who made it and why; "
            "needs `git`",
        ),
        Variable(
            "BEACON_FETCH_ALLOW_HOSTS",
            "`host:port` pairs that the address guard lets through, for services on your own "
            "network",
        ),
        Variable(
            "BEACON_CONTACT",
            "an address for the User-Agent, so that a site's owner can reach you",
        ),
        Variable(
            "BEACON_TOPIC_TTL_SECONDS",
            "how long a topic's memory lives after a saved run (30 days)",
        ),
        Variable(
            "BEACON_SEEN_URLS",
            "how many seen URLs a topic keeps",
        ),
        Variable(
            "BEACON_CONTENT_DAYS",
            "after how many days what agents and runs stored in the content store goes to the "
            "trash; what a person stored, pinned or locked stays, and so does what a report "
            "cites; `0` keeps everything ([how](../content-store.md#how-long-it-is-kept))",
        ),
        Variable(
            "BEACON_RUNS_PER_HOUR",
            "how many runs one account may start within an hour, retries included; schedules do "
            "not count against it",
        ),
        Variable(
            "BEACON_PUBLISH_OWNER",
            "the username whose topics are copied to Redis as `beacon:memory:<slug>`, in JSON; "
            "the copy follows each change of a topic or fact, and what Redis did not take is "
            "tried again each minute",
        ),
        Variable(
            "BEACON_API_REQUESTS_PER_MINUTE",
            "how many requests one API token may send in a minute; more are answered with 429 and "
            "`Retry-After` ([API](../api.md#limits))",
        ),
    ),
}
