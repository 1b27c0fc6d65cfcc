"""Sizes and options of a network as the library takes them, and the checks of every argument of a
call: the library trusts them, and a wrong one would read or write other memory."""

import ctypes

import torch
from torch import Tensor

from scanline.kernels import BEYOND
from scanline.kernels.codec.coder import MIN_RANGE, WHOLE

READS = {"byte": 0, "window": 1}
STATE = ("s", "z", "position", "conv_state")
# Of slots that are painted, beside their images.
NUMBERS = (
    "known",
    "bits",
    "seed",
    "index",
    "temperature",
    "label",
    "known_bits",
    "partner",
    "guidance",
)
# of slots, of which images may be painted from codes
CODES = ("code", "code_at", "code_value", "code_range")
PREDICTS = {"pixel_logistics": 0, "categorical": 1}
# Arrays with more than one number of each slot; the others' types, where they are not int64.
WIDE = ("s", "z", "conv_state", "images", "known", "code")
TYPES = {
    "bits": torch.float64,
    "known_bits": torch.float64,
    "guidance": torch.float32,
    "temperature": torch.float32,
}
Arrays = dict[str, Tensor]

# In the order of abi.h's Shape.
FIELDS = (
    "height",
    "width",
    "channels",
    "layers",
    "heads",
    "key_width",
    "value_width",
    "feed_forward",
    "components",
    "first",
    "step_bytes",
    "reads",
    "predicts",
    "pre_norm",
    "gelu",
    "concat",
    "axial",
    "exp_scale",
    "skip",
    "blocks",
    "block_width",
    "window_rows",
    "window_columns",
    "centred",
    "waves",
    "wave_rows",
    "wave_columns",
    "outside",
    "classes",
    "causal_conv",
    "class_biases",
)


