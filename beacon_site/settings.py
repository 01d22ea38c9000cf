"""Beacon's settings, all read from the environment (docs/settings.md lists them).

Sections: web, database, celery, providers, mail, security, logs.  An unset variable means the
embedded server or a default.  A wrong one stops the start with an error that names it.
"""

from __future__ import annotations

import logging
import os
import secrets
from typing import Any

import structlog
from csp.constants import NONCE, NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from beacon_site import __version__, embedded, env, logs
from beacon_site.db.advisory_locks import release_all_locks
from beacon_site.embedded import places
from beacon_site.providers.search.base import BY_NAME, CATALOGUE

BASE_DIR = places.PROJECT
BEACON_VERSION = __version__

embedded.load_env_file()
DATA_DIR = embedded.data_dir()

# --- web ---------------------------------------------------------------------------------------

BEACON_ENV = env.one_of("BEACON_ENV", ("local", "production"), "local")
PRODUCTION = BEACON_ENV == "production"
DEBUG = False
BEACON_BIND = env.text("BEACON_BIND", "127.0.0.1")
BEACON_PORT = env.number("BEACON_PORT", 8000, least=1, most=65535)
BEACON_MCP_PORT = env.number("BEACON_MCP_PORT", 8002 if BEACON_PORT == 8001 else 8001, most=65535)
if BEACON_MCP_PORT == BEACON_PORT:
    raise ImproperlyConfigured(
        "BEACON_MCP_PORT and BEACON_PORT are the same. Choose another port for the MCP server."
    )
_bound = f"[{BEACON_BIND}]" if ":" in BEACON_BIND else BEACON_BIND
BEACON_URL = env.origin("BEACON_URL", f"http://{_bound}:{BEACON_PORT}")
BEACON_HTTPS = BEACON_URL.startswith("https://")
BEACON_TRUST_PROXY = env.flag("BEACON_TRUST_PROXY")
BEACON_PROCESS = env.one_of(
    "BEACON_PROCESS", ("web", "worker", "beat", "mcp", "command"), "command"
)


def _secret_key() -> str:
    """Return SECRET_KEY, or the one in the data folder (created once, mode 0600)."""
    if key := env.text("SECRET_KEY"):
        return key
    if PRODUCTION:
        raise ImproperlyConfigured("SECRET_KEY must be set when BEACON_ENV is production.")
    path = DATA_DIR / "secret_key"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:  # another process created it first
            return path.read_text().strip()
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(64))
    return path.read_text().strip()


SECRET_KEY = _secret_key()
ALLOWED_HOSTS = env.word_list("ALLOWED_HOSTS") or sorted(
    {"localhost", "127.0.0.1", "[::1]", env.host_of(BEACON_URL)}
)
CSRF_TRUSTED_ORIGINS = env.word_list("CSRF_TRUSTED_ORIGINS") or [BEACON_URL]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django.contrib.postgres",
    "django_htmx",
    "pgtrigger",
    "csp",
    "axes",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "django_structlog",
    "ninja",
    "memory",
    "research",
]

MIDDLEWARE = [
    "beacon_site.web.request_log.RequestLogMiddleware",
    "beacon_site.web.http.ForwardedMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "beacon_site.web.http.PackedPagesMiddleware",
    "memory.api.problems.ProblemMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "beacon_site.web.http.LanguageMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "memory.accounts.single_sign_on.TrustedHeaderMiddleware",
    "beacon_site.web.http.PersonMiddleware",
    "memory.accounts.sign_ins.LastSeenMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "research.pages.errors.InWordsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "beacon_site.urls"
WSGI_APPLICATION = "beacon_site.wsgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [places.ASSETS / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
                "beacon_site.embedded.places.by_hand",
                "research.pages.places.frame",
            ],
            "builtins": ["beacon_site.web.template_tags"],
        },
    },
]

