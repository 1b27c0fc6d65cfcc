# CPU by default; for CUDA, where Triton compiles its launchers when it runs:
#   docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128 \
#       --build-arg COMPILER="gcc libc6-dev" -t scanline:cuda .
FROM python:3.12-slim AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
RUN python -m venv /opt/scanline
ENV PATH=/opt/scanline/bin:$PATH
RUN pip install --no-cache-dir --index-url "$TORCH_INDEX" "torch>=2.8,<2.14"
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE ./
COPY kernels kernels
COPY model model
COPY server server
RUN pip install --no-cache-dir .

FROM python:3.12-slim
ARG COMPILER=""
# hadolint ignore=DL3008,SC2086
RUN if [ -n "$COMPILER" ]; then \
        apt-get update && apt-get install -y --no-install-recommends $COMPILER && rm -rf /var/lib/apt/lists/*; \
    fi
RUN useradd --create-home --uid 10001 scanline
COPY --from=build /opt/scanline /opt/scanline
ENV PATH=/opt/scanline/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    SCANLINE_HOST=0.0.0.0 \
    SCANLINE_PORT=8000
USER 10001
WORKDIR /home/scanline
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f'http://127.0.0.1:{os.environ[\"SCANLINE_PORT\"]}/readyz', timeout=2)"]
ENTRYPOINT ["scanline"]
CMD ["serve"]