class Shape(ctypes.Structure):
    """Sizes and options of a network, as in abi.h. Who makes one has checked that there is such a
    network, and that no number is beyond the limits of `kernels`: the library multiplies them."""

    _fields_ = tuple((name, ctypes.c_int64) for name in FIELDS)

    @property
    def _is_categorical(self) -> bool:
        return bool(self.predicts == PREDICTS["categorical"])

    @property
    def bytes(self) -> int:
        """N, the bytes of an image."""
        return int(self.height * self.width * self.channels)

    @property
    def parameters(self) -> int:
        """P, the parameters of a step's distribution."""
        if self._is_categorical:
            return 256
        channels = self.step_bytes
        pairs = channels * (channels - 1) // 2
        of_component = 1 + 2 * channels + pairs  # weight, means and scales, coefficients
        return int(self.components * of_component)

    def conv_state(self, count: int) -> tuple[int, ...]:
        """Return the sizes of what the convolutions of `count` slots keep, as in abi.h."""
        convolutions = self.blocks + self.layers if self.causal_conv else 0
        return convolutions, count, self.width + BEYOND, self.heads * self.value_width

    def check_painting(self, slots: Arrays) -> None:
        """Raise ValueError where the slots are not those of abi.h;
        `check_numbers` for what may change in them.
        """
        names: tuple[str, ...] = (*STATE, "images", *NUMBERS)
        if "code" in slots:
            names += CODES
        self._check(slots, names)

    def check_numbers(self, slots: Arrays) -> None:
        """Raise ValueError where a slot's label is none, or it stands within a
        step or does not fit its partner.
        """
        self._check_labels(slots["label"])
        self._check_guided(slots)
        position = slots["position"]
        is_before = position < self.first
        within_step = (position - self.first) % self.step_bytes != 0
        if bool((is_before | ((position < self.bytes) & within_step)).any()):
            raise ValueError(
                f"a position is before byte {self.first}, or within a step of {self.step_bytes} bytes"
            )
        if "code" in slots:
            _check_codes(
                slots["code_at"], slots["code_value"], slots["code_range"], slots["partner"]
            )

    def check_reading(
        self,
        slots: Arrays,
        start: int,
        stop: int,
        bits: Tensor,
        parameters: Tensor | None,
        intervals: Tensor | None,
    ) -> None:
        """Raise ValueError where `read` cannot run the bytes start .. stop - 1."""
        self._check(slots, (*STATE, "images", "label"))
        self._check_labels(slots["label"])
        if start == stop or not self._are_steps(start, stop):
            raise ValueError(f"cannot read bytes {start} to {stop} of images of {self.bytes} bytes")
        count = len(slots["position"])
        length = stop - start
        _check_tensor("bits", bits, torch.float64, (count, length))
        if parameters is not None:
            steps = length // self.step_bytes
            _check_tensor("parameters", parameters, torch.float32, (count, steps, self.parameters))
        if intervals is not None:
            _check_tensor("intervals", intervals, torch.int32, (count, length, 2))

    def check_following(
        self, parameters: Tensor, without: Tensor | None, at: int, length: int
    ) -> None:
        """Raise ValueError where `follow` cannot draw `length` bytes from `at` on."""
        stop = at + length
        if not self._are_steps(at, stop):
            raise ValueError(f"cannot draw bytes {at} to {stop} of images of {self.bytes} bytes")
        size = (length // self.step_bytes, self.parameters)
        _check_tensor("parameters", parameters, torch.float32, size)
        if without is not None:
            _check_tensor("without", without, torch.float32, size)

    def _are_steps(self, start: int, stop: int) -> bool:
        """Return whether the bytes start .. stop - 1 are those of whole steps."""
        whole = (start - self.first) % self.step_bytes == 0 and (
            stop - start
        ) % self.step_bytes == 0
        return whole and self.first <= start <= stop <= self.bytes

    def check_copying(self, slots: Arrays, sources: Tensor, targets: Tensor) -> None:
        """Raise ValueError where there are no such slots to copy."""
        self._check(slots, (*STATE, "images", "bits"))
        count = len(slots["position"])
        for name, numbers in (("sources", sources), ("targets", targets)):
            _check_tensor(name, numbers, torch.int64, (len(sources),))
            if _any_outside(numbers, count):
                raise ValueError(f"{name} must be from 0 to {count - 1}")

    def _check_guided(self, slots: Arrays) -> None:
        """Raise ValueError where the two slots of a guided image that is
        in flight do not fit each other.
        """
        partner = slots["partner"]
        position = slots["position"]
        has_class = slots["label"] != 0
        is_guided = (partner != 0) & (position < self.bytes)
        rows = is_guided.nonzero().flatten()
        if not len(rows):
            return
        others = rows + partner[rows]
        if _any_outside(others, len(partner)):
            raise ValueError(f"a partner must be from slot 0 to {len(partner) - 1}")
        fits = partner[others] == -partner[rows]
        fits &= position[others] == position[rows]
        fits &= has_class[others] != has_class[rows]
        if not bool(fits.all()):
            raise ValueError("guided images need two slots at one position, one without a class")

    def _check(self, slots: Arrays, names: tuple[str, ...]) -> None:
        if set(slots) != set(names):
            raise ValueError(f"the slots must have {', '.join(names)}, not {', '.join(slots)}")
        b = slots["position"].numel()
        z = (self.layers, b, self.heads, self.key_width)
        _check_tensor("s", slots["s"], torch.float32, (*z, self.value_width))
        _check_tensor("z", slots["z"], torch.float32, z)
        _check_tensor("conv_state", slots["conv_state"], torch.float32, self.conv_state(b))
        _check_tensor("images", slots["images"], torch.uint8, (b, self.bytes))
        if "known" in slots:
            known = slots["known"]
            _check_tensor("known", known, known.dtype, (b, self.bytes))
            if known.dtype not in (torch.bool, torch.uint8):
                raise ValueError(f"known must be of type bool or uint8, not {known.dtype}")
        if "code" in slots:
            code = slots["code"]
            _check_tensor("code", code, torch.uint8, (b, *code.shape[1:2]))
        for name in names:
            if name not in WIDE:
                _check_tensor(name, slots[name], TYPES.get(name, torch.int64), (b,))

    def _check_labels(self, labels: Tensor) -> None:
        if self.classes and _any_outside(labels, self.classes + 1):
            raise ValueError(f"a label must be from 0 to {self.classes}")


def _check_codes(at: Tensor, value: Tensor, range_: Tensor, partner: Tensor) -> None:
    """Raise ValueError where a slot's code is not that of a decoder."""
    has_code = range_ != 0
    fits = (range_ >= MIN_RANGE) & (range_ <= WHOLE)
    fits &= (value >= 0) & (value < range_)
    fits &= (at >= 0) & (partner == 0)
    if bool((has_code & ~fits).any()):
        raise ValueError(
            "a code has a range from 2^40 to 2^48, a value below it, and no guided image"
        )


def _any_outside(numbers: Tensor, stop: int) -> bool:
    """Return whether one of the numbers is not from 0 to stop - 1."""
    return bool(((numbers < 0) | (numbers >= stop)).any())


def _check_tensor(name: str, tensor: Tensor, dtype: torch.dtype, size: tuple[int, ...]) -> None:
    if tensor.dtype != dtype or tensor.shape != size:
        raise ValueError(
            f"{name} must be {list(size)} of {dtype}, not {list(tensor.shape)} of {tensor.dtype}"
        )
    if not tensor.is_contiguous() or tensor.device.type != "cpu":
        raise ValueError(f"{name} must be contiguous and in the processor's memory")
