# Written without a Docker to build it with: docs/operations.md says so, and how to run it.
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE orchestrator.py ./
COPY memory ./memory
RUN python -m venv /opt/memory && /opt/memory/bin/pip install --no-cache-dir ".[agent,openai,postgres]"

FROM python:3.12-slim
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin memory \
    && install -d -o memory -m 0700 /data
# Owned by root: the process can change its data and nothing else.
COPY --from=build /opt/memory /opt/memory
ENV PATH=/opt/memory/bin:$PATH \
    MEMORY_DATA_DIR=/data \
    PYTHONDONTWRITEBYTECODE=1
USER memory
WORKDIR /data
VOLUME /data
EXPOSE 8765
ENTRYPOINT ["memory-dedup"]
CMD ["serve", "--http", "0.0.0.0:8765", "--tokens", "/run/secrets/memory_tokens", "--allow-host", "localhost"]
