# Three images: the server on CPUs, on NVIDIA GPUs, and a node of a Ray cluster; docs/deploy.md has the commands. EXTRAS:
# those of pyproject.toml, separated by commas.
# Dependencies are one layer and Scanline another, so that a change of the code moves megabytes, not a gigabyte.
ARG PYTHON=3.12
ARG DEVICE=cpu

FROM python:${PYTHON}-slim-bookworm AS dependencies
ARG DEVICE
ARG EXTRAS=""
RUN python -m venv /opt/scanline
ENV PATH=/opt/scanline/bin:$PATH
WORKDIR /src
# the torch on PyPI depends on the CUDA libraries
RUN --mount=type=cache,target=/root/.cache/pip \
    if [ "$DEVICE" = cpu ]; then \
        pip install --no-deps --index-url https://download.pytorch.org/whl/cpu "torch>=2.10,<2.14"; \
    fi
# installs the dependencies, and an empty package that the wheel replaces below
COPY pyproject.toml ./
# hadolint ignore=DL3013
RUN --mount=type=cache,target=/root/.cache/pip touch README.md LICENSE && pip install ".${EXTRAS:+[$EXTRAS]}"

FROM dependencies AS build
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY . .
# setup.py treats the native step as optional; here it is required
RUN --mount=type=cache,target=/root/.cache/pip \
    pip wheel --no-deps --wheel-dir /wheels . && python -m zipfile -l /wheels/*.whl >contents \
    && grep scanline/kernels/cpu/_step contents && grep scanline/server/web/dist/index.html contents

FROM python:${PYTHON}-slim-bookworm AS cpu
# wget: for the health check below, and for KubeRay's probe of a Ray worker (bash -c "wget ... | grep success")
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends wget && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 scanline

FROM cpu AS cuda
# Triton compiles its launcher at run time, since that is linked to the driver
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    TRITON_CACHE_DIR=/tmp/triton

# hadolint ignore=DL3006
FROM ${DEVICE}
COPY --from=dependencies /opt/scanline /opt/scanline
ENV PATH=/opt/scanline/bin:$PATH
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-deps --force-reinstall /wheels/*.whl
# The kernels of the shipped models for GPUs of one compute capability, compiled without a GPU. Triton finds a kernel by
# its absolute path, so they are compiled where TRITON_CACHE_DIR will be, moved out of /tmp, which is a volume in many
# deployments, and copied back by the entry point.
ARG DEVICE
ARG CAPABILITY=90
RUN --mount=type=bind,source=benchmarks,target=benchmarks \
    if [ "$DEVICE" = cuda ]; then \
        TRITON_STORE_BINARY_ONLY=1 python -m benchmarks.compile_kernels --capability "$CAPABILITY" --jobs "$(nproc)" \
        && mv "$TRITON_CACHE_DIR" /opt/triton; \
    fi
ENV PYTHONUNBUFFERED=1 \
    SCANLINE_HOST=:: \
    SCANLINE_PORT=8000
USER 10001
WORKDIR /home/scanline
EXPOSE 8000
# liveness: a server that restarts its engine is not ready for a while, and must not be killed for it
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["sh", "-c", "exec wget -q -T 2 -O /dev/null --no-check-certificate \
        http${SCANLINE_TLS_CERT:+s}://localhost:$SCANLINE_PORT/healthz"]
ENTRYPOINT ["sh", "-c", "[ ! -d /opt/triton ] || [ -e \"$TRITON_CACHE_DIR\" ] || cp -r /opt/triton \"$TRITON_CACHE_DIR\"; exec scanline \"$@\"", "sh"]
CMD ["serve"]
