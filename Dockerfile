# Beacon's image: web, worker, upkeep, beat and mcp use it with different commands. It has three
# stages, so neither build tools nor sources are left in it (BuildKit).

FROM python:3.11-slim-bookworm AS packages
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
RUN pip install --upgrade pip && python -m venv --without-pip /opt/beacon
# What rarely changes comes first, so this stage is cached. The lock file names every package, so
# nothing is resolved.
COPY requirements/base.txt requirements/
RUN pip --python /opt/beacon/bin/python install --no-deps --require-hashes -r requirements/base.txt
# Embeddings on this machine (115 MB). Without them, memory search uses only words.
COPY requirements/embeddings.txt requirements/
RUN pip --python /opt/beacon/bin/python install --no-deps --require-hashes -r requirements/embeddings.txt
COPY scripts/unused_files.py scripts/
COPY locale locale
RUN /opt/beacon/bin/python scripts/unused_files.py

FROM python:3.11-slim-bookworm AS wheel
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY requirements/build.txt requirements/
RUN pip install --no-deps --require-hashes -r requirements/build.txt
COPY requirements/base.in requirements/embeddings.in requirements/extras.in requirements/
COPY pyproject.toml hatch_build.py README.md LICENSE NOTICE.md ./
COPY beacon_site beacon_site
COPY memory memory
COPY research research
COPY templates templates
COPY static static
COPY locale locale
RUN python -m hatchling build -t wheel -d /dist

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="Beacon" org.opencontainers.image.licenses="MIT"
ENV PATH=/opt/beacon/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MALLOC_ARENA_MAX=2 \
    BEACON_DATA_DIR=/data
# A path, such as /usr/bin/chromium, adds Chromium for pages that need JavaScript (some 500 MB).
ARG BEACON_CHROMIUM=""
RUN if [ -n "$BEACON_CHROMIUM" ]; then \
        apt-get update && apt-get install --yes --no-install-recommends chromium \
        && rm -rf /var/lib/apt/lists/* && test -x "$BEACON_CHROMIUM"; \
    fi
COPY --from=packages /opt/beacon /opt/beacon
# No installer is left for an intruder.
RUN --mount=type=bind,from=wheel,source=/dist,target=/dist \
    /usr/local/bin/python -m pip --python /opt/beacon/bin/python install --no-cache-dir --no-deps --no-index /dist/*.whl \
    && /usr/local/bin/python -m pip uninstall --yes --root-user-action=ignore setuptools wheel pip \
    && useradd --system --uid 10001 --no-create-home beacon \
    && mkdir /data && chown beacon /data && chmod 700 /data
USER beacon
WORKDIR /
VOLUME /data
EXPOSE 8000 8001
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
    CMD ["python", "-m", "beacon_site.health", "web"]

CMD ["beacon", "web"]
