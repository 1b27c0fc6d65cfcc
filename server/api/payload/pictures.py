"""The pictures that a client uploads, as a task takes them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from PIL import Image

from scanline.model.base.inputs import InvalidInput
from scanline.model.formats.model_dir import ModelInfo
from scanline.model.images.cleaning import Clean, Cleaned, read
from scanline.model.images.pictures import (
    known_by_alpha,
    known_by_picture,
    known_rows,
    open_picture,
    pixels,
    size_of,
)
from scanline.model.tasks.paint import PaintTask
from scanline.model.tasks.task import ReadTask, Task
from scanline.server.api.payload import offload
from scanline.server.api.payload.schemas import MaskFields, PictureFields
from scanline.server.api.payload.uploads import uploads


@dataclass(eq=False)
class UploadedPictures:
    """Reads the uploads of a request, and collects the sizes of those
    that were resized to the model's.
    """

    model: ModelInfo
    fields: PictureFields
    resize: bool  # whether uploads of other sizes than the model's are read
    sizes: dict[str, None] = field(default_factory=dict)  # in order, each once

    @property
    def resized(self) -> tuple[str, ...]:
        """The sizes of the uploads that were resized."""
        return tuple(self.sizes)

    async def fill(self, task: Task) -> None:
        """Read the pictures, off the event loop, and give them to the task;
        InvalidInput where one is wrong.
        """
        size = None if self.resize else sum(map(len, uploads(self.fields)))
        if isinstance(task, PaintTask):
            known, masks = zip(*await offload.collect(self._partly_known(), size), strict=True)
            task.fill(known, masks)
        elif isinstance(task, ReadTask):
            task.fill(await offload.collect(self._whole(), size))

    def _whole(self) -> Iterator[Cleaned]:
        config = self.model.config
        photos = self.model.photos(self.fields.clean)
        for index, data in enumerate(self.fields.image):
            with numbered("Picture", index, len(self.fields.image)):
                sent = pixels(self._open(data, "image"), config, photos=photos)
            yield read(sent[None], config, self.model.cleaning, self.fields.clean)

    def _partly_known(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the bytes and the mask of each partly known picture, N each."""
        fields = self.fields
        assert isinstance(fields, MaskFields)
        config = self.model.config
        mask = None
        mask_size = config.size
        if fields.mask is not None:
            opened = self._open(fields.mask, "mask")
            mask = known_by_picture(opened, config, "mask").tobytes()
            mask_size = size_of(opened)
            del opened
        elif fields.keep_rows is not None:
            mask = known_rows(fields.keep_rows, config).tobytes()
        for index, data in enumerate(fields.image):
            with numbered("Picture", index, len(fields.image)):
                known = self._known(data, mask, mask_size, fields.clean)
            yield known

    def _known(
        self, data: bytes, mask: bytes | None, mask_size: str, clean: Clean
    ) -> tuple[bytes, bytes]:
        """Return the bytes of a picture and its mask, by default from its alpha.
        What is decoded for that ends here.
        """
        config = self.model.config
        picture = self._open(data, "image")
        if mask_size not in (size_of(picture), config.size):
            reason = f"mask is {mask_size}; it must have the size of image, {size_of(picture)}, or of the model."
            raise InvalidInput(reason, "mask", "wrong_size")
        sent = pixels(picture, config)[None]
        image = read(sent, config, self.model.cleaning, clean, is_whole=False).images
        return image.tobytes(), known_by_alpha(picture, config).tobytes() if mask is None else mask

    def _open(self, data: bytes, param: str) -> Image.Image:
        picture = open_picture(data, self.model.config, param, self.resize)
        if size_of(picture) != self.model.config.size:
            self.sizes[size_of(picture)] = None
        return picture


@contextmanager
def numbered(what: str, index: int, count: int) -> Iterator[None]:
    """Say which of several pictures or codes an InvalidInput is about."""
    try:
        yield
    except InvalidInput as error:
        if count == 1:
            raise
        raise InvalidInput(
            f"{what} {index + 1} of {count}: {error}", error.param, error.code
        ) from None