LANGUAGE_CODE = "en"
LOCALE_PATHS = [places.ASSETS / "locale"]
# Those with a complete catalog, each by its own name, as people look for it.
LANGUAGES = [
    ("en", "English"),
    *(
        (code, name)
        for code, folder, name in (
            ("de", "de", "Deutsch"),
            ("es", "es", "Español"),
            ("fr", "fr", "Français"),
            ("ja", "ja", "日本語"),
            ("zh-hans", "zh_Hans", "简体中文"),
        )
        if (LOCALE_PATHS[0] / folder / "LC_MESSAGES" / "django.mo").is_file()
    ),
]
FORMAT_MODULE_PATH = ["beacon_site.formats"]
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [places.ASSETS / "static"]
WHITENOISE_USE_FINDERS = not PRODUCTION
STORAGES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "beacon_site.web.static_files.StaticFilesStorage"
        if PRODUCTION
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
BEACON_BACKUP_DIR = env.folder("BEACON_BACKUP_DIR", made=True)
BEACON_BACKUP_S3_BUCKET = env.text("BEACON_BACKUP_S3_BUCKET")
_bucket = {
    "bucket_name": BEACON_BACKUP_S3_BUCKET,
    "endpoint_url": env.url("BEACON_BACKUP_S3_ENDPOINT") or None,
    "region_name": env.text("BEACON_BACKUP_S3_REGION") or None,
    "location": env.text("BEACON_BACKUP_S3_PREFIX"),
    "access_key": env.text("BEACON_BACKUP_S3_KEY") or None,
    "secret_key": env.text("BEACON_BACKUP_S3_SECRET") or None,
}
STORAGES["backups"] = (
    {"BACKEND": "beacon_site.web.s3.BackupBucket", "OPTIONS": _bucket}
    if BEACON_BACKUP_S3_BUCKET
    else {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": BEACON_BACKUP_DIR or str(DATA_DIR / "backups")},
    }
)
DATA_UPLOAD_MAX_MEMORY_SIZE = 12 * 1024 * 1024
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- database ----------------------------------------------------------------------------------


def _service_urls() -> dict[str, str]:
    """Return DATABASE_URL and REDIS_URL, from the environment or of the embedded servers."""
    running = embedded.running_urls() or {}
    urls = {name: env.text(name) or running.get(name, "") for name in ("DATABASE_URL", "REDIS_URL")}
    missing = [name for name, value in urls.items() if not value]
    if missing:
        raise ImproperlyConfigured(
            f"No embedded server is running. Start Beacon with `{places.MAKE} up`, use "
            f"`{places.MANAGE}` (which starts the servers while it runs), or set {' and '.join(missing)}."
        )
    return urls


_urls = _service_urls()
if PRODUCTION:
    env.check_service_passwords(_urls)
REDIS_URL = _urls["REDIS_URL"]
# Nothing that Beacon asks takes so long, unless the planner chose badly: then it must end.
BEACON_STATEMENT_SECONDS = env.number("BEACON_STATEMENT_SECONDS", 30, most=3_600)
BEACON_TASK_STATEMENT_SECONDS = env.number("BEACON_TASK_STATEMENT_SECONDS", 600, most=3_600)


def database_of(process: str) -> dict[str, Any]:
    """Return the database's settings for a process, with the time limit of its statements."""
    answers_requests = process in {"web", "mcp"}
    seconds = BEACON_STATEMENT_SECONDS if answers_requests else BEACON_TASK_STATEMENT_SECONDS
    database = {
        **env.database(
            "DATABASE_URL",
            _urls["DATABASE_URL"],
            limited=process != "command",
            statement_seconds=seconds,
        ),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
    }
    # See worker_threads.py.
    has_threads = process == "worker" and bool(os.environ.get("CELERY_CUSTOM_WORKER_POOL"))
    if answers_requests or has_threads:
        # Only where many threads share a process.  CONN_MAX_AGE must be 0 with a pool.
        # The pool waits longer before each attempt to reconnect, so it gives up after 2 s and the
        # next request starts over.  Otherwise pages failed for twice as long as Postgres was gone.
        # A request waits 5 s.  With 2 s, a busy machine answered 503 although reconnecting was about
        # to succeed.  A task has more connections than its thread: its lease, files read ahead.
        # Two web processes and a worker have 88 of Postgres's 100, which leaves some to commands.
        # At rest none is kept, because Postgres needs a process and 6 MB for each.  A worker at rest
        # uses one every minute.
        database["OPTIONS"]["pool"] = {
            "min_size": 0, "max_size": 24 if answers_requests else 40,
            "timeout": 5, "reconnect_timeout": 2, "max_idle": 60 if answers_requests else 2,
            "reset": None if answers_requests else release_all_locks,  # in a thread of the pool
        }  # fmt: skip
    return database


DATABASES: dict[str, dict[str, Any]] = {"default": database_of(BEACON_PROCESS)}

CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "beacon",
        "OPTIONS": {"socket_connect_timeout": 0.3, "socket_timeout": 0.3},
    }
}

# --- celery ------------------------------------------------------------------------------------

CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_TIME_LIMIT = 900
CELERY_TASK_SOFT_TIME_LIMIT = 840
CELERY_WORKER_MAX_TASKS_PER_CHILD = 50
CELERY_WORKER_MAX_MEMORY_PER_CHILD = 400_000
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 15
# On a busy machine, a child takes longer to start than the default 4 s, and was killed for it.
CELERY_WORKER_PROC_ALIVE_TIMEOUT = 60
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False  # nothing uses it, and an idle worker keeps polling
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 21_600,
    "socket_timeout": 2,
    "socket_connect_timeout": 2,
    # The queues in the order in which a worker names them.  By turns, hundreds of comparisons in
    # `background` delayed the ticks that start and resume runs, until their messages expired.
    "queue_order_strategy": "priority",
}
CELERY_TASK_DEFAULT_QUEUE = "research"
CELERY_TASK_ROUTES = {
    "research.tasks.execute_run": {"queue": "research"},
    "research.tasks.run_follow_up": {"queue": "reflect"},
    "research.tasks.deliver": {"queue": "reflect"},
    "research.tasks.forget_deliveries": {"queue": "maintenance"},
    "research.tasks.tick": {"queue": "maintenance"},
    "research.tasks.minute_tick": {"queue": "maintenance"},
    "memory.tasks.run_archive_job": {"queue": "research"},
    "memory.tasks.*": {"queue": "maintenance"},
}
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULE_FILENAME = str(DATA_DIR / "celerybeat-schedule")


def _every(seconds: float, task: str, queue: str = "maintenance") -> dict[str, Any]:
    """Return an entry of the schedule. Its message expires at the next one, or after an hour."""
    return {
        "task": task,
        "schedule": seconds,
        "options": {"expires": int(min(seconds, 3600)), "queue": queue},
    }


# Due work is in rows that the tasks look up, so two beats start nothing twice.
CELERY_BEAT_SCHEDULE = {
    "tick": _every(15.0, "research.tasks.tick"),
    "minute-tick": _every(60.0, "research.tasks.minute_tick"),
    "empty-the-trash": _every(6 * 3600.0, "memory.tasks.empty_trash"),
    "forget-deliveries": _every(6 * 3600.0, "research.tasks.forget_deliveries"),
    "retire-content": _every(6 * 3600.0, "memory.tasks.retire_content"),
    "forget-sign-ins": _every(6 * 3600.0, "memory.tasks.forget_sign_ins"),
    "forget-api-answers": _every(3600.0, "memory.tasks.forget_api_answers"),
    "maintain-notes": _every(6 * 3600.0, "memory.tasks.maintain", queue="reflect"),
    "publish-what-is-due": _every(60.0, "memory.tasks.publish_due"),
    "embed-what-is-due": _every(60.0, "memory.tasks.embed_due"),
    "back-up-if-due": _every(300.0, "memory.tasks.back_up_if_due"),
    "forget-archives": _every(3600.0, "memory.tasks.forget_archives"),
    "verify": _every(24 * 3600.0, "memory.tasks.verify"),
    "follow-languages": _every(60.0, "memory.tasks.follow_languages"),
    "take-in-the-library": _every(600.0, "memory.tasks.scan_library_folder"),
}

# --- providers ---------------------------------------------------------------------------------

BEACON_CONTACT = env.text("BEACON_CONTACT")
BEACON_LLM_BASE_URL = env.url("BEACON_LLM_BASE_URL")
BEACON_LLM_MODEL = env.text("BEACON_LLM_MODEL")
OPENAI_API_KEY = env.text("OPENAI_API_KEY")
for _name in ("OPENAI_API_KEY", "BEACON_LLM_BASE_URL"):
    if env.text(_name) and not BEACON_LLM_MODEL:
        raise ImproperlyConfigured(f"{_name} is set, so BEACON_LLM_MODEL must name a model too.")
BEACON_EMBEDDINGS = env.one_of("BEACON_EMBEDDINGS", ("auto", "local", "endpoint", "none"), "auto")
BEACON_EMBEDDINGS_BASE_URL = env.url("BEACON_EMBEDDINGS_BASE_URL")
# TAVILY_API_KEY, SEARXNG_BASE_URL and so on, by service; "" if unset.
SEARCH_KEYS = {s.name: env.text(s.key_variable) for s in CATALOGUE if s.key_variable}
SEARCH_BASE_URLS = {s.name: env.url(s.url_variable) for s in CATALOGUE if s.url_variable}
BEACON_SEARCH = env.word_list("BEACON_SEARCH")
if unknown := sorted(set(BEACON_SEARCH) - BY_NAME.keys()):
    raise ImproperlyConfigured(
        f"BEACON_SEARCH names unknown services: {', '.join(unknown)}. Use {', '.join(BY_NAME)}."
    )
