"""GET /preview.png: the picture that other services show with a link to the page, painted from the
link's query.

It has the first images of the gallery, or what is written, and costs no more than a request for
them. The last ones are kept. A server with API keys has none: such services have no key.
"""

import re
from collections import OrderedDict
from collections.abc import AsyncIterator
from html import escape
from textwrap import wrap
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter, Request, Response
from PIL import Image

from scanline.model.base.inputs import InvalidInput
from scanline.model.images import pictures
from scanline.model.images.contact_sheet import sheet
from scanline.model.images.one_hand import one_hand
from scanline.server.api.base.page_paths import PREVIEW
from scanline.server.api.jobs import Answer, TaskResponse, paint_task
from scanline.server.api.payload import offload
from scanline.server.api.payload.schemas import GenerationRequest
from scanline.server.models.registry import ModelRegistry

FIELDS = ("model", "n", "seed", "class", "temperature", "guidance", "best_of", "write")
WIDTH = 1200  # pixels, as those services show it whole
HEIGHT = 630
IMAGES = 8
COLUMNS = 4
LINE = 12  # characters, of what is written
MAX_WRITTEN = 32  # characters, as on the page
SEED = 7  # of a link without one
KEPT = 64  # previews, some 10 kB each
HEADERS = {"content-type": "image/png", "cache-control": "public, max-age=3600"}
PREFIX = re.compile(r"(/[\w.~-]+)*")
SCHEMES = ("http", "https")


def router(models: ModelRegistry) -> APIRouter:
    """Return the route over `models`."""
    routes = APIRouter(include_in_schema=False)
    kept: OrderedDict[tuple[str, str, str], bytes] = OrderedDict()

    @routes.get(PREVIEW)
    async def preview(request: Request) -> Response:
        """Paint the preview of a link."""
        query = _fields(request)
        lines = _lines(query.pop("write", ""))
        fields = _request(query, lines)
        model, task = paint_task(models, fields)
        digest = "" if model.engine.ready is None else model.engine.ready.digest
        key = (digest, fields.model_dump_json(), "\n".join(lines))
        if key in kept:
            kept.move_to_end(key)
            return Response(kept[key], headers=HEADERS)

        async def whole_answer() -> Answer:
            shown = task.images[list(task.shown)]  # of candidates, the best
            images = shown.reshape(-1, *model.config.image_shape)
            file = await offload.run_long(lambda: _picture(images, lines))
            kept[key] = file
            if len(kept) > KEPT:
                kept.popitem(last=False)
            return _whole(file), HEADERS

        return TaskResponse(request, models, model, task, None, whole_answer)

    return routes


def tags(request: Request) -> str:
    """Return the tags that name the preview of the page that is asked for. A proxy that adds TLS or
    a path says so in X-Forwarded-Proto and X-Forwarded-Prefix."""
    scheme = request.headers.get("x-forwarded-proto", "")
    prefix = request.headers.get("x-forwarded-prefix", "").rstrip("/")
    base = request.base_url
    if scheme in SCHEMES:
        base = base.replace(scheme=scheme)
    if not PREFIX.fullmatch(prefix):
        prefix = ""
    root = str(base).rstrip("/") + prefix
    query = urlencode(_fields(request))
    address = escape(f"{root}{PREVIEW}?{query}".rstrip("?"))
    return f"""<meta property="og:title" content="Scanline" />
    <meta property="og:image" content="{address}" />
    <meta property="og:image:width" content="{WIDTH}" />
    <meta property="og:image:height" content="{HEIGHT}" />
    <meta name="twitter:card" content="summary_large_image" />
"""


def _fields(request: Request) -> dict[str, str]:
    """Return the fields of a link that say what is painted; others have other uses."""
    query = request.query_params
    return {name: query[name] for name in FIELDS if name in query}


def _lines(text: str) -> list[str]:
    if len(text) > MAX_WRITTEN:
        raise InvalidInput(f"write has at most {MAX_WRITTEN} characters.", "write")
    return wrap(text, LINE)


def _request(query: dict[str, str], lines: list[str]) -> GenerationRequest:
    """Return the request for the images. As on the page, a link with a seed says all: it has no
    class, guidance and choice, where it names none; what is written has the model's guidance."""
    sent: dict[str, object] = {"seed": SEED, **query}
    if "seed" in query:
        sent = {"best_of": 1, **sent}
    if "seed" in query and not lines:
        sent = {"class": "none", "guidance": 1, **sent}
    if lines:
        sent["class"] = [letter for line in lines for letter in line if letter != " "]
        sent.pop("n", None)
        return GenerationRequest.model_validate(sent, strict=False)
    fields = GenerationRequest.model_validate({"n": IMAGES, **sent}, strict=False)
    return fields.model_copy(update={"n": min(IMAGES, fields.n or IMAGES)})


def _picture(images: np.ndarray, lines: list[str]) -> bytes:
    """Return the file of images [n, H, W] or [n, H, W, 3], in the middle of WIDTH x HEIGHT."""
    columns = min(len(images), COLUMNS)
    if lines:
        columns = max(map(len, lines))
        letters = iter(one_hand(images) if images.ndim == 3 else images)
        blank = np.zeros_like(images[0])
        cells = "".join(line.ljust(columns) for line in lines)
        images = np.stack([blank if cell == " " else next(letters) for cell in cells])
    whole = sheet(images, columns)
    scale = min(WIDTH // whole.width, HEIGHT // whole.height)
    if scale > 1:
        whole = whole.resize((scale * whole.width, scale * whole.height), Image.Resampling.NEAREST)
    whole.thumbnail((WIDTH, HEIGHT), Image.Resampling.BOX)
    preview = Image.new(whole.mode, (WIDTH, HEIGHT))
    left = (WIDTH - whole.width) // 2
    top = (HEIGHT - whole.height) // 2
    preview.paste(whole, (left, top))
    return pictures.encode(preview, "png")


async def _whole(file: bytes) -> AsyncIterator[bytes]:
    yield file
