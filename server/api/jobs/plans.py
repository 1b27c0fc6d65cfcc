"""Tasks from checked fields: which model, how many images, then the plan of the task layer."""

from collections.abc import Iterator, Sequence
from dataclasses import fields as fields_of
from typing import Any, TypeVar

from pydantic import BaseModel
from structlog.contextvars import bind_contextvars

from scanline.model.base.inputs import InvalidInput
from scanline.model.formats.code_file import CodeFile, read
from scanline.model.tasks import decode, paint
from scanline.model.tasks.decode import DecodeTask, DecodeValues
from scanline.model.tasks.paint import CompleteValues, PaintTask, PaintValues
from scanline.server.api.payload import offload
from scanline.server.api.payload.pictures import numbered
from scanline.server.api.payload.schemas import DecodingRequest, EditRequest, PaintFields
from scanline.server.engine.handle import EngineUnavailableError
from scanline.server.models.registry import ModelRegistry, ServedModel

# of a file, of which some are decoded: the lengths of so many codes are read in less than a second
MAX_IMAGES = 2**18
Values = TypeVar("Values")


def values_of(kind: type[Values], fields: BaseModel, **more: object) -> Values:
    """Return the values of a task that a request's fields of the same names give,
    its options of sampling as well.
    """
    wanted: dict[str, Any] = {each.name: each.type for each in fields_of(kind)}  # type: ignore[arg-type]
    given = {
        name: getattr(fields, name) for name in wanted.keys() & type(fields).model_fields.keys()
    }
    if "sampling" in wanted:
        given["sampling"] = {
            name: getattr(fields, name) for name in wanted["sampling"].__annotations__
        }
    return kind(**given, **more)


def paint_task(models: ModelRegistry, fields: PaintFields) -> tuple[ServedModel, PaintTask]:
    """Return the model that is asked for and the task that paints or completes images; InvalidInput
    where they are too many or a field is wrong."""
    model = models.usable(fields.model)
    if isinstance(fields, EditRequest):
        pictures = len(fields.image)
        values: PaintValues = values_of(
            CompleteValues, fields, max_images=models.max_images, pictures=pictures
        )
    else:
        values = values_of(PaintValues, fields, max_images=models.max_images)
    task = paint.plan(model, values)
    bind_contextvars(model=model.id, images=task.count, **task.drawn)
    return model, task


async def decode_task(
    models: ModelRegistry, fields: DecodingRequest
) -> tuple[ServedModel, DecodeTask]:
    """Return the model that made codes and the task that decodes them; InvalidInput where a code is
    wrong or of no model here, or the images are too many, EngineUnavailableError where a model that
    may have made it is not loaded yet."""
    files = await offload.collect(_files(fields.code), None)
    model = _model_of(models, fields.model, files)
    ranges = fields.ranges(sum(file.count for file in files))
    models.check_count(sum(map(len, ranges)), "code" if fields.images is None else "images")
    assert model.engine.ready is not None
    values = DecodeValues(
        files,
        [number for each in ranges for number in each],
        model.engine.ready.codings,
        model.engine.options.precision,
        digest=model.engine.ready.digest,
        is_checked=not fields.unchecked,
        max_images=models.max_images,
    )
    task = decode.plan(model, values)
    bind_contextvars(model=model.id, images=len(task.shown))
    return model, task


def _files(codes: Sequence[bytes]) -> Iterator[CodeFile]:
    for index, data in enumerate(codes):
        with numbered("Code", index, len(codes)):
            yield read(data, "code", MAX_IMAGES)


def _model_of(models: ModelRegistry, name: str | None, files: Sequence[CodeFile]) -> ServedModel:
    """Return the model that made the files: that of the name, where there is one."""
    file = files[0]
    if any(each.coding != file.coding for each in files):
        raise InvalidInput(
            "code: all codes of a request must be of one model at one precision.", "code"
        )
    served: list[ServedModel] = []
    if name is None:
        served = [model for model in models.all.values() if model.state != "failed"]
    if not served:
        served = [models.usable(name)]
    for model in served:
        if model.engine.ready is not None and file.coding in model.engine.ready.codings:
            return model
    codings = []
    for model in served:
        if model.engine.ready is None:
            raise EngineUnavailableError
        codings.append(
            f"{model.id} at {model.engine.options.precision} has {model.engine.ready.coding or 'none'}"
        )
    needed = f"code is of a model with the coding {file.coding} at precision {file.precision}"
    raise InvalidInput(f"{needed}; {', '.join(codings)}.", "code", "other_model")
