"""The native library through ctypes, which lets go of the interpreter's lock for the length of a call."""

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

_i64, _pointer = ctypes.c_int64, ctypes.c_void_p
WEIGHTS = {"float32": 0, "float16": 1, "int8": 2}
INT8_INSTRUCTION_SETS = ("avx512vnni",)
STATE = {torch.float32: 0, torch.float16: 1}


class Shape(ctypes.Structure):
    """Sizes and choices of a network, as in step.h."""

    _fields_ = (
        *((name, _i64) for name in ("height", "width", "channels", "layers", "heads", "key_width", "value_width")),
        *((name, _i64) for name in ("feed_forward", "components", "tables")),
        ("offsets", ctypes.POINTER(_i64)),
        *((name, _i64) for name in ("first", "pre_norm", "gelu", "concat", "axial", "exp_scale", "anchor_numbers")),
    )


class _Precision(ctypes.Structure):
    _fields_ = (("weights", _i64), ("state", _i64))


class _Seats(ctypes.Structure):
    _fields_ = (
        ("rows", _i64),
        *((name, _pointer) for name in ("s", "z", "position", "images", "known", "bits", "seed", "index")),
        ("temperature", _pointer),
    )


class Network:
    """A network in native memory: its weights are copied when it is made, and given back by `close`."""

    def __init__(
        self,
        shape: Shape,
        tensors: Sequence[torch.Tensor],
        weights: str = "float32",
        state: torch.dtype = torch.float32,
        threads: int = 1,
        isa: str | None = None,
    ) -> None:
        """tensors, float32: value tables [tables x rows, D or D/2]; rows, columns and (colour) channels of the
        position, or its waves [N, .]; for each layer the weight and bias of query-key-value, attention out,
        feed-forward in and out, then of its two norms; those of the last norm and of the head.

        weights: how they are held, of WEIGHTS. state: how s rests, of STATE. isa: one of instruction_sets().
        """
        library, self.isa = _library(), isa or instruction_sets()[0]
        self._state = state
        if weights == "int8" and self.isa not in INT8_INSTRUCTION_SETS:
            raise ValueError(f"int8 weights need a processor with AVX-512 VNNI; this one runs {self.isa}")
        held = [tensor.detach().float().contiguous() for tensor in tensors]
        pointers = (_pointer * len(held))(*(tensor.data_ptr() for tensor in held))
        precision = _Precision(WEIGHTS[weights], STATE[state])
        self._network = library.scanline_create(
            ctypes.byref(shape), pointers, precision, max(1, threads), self.isa.encode()
        )
        if not self._network:
            raise ValueError(f"this processor cannot run {self.isa!r}; it can run {', '.join(instruction_sets())}")

    def advance(self, seats: dict[str, torch.Tensor], steps: int) -> None:
        """Paints up to `steps` bytes of every row whose position is below N; seats: as in step.h, changed IN PLACE."""
        _library().scanline_advance(self._network, ctypes.byref(self._seats(seats)), steps)

    def read(
        self, seats: dict[str, torch.Tensor], start: int, stop: int, bits: torch.Tensor, parameters: torch.Tensor | None
    ) -> None:
        """Runs known bytes start..stop-1 of every row; bits [B, n] float64 and parameters [B, n, 3K] are written."""
        found = None if parameters is None else parameters.data_ptr()
        _library().scanline_read(
            self._network, ctypes.byref(self._seats(seats)), start, stop, _pointer(bits.data_ptr()), _pointer(found)
        )

    def close(self) -> None:
        """Gives memory and threads back; nothing may be called afterwards."""
        if self._network:
            _library().scanline_destroy(self._network)
            self._network = None

    def __del__(self) -> None:
        if getattr(self, "_network", None):
            self.close()

    def _seats(self, tensors: dict[str, torch.Tensor]) -> _Seats:
        assert all(tensor.is_contiguous() and tensor.device.type == "cpu" for tensor in tensors.values())
        assert tensors["s"].dtype == self._state
        assert tensors["z"].dtype == torch.float32
        return _Seats(
            rows=len(tensors["position"]), **{name: _pointer(tensor.data_ptr()) for name, tensor in tensors.items()}
        )


def available() -> bool:
    """Whether the library was compiled at install and can be loaded."""
    return _found() is not None


def instruction_sets() -> list[str]:
    """The instruction sets that this processor has and the library was compiled for, best first."""
    found: bytes = _library().scanline_ways()
    return found.decode().split()


@cache
def _found() -> Any:
    for file in sorted(Path(__file__).parent.glob("_step*.so")):
        try:
            library = ctypes.CDLL(str(file))
        except OSError:  # compiled for another machine
            continue
        library.scanline_ways.restype = ctypes.c_char_p
        library.scanline_create.restype = _pointer
        library.scanline_create.argtypes = [_pointer, _pointer, _Precision, _i64, ctypes.c_char_p]
        library.scanline_destroy.argtypes = [_pointer]
        library.scanline_advance.argtypes = [_pointer, _pointer, _i64]
        library.scanline_read.argtypes = [_pointer, _pointer, _i64, _i64, _pointer, _pointer]
        library.scanline_destroy.restype = library.scanline_advance.restype = library.scanline_read.restype = None
        return library
    return None


def _library() -> Any:
    library = _found()
    assert library is not None, "the native library was not compiled"
    return library