BEACON_FETCH_ALLOW_HOSTS = frozenset(env.word_list("BEACON_FETCH_ALLOW_HOSTS"))
BEACON_CHROMIUM = env.text("BEACON_CHROMIUM")
BEACON_CHROMIUM_SANDBOX = env.flag("BEACON_CHROMIUM_SANDBOX", default=True)
BEACON_LIBRARY_DIR = env.folder("BEACON_LIBRARY_DIR")
BEACON_MIRROR_DIR = env.folder("BEACON_MIRROR_DIR", made=True)
BEACON_MIRROR_READ = env.flag("BEACON_MIRROR_READ", default=True)
BEACON_MIRROR_GIT = env.flag("BEACON_MIRROR_GIT")
if BEACON_MIRROR_DIR:
    CELERY_BEAT_SCHEDULE["follow-the-mirror"] = _every(5.0, "memory.tasks.follow_mirror")
BEACON_AGENT_DIRS = env.named_folders("BEACON_AGENT_DIRS")
BEACON_AGENT_DIRS_OWNER = env.text("BEACON_AGENT_DIRS_OWNER")
if BEACON_AGENT_DIRS:
    CELERY_BEAT_SCHEDULE["follow-agent-folders"] = _every(5.0, "memory.tasks.follow_agent_folders")
BEACON_TOPIC_TTL_SECONDS = env.number("BEACON_TOPIC_TTL_SECONDS", 60 * 60 * 24 * 30, least=60)
BEACON_SEEN_URLS = env.number("BEACON_SEEN_URLS", 500, least=1, most=100_000)
BEACON_CONTENT_DAYS = env.number("BEACON_CONTENT_DAYS", 90, least=0, most=36_500)
BEACON_RUNS_PER_HOUR = env.number("BEACON_RUNS_PER_HOUR", 20, least=1)
BEACON_PUBLISH_OWNER = env.text("BEACON_PUBLISH_OWNER")
BEACON_API_REQUESTS_PER_MINUTE = env.number("BEACON_API_REQUESTS_PER_MINUTE", 3_000, least=1)

# --- mail --------------------------------------------------------------------------------------

_mail = env.server("EMAIL_URL", folder=None if PRODUCTION else DATA_DIR / "mail")
BEACON_MAIL, EMAIL_BACKEND, EMAIL_FILE_PATH = _mail.kind, _mail.backend, _mail.folder
EMAIL_HOST, EMAIL_PORT, EMAIL_TIMEOUT = _mail.host, _mail.port, 10
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _mail.user, _mail.password
EMAIL_USE_TLS, EMAIL_USE_SSL = _mail.starttls, _mail.tls
DEFAULT_FROM_EMAIL = env.sender("BEACON_MAIL_FROM", BEACON_URL)

# --- security ----------------------------------------------------------------------------------

AUTH_USER_MODEL = "memory.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "memory:sign-in"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "memory:sign-in"

AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_LOCKOUT_CALLABLE = "memory.pages.accounts.views.locked_out"
# The same IP address that all of Beacon uses (`ForwardedMiddleware`).  axes doesn't read the proxy's
# header, so one stranger's failures would lock everyone out of an account.
AXES_CLIENT_IP_CALLABLE = "memory.accounts.sign_ins.counted_address_of"
AXES_HANDLER = "memory.accounts.sign_ins.Failures"
AXES_DISABLE_ACCESS_LOG = True  # sign-ins are in Activity and in the list of browsers
BEACON_SIGN_INS_PER_MINUTE = env.number("BEACON_SIGN_INS_PER_MINUTE", 60, least=1)
AXES_VERBOSE = False

# Of allauth, only the protocols are used (docs/dev/decisions.md): none of its pages and forms.
MFA_ADAPTER = "memory.accounts.methods.Adapter"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes", "webauthn"]
MFA_TOTP_ISSUER = "Beacon"
MFA_TOTP_TOLERANCE = 1  # the code before and after the current one: clocks differ
MFA_RECOVERY_CODE_COUNT = 10
MFA_RECOVERY_CODE_DIGITS = 12
MFA_PASSKEY_LOGIN_ENABLED = True
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
SOCIALACCOUNT_ADAPTER = "memory.accounts.oidc.Adapter"

