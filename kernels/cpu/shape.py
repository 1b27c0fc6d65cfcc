"""Sizes and options of a network as the library takes them, and the checks of every argument of a call: the library
trusts them, and a wrong one would read or write other memory."""

import ctypes

import torch
from torch import Tensor

from scanline.kernels import BEYOND, LARGEST_IMAGE, MAX_DEPTH, MAX_WIDTH
from scanline.kernels.codec.coder import MIN_RANGE, WHOLE

MAX_CHANNELS = 4
READS = {"byte": 0, "window": 1}
STATE = ("s", "z", "position", "conv_state")
CODES = ("code", "code_at", "code_value", "code_range")  # of slots, of which images may be painted from codes
PREDICTS = {"pixel_logistics": 0, "categorical": 1}
Arrays = dict[str, Tensor]


class Shape(ctypes.Structure):
    """Sizes and options of a network, as in abi.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("height", "width", "channels", "layers", "heads", "key_width")),
        *((name, ctypes.c_int64) for name in ("value_width", "feed_forward", "components", "first", "step_bytes")),
        *((name, ctypes.c_int64) for name in ("reads", "predicts", "pre_norm", "gelu", "concat", "axial")),
        *((name, ctypes.c_int64) for name in ("exp_scale", "skip", "blocks", "block_width", "window_rows")),
        *((name, ctypes.c_int64) for name in ("window_columns", "centred", "waves", "wave_rows", "wave_columns")),
        *((name, ctypes.c_int64) for name in ("outside", "classes", "causal_conv", "class_biases")),
    )

    def check(self) -> None:
        """Raise ValueError, one sentence, where there is no such network."""
        # Each number for itself first: what follows multiplies them, and nothing may overflow in the library's int64.
        limits = {
            **dict.fromkeys(("height", "width"), (1, LARGEST_IMAGE)),
            **dict.fromkeys(("heads", "key_width", "value_width", "feed_forward", "components"), (1, MAX_WIDTH)),
            **dict.fromkeys(("reads", "first", "pre_norm", "gelu", "concat", "axial"), (0, 1)),
            **dict.fromkeys(("exp_scale", "skip", "centred", "causal_conv", "class_biases"), (0, 1)),
            **dict.fromkeys(("window_rows", "window_columns", "wave_rows", "wave_columns"), (0, MAX_DEPTH)),
            "channels": (1, MAX_CHANNELS),
            "layers": (1, MAX_DEPTH),
            "predicts": (0, len(PREDICTS) - 1),
            "blocks": (0, MAX_DEPTH),
            "block_width": (1 if self.blocks else 0, MAX_WIDTH),
            "waves": (0, MAX_DEPTH),
            "outside": (0, 255),
            "classes": (0, MAX_DEPTH),
        }
        for name, (least, most) in limits.items():
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} must be from {least} to {most}, not {getattr(self, name)}")
        # Then what no number says alone: sizes of tensors, and options that the library would read past, or not at all.
        window, categorical = self.reads == READS["window"], self.predicts == PREDICTS["categorical"]
        width = self.heads * self.value_width
        if self.height * self.width * self.channels > LARGEST_IMAGE:
            raise ValueError(f"an image has more than {LARGEST_IMAGE} bytes")
        if max(width, self.heads * self.key_width) > MAX_WIDTH:
            raise ValueError(f"heads x width is more than {MAX_WIDTH}")
        if self.step_bytes != (self.channels if window else 1) or (categorical and self.step_bytes > 1):
            raise ValueError(f"a step of this network cannot paint {self.step_bytes} bytes")
        if self.skip and (categorical or not window):
            raise ValueError("a skip needs a window, and means to move")
        if window and (self.first or self.concat or not self.axial):
            raise ValueError("a network that reads a window has axial positions, added to it, and a start token")
        if window and not self.window_columns:
            raise ValueError("a window has at least one column to the left")
        if self.class_biases and not self.classes:
            raise ValueError("biases of classes need classes")
        if self.causal_conv and not window:
            raise ValueError("a causal convolution needs a network that reads a window")
        if self.wave_rows > self.window_rows or self.wave_columns > self.window_columns:
            raise ValueError("the waves of a window reach beyond it")
        if self.concat and width % 2:
            raise ValueError(f"a concatenated embedding needs an even width, not {width}")

    @property
    def bytes(self) -> int:
        """N, the bytes of an image."""
        return int(self.height * self.width * self.channels)

    @property
    def parameters(self) -> int:
        """P, the parameters of a step's distribution."""
        k, c = self.components, self.step_bytes
        return 256 if self.predicts == PREDICTS["categorical"] else int(k * (1 + 2 * c + c * (c - 1) // 2))

    def conv_state(self, count: int) -> tuple[int, ...]:
        """Return the sizes of what the convolutions of `count` slots keep, as in abi.h."""
        convolutions = self.blocks + self.layers if self.causal_conv else 0
        return convolutions, count, self.width + BEYOND, self.heads * self.value_width

    def check_painting(self, slots: Arrays) -> None:
        """Raise ValueError where the slots are not those of abi.h; `check_numbers` for what may change in them."""
        numbers = ("known", "bits", "seed", "index", "temperature", "label", "known_bits", "partner", "guidance")
        self._check(slots, (*STATE, "images", *numbers, *(CODES if "code" in slots else ())))

    def check_numbers(self, slots: Arrays) -> None:
        """Raise ValueError where a slot's label is none, or it stands within a step or does not fit its partner."""
        self._check_labels(slots["label"])
        self._check_guided(slots)
        position, first = slots["position"], self.first
        if bool(((position < first) | ((position < self.bytes) & ((position - first) % self.step_bytes != 0))).any()):
            raise ValueError(f"a position is before byte {first}, or within a step of {self.step_bytes} bytes")
        if "code" in slots:
            _check_codes(slots["code_at"], slots["code_value"], slots["code_range"], slots["partner"])

    def check_reading(
        self, slots: Arrays, start: int, stop: int, bits: Tensor, parameters: Tensor | None, intervals: Tensor | None
    ) -> None:
        """Raise ValueError where `read` cannot run the bytes start .. stop - 1."""
        self._check(slots, (*STATE, "images", "label"))
        self._check_labels(slots["label"])
        size = self.step_bytes
        if not self.first <= start < stop <= self.bytes or (start - self.first) % size or (stop - start) % size:
            raise ValueError(f"cannot read bytes {start} to {stop} of images of {self.bytes} bytes")
        count, n = len(slots["position"]), stop - start
        _check_tensor("bits", bits, torch.float64, (count, n))
        if parameters is not None:
            _check_tensor("parameters", parameters, torch.float32, (count, n // size, self.parameters))
        if intervals is not None:
            _check_tensor("intervals", intervals, torch.int32, (count, n, 2))

    def check_following(self, parameters: Tensor, without: Tensor | None, at: int, length: int) -> None:
        """Raise ValueError where `follow` cannot draw `length` bytes from `at` on."""
        stop, size = at + length, self.step_bytes
        if not self.first <= at <= stop <= self.bytes or (at - self.first) % size or length % size:
            raise ValueError(f"cannot draw bytes {at} to {stop} of images of {self.bytes} bytes")
        expected = torch.float32, (length // size, self.parameters)
        _check_tensor("parameters", parameters, *expected)
        if without is not None:
            _check_tensor("without", without, *expected)

    def check_copying(self, slots: Arrays, sources: Tensor, targets: Tensor) -> None:
        """Raise ValueError where there are no such slots to copy."""
        self._check(slots, (*STATE, "images", "bits"))
        for name, numbers in (("sources", sources), ("targets", targets)):
            _check_tensor(name, numbers, torch.int64, (len(sources),))
            if bool(((numbers < 0) | (numbers >= len(slots["position"]))).any()):
                raise ValueError(f"{name} must be from 0 to {len(slots['position']) - 1}")

    def _check_guided(self, slots: Arrays) -> None:
        """Raise ValueError where the two slots of a guided image that is in flight do not fit each other."""
        partner, position, label = slots["partner"], slots["position"], slots["label"]
        rows = ((partner != 0) & (position < self.bytes)).nonzero().flatten()
        if not len(rows):
            return
        others = rows + partner[rows]
        if bool(((others < 0) | (others >= len(partner))).any()):
            raise ValueError(f"a partner must be from slot 0 to {len(partner) - 1}")
        fits = (partner[others] == -partner[rows]) & (position[others] == position[rows])
        fits &= (label[others] == 0) != (label[rows] == 0)
        if not bool(fits.all()):
            raise ValueError("guided images need two slots at one position, one without a class")

    def _check(self, slots: Arrays, names: tuple[str, ...]) -> None:
        if set(slots) != set(names):
            raise ValueError(f"the slots must have {', '.join(names)}, not {', '.join(slots)}")
        b = slots["position"].numel()
        heads = (self.layers, b, self.heads, self.key_width)
        expected = {
            "s": (torch.float32, (*heads, self.value_width)),
            "z": (torch.float32, heads),
            "conv_state": (torch.float32, self.conv_state(b)),
            "images": (torch.uint8, (b, self.bytes)),
            "known": (slots["known"].dtype if "known" in slots else torch.bool, (b, self.bytes)),
            "bits": (torch.float64, (b,)),
            "known_bits": (torch.float64, (b,)),
            "guidance": (torch.float32, (b,)),
            "temperature": (torch.float32, (b,)),
            "code": (torch.uint8, (b, *slots["code"].shape[1:2])) if "code" in slots else (torch.uint8, (b,)),
        }
        for name in names:
            _check_tensor(name, slots[name], *expected.get(name, (torch.int64, (b,))))
        if "known" in slots and slots["known"].dtype not in (torch.bool, torch.uint8):
            raise ValueError(f"known must be of type bool or uint8, not {slots['known'].dtype}")

    def _check_labels(self, labels: Tensor) -> None:
        if self.classes and bool(((labels < 0) | (labels > self.classes)).any()):
            raise ValueError(f"a label must be from 0 to {self.classes}")


def _check_codes(at: Tensor, value: Tensor, range_: Tensor, partner: Tensor) -> None:
    """Raise ValueError where a slot's code is not that of a decoder."""
    decodes = (range_ >= MIN_RANGE) & (range_ <= WHOLE) & (value >= 0) & (value < range_) & (at >= 0) & (partner == 0)
    if not bool((decodes | (range_ == 0)).all()):
        raise ValueError("a code has a range from 2^40 to 2^48, a value below it, and no guided image")


def _check_tensor(name: str, tensor: Tensor, dtype: torch.dtype, size: tuple[int, ...]) -> None:
    if tensor.dtype != dtype or tensor.shape != size:
        raise ValueError(f"{name} must be {list(size)} of {dtype}, not {list(tensor.shape)} of {tensor.dtype}")
    if not tensor.is_contiguous() or tensor.device.type != "cpu":
        raise ValueError(f"{name} must be contiguous and in the processor's memory")
