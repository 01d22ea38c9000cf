# Beacon's image: web, worker and beat are the same image with another command.
FROM python:3.11-slim-bookworm

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    BEACON_DATA_DIR=/data

WORKDIR /app

# The packages first: they change seldom, so this layer is kept.
COPY requirements/base.txt requirements/embeddings.txt requirements/
RUN pip install --upgrade pip && pip install --require-hashes -r requirements/base.txt
# Vectors on this machine (200 MB); without them recall finds by words alone.
RUN pip install --require-hashes -r requirements/embeddings.txt

COPY manage.py manage.py
COPY beacon_site beacon_site
COPY memory memory
COPY research research
COPY templates templates
COPY static static

RUN useradd --system --uid 10001 --no-create-home beacon \
    && mkdir /data && chown beacon /data && chmod 700 /data
USER beacon
VOLUME /data
EXPOSE 8000

CMD ["python", "-m", "beacon_site.up", "web"]