BEACON_OIDC_URL = env.url("BEACON_OIDC_URL")
BEACON_OIDC_CLIENT_ID = env.text("BEACON_OIDC_CLIENT_ID")
BEACON_OIDC_CLIENT_SECRET = env.text("BEACON_OIDC_CLIENT_SECRET")
BEACON_OIDC_NAME = env.text("BEACON_OIDC_NAME", "single sign-on")
BEACON_OIDC_SCOPES = env.word_list("BEACON_OIDC_SCOPES") or ["openid", "profile"]
BEACON_OIDC_GROUPS_CLAIM = env.text("BEACON_OIDC_GROUPS_CLAIM", "groups")
BEACON_OIDC_GROUPS = env.listed("BEACON_OIDC_GROUPS")
BEACON_OIDC_ADMIN_GROUPS = env.listed("BEACON_OIDC_ADMIN_GROUPS")
if bool(BEACON_OIDC_URL) != bool(BEACON_OIDC_CLIENT_ID):
    raise ImproperlyConfigured(
        "Single sign-on needs both BEACON_OIDC_URL and BEACON_OIDC_CLIENT_ID. Set both, or neither."
    )
BEACON_TRUSTED_HEADER = env.text("BEACON_TRUSTED_HEADER")
BEACON_TRUSTED_HEADER_FROM = env.networks("BEACON_TRUSTED_HEADER_FROM")
if bool(BEACON_TRUSTED_HEADER) != bool(BEACON_TRUSTED_HEADER_FROM):
    raise ImproperlyConfigured(
        "BEACON_TRUSTED_HEADER signs in the person it names, so BEACON_TRUSTED_HEADER_FROM must list the "
        "addresses of the proxies that set it. Set both, or neither."
    )

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF, NONCE],
        "img-src": [SELF, "data:"],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "font-src": [SELF],
        "manifest-src": [SELF],
    }
}
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# With this prefix, a browser accepts the cookie only from this host, and only over TLS.
SESSION_COOKIE_NAME = "__Host-sessionid" if BEACON_HTTPS else "sessionid"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = BEACON_HTTPS
CSRF_COOKIE_SECURE = BEACON_HTTPS
CSRF_COOKIE_HTTPONLY = False
CSRF_FAILURE_VIEW = "research.pages.errors.csrf_failed"
SECURE_SSL_REDIRECT = BEACON_HTTPS
SECURE_REDIRECT_EXEMPT = [r"^livez$", r"^readyz$"]
SECURE_HSTS_SECONDS = 31_536_000 if BEACON_HTTPS else 0
# Both would affect hosts that aren't Beacon's, so the domain's owner decides (docs/hosting.md).
SECURE_HSTS_INCLUDE_SUBDOMAINS = False
SECURE_HSTS_PRELOAD = False
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
if BEACON_TRUST_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

# --- logs --------------------------------------------------------------------------------------

BEACON_LOG_FORMAT = env.one_of(
    "BEACON_LOG_FORMAT", ("readable", "json"), "json" if PRODUCTION else "readable"
)


def log_level_of(process: str) -> str:
    """Return the level of a process's log; someone who runs a command wants only its output."""
    return "WARNING" if process == "command" else "INFO"


LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"lines": logs.formatter(BEACON_LOG_FORMAT, BEACON_PROCESS)},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "lines"}},
    "root": {"handlers": ["console"], "level": log_level_of(BEACON_PROCESS)},
    "loggers": {
        # These log whole requests or every pool event at INFO.
        "httpx": {"level": "WARNING"},
        "httpx2": {"level": "WARNING"},
        "openai": {"level": "WARNING"},
        "trafilatura": {"level": "ERROR"},
        "psycopg.pool": {"level": "WARNING"},
        # Its warnings, such as 404, are already in the request's own line.
        "django.request": {"level": "ERROR"},
        "mcp": {"level": "WARNING"},
        "uvicorn": {"level": "WARNING"},
        # It logs what was typed as a username, which can be a password; `memory.accounts.sign_ins` logs these.
        "axes": {"level": "ERROR"},
        "gunicorn.error": {"level": "INFO", "handlers": ["console"], "propagate": False},
        # A tick every 15 s would fill the log; runs and steps have their own lines.
        "celery.beat": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.worker.consumer.mingle": {"level": "WARNING"},
        "celery.app.trace": {"level": "CRITICAL"},  # a task that fails has a line with its ids
        "django.security.DisallowedHost": {"level": "CRITICAL"},
    },
}
# Each message carries the ids of the request and task that sent it.
DJANGO_STRUCTLOG_CELERY_ENABLED = True
DJANGO_STRUCTLOG_CELERY_DEFAULT_LOG_LEVEL = logging.DEBUG
structlog.configure(
    processors=[
        structlog.stdlib.filter_by_level,
        logs.without_noise,
        *logs.SHARED,
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    cache_logger_on_first_use=True,
)
