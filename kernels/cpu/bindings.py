"""The CPU kernel's library through ctypes, which releases the interpreter's lock during a call.

Mirrors abi.h. A library compiled from another version of it is never called: its file name carries
the version, and its scanline_abi() is compared when it is loaded.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from scanline.kernels.cpu.shape import CODES, Arrays, Shape

# Raised with every change of abi.h, of the order of the tensors or of any bit of
# the results; setup.py reads it here.
ABI = 14
# raised with every change of a bit of the parameters: codes of images are then no longer read
ARITHMETIC = 10
LIBRARY = Path(__file__).with_name(f"_step.abi{ABI}.so")
WEIGHT_TYPES = {"float32": 0, "float16": 1, "int8": 2}
MAX_THREADS = 1024

_i64 = ctypes.c_int64
_f32 = ctypes.c_float
_pointer = ctypes.c_void_p


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", _pointer),
        ("size", _i64),
    )


class _Codes(ctypes.Structure):
    _fields_ = (
        ("width", _i64),
        ("code", _pointer),
        ("at", _pointer),
        ("value", _pointer),
        ("range", _pointer),
    )


class _Slots(ctypes.Structure):
    _fields_ = (
        ("count", _i64),
        ("s", _pointer),
        ("z", _pointer),
        ("conv_state", _pointer),
        ("position", _pointer),
        ("images", _pointer),
        ("known", _pointer),
        ("bits", _pointer),
        ("seed", _pointer),
        ("index", _pointer),
        ("temperature", _pointer),
        ("label", _pointer),
        ("known_bits", _pointer),
        ("partner", _pointer),
        ("guidance", _pointer),
        ("codes", ctypes.POINTER(_Codes)),
    )


class _Ahead(ctypes.Structure):
    _fields_ = (
        ("stop", _pointer),
        ("widest", _i64),
        ("passes", _i64),
        ("computed", _i64),
        ("painted", _i64),
        ("wrong", _i64),
    )


@dataclass(frozen=True)
class Passes:
    """What a call has done, an image with two slots being one."""

    passes: int  # of images
    computed: int  # the steps of all images in them
    painted: int  # of these: the others followed a wrong guess
    wrong: int  # guesses


class Network:
    """A network in the library's memory: its weights are copied when
    it is made, and freed by `close`.
    """

    def __init__(
        self,
        shape: Shape,
        tensors: Sequence[Tensor],
        weights: str = "float32",
        threads: int = 1,
        isa: str | None = None,
    ) -> None:
        """tensors, where a step reads a byte: value table [rows, D or D/2]; rows, columns and (if
        there are several) channels of the position, or its waves [N, .]. Where it reads a window:
        the wave table [256, 2 waves] if there are waves; weight and bias of the input; rows and
        columns; for each block weight and bias of its norm, its expansion and its contraction,
        the weight [NEIGHBOURS, D] of its causal convolution if there is one, and the biases [1 +
        classes, .] of labels in its expansion if there are such. Then, for each layer, the weight
        and bias of query-key-value, attention out, feed-forward in and out, then of its two
        norms, the weight of its convolution, and the labels' biases in its feed-forward; those of
        the last norm and of the head; those of the skip if there is one; the vectors [1 +
        classes, D] of labels if there are classes.

        weights: how matrices are stored, one of WEIGHT_TYPES. isa: one of
        instruction_sets(), by default the best. Raises ValueError if this processor cannot
        run that, or if the tensors are not those that the shape needs; MemoryError if there
        is no memory for it.
        """
        available_sets = instruction_sets()
        self.process = os.getpid()  # whose threads it has
        self.isa = isa or available_sets[0]
        self.shape = shape
        if self.isa not in available_sets:
            raise ValueError(
                f"this processor cannot run {self.isa!r}; it can run {', '.join(available_sets)}"
            )
        if weights not in WEIGHT_TYPES:
            raise ValueError(f"weights are stored as {', '.join(WEIGHT_TYPES)}, not {weights!r}")
        if not 1 <= threads <= MAX_THREADS:
            raise ValueError(f"threads must be from 1 to {MAX_THREADS}, not {threads}")
        # `contiguous` owns the memory that the pointers name until the library has copied it.
        contiguous = [tensor.detach().float().contiguous() for tensor in tensors]
        count = len(contiguous)
        structs = (_Tensor * count)(
            *(_Tensor(tensor.data_ptr(), tensor.numel()) for tensor in contiguous)
        )
        self._network = _library().scanline_create(
            ctypes.byref(shape), structs, count, WEIGHT_TYPES[weights], threads, self.isa.encode()
        )
        if not self._network:
            reason = ctypes.get_errno()
            if reason == errno.ENOMEM:
                raise MemoryError(f"there is no memory for a network with {threads} threads")
            # EINVAL is left to the tensors, as the instruction set was
            # checked; other numbers are the system's.
            if reason == errno.EINVAL:
                raise ValueError(
                    f"number or sizes of the {count} tensors are not those the shape needs"
                )
            raise ValueError(f"the system does not start {threads} threads")

    def advance(
        self,
        slots: "Arrays | CheckedSlots",
        passes: int,
        chosen: np.ndarray | None = None,
        *,
        widest: int = 1,
        stop: np.ndarray | None = None,
    ) -> Passes:
        """Run up to `passes` passes of those of the slots `chosen` [n] int64, by default all, whose
        position is below N and their `stop` [B] int64; slots: as in abi.h, changed IN PLACE. Of a
        guided image both slots are chosen, with one stop.

        A pass paints an image's next step, and with guesses up to `widest` steps; 0: as many as are
        worth their cost. The bytes and states are the same whatever it is."""
        checked = slots if isinstance(slots, CheckedSlots) else CheckedSlots(self.shape, slots)
        count = checked.struct.count
        if chosen is None:
            chosen = np.arange(count)
        chosen = np.ascontiguousarray(chosen, np.int64)
        ahead = _Ahead(widest=max(0, widest))
        if stop is not None:
            stop = np.ascontiguousarray(stop, np.int64)
            if stop.shape != (count,):
                raise ValueError(f"stop must be [{count}], not {list(stop.shape)}")
            ahead.stop = stop.ctypes.data
        error = _library().scanline_advance(
            self._open(),
            ctypes.byref(checked.struct),
            chosen.ctypes.data_as(_pointer),
            len(chosen),
            passes,
            ctypes.byref(ahead),
        )
        if error:
            self.shape.check_numbers(checked.arrays)
            raise ValueError(f"slots must be from 0 to {count - 1}")
        return Passes(ahead.passes, ahead.computed, ahead.painted, ahead.wrong)

    def read(
        self,
        slots: Arrays,
        start: int,
        stop: int,
        bits: Tensor,
        parameters: Tensor | None = None,
        intervals: Tensor | None = None,
    ) -> None:
        """Run known bytes start..stop-1 of every slot, n whole steps. Write their bits [B, stop
        - start] float64, the parameters [B, n, P] float32, and start and width of their
        intervals [B, stop - start, 2] int32."""
        self.shape.check_reading(slots, start, stop, bits, parameters, intervals)
        results = [_address(tensor) for tensor in (bits, parameters, intervals)]
        _library().scanline_read(self._open(), ctypes.byref(_slots(slots)), start, stop, *results)

    def follow(
        self,
        parameters: Tensor,
        without: Tensor | None,
        path: bytes,
        *,
        seed: int,
        index: int,
        position: int,
        temperature: float,
        guidance: float = 1.0,
    ) -> tuple[int, bytes]:
        """Draw an image's steps from `position` on from parameters [n, P] float32, as long as their
        bytes are those of `path`; without: of a guided image the parameters of label 0. Return the
        number of these steps, and the bytes of the next one, where it has others."""
        self.shape.check_following(parameters, without, position, len(path))
        drawn = ctypes.create_string_buffer(self.shape.step_bytes)
        steps = _library().scanline_follow(
            self._open(),
            parameters.data_ptr(),
            _address(without),
            path,
            len(parameters),
            seed,
            index,
            position,
            temperature,
            guidance,
            drawn,
        )
        return steps, drawn.raw

    def copy_slots(self, slots: Arrays, sources: Tensor, targets: Tensor) -> None:
        """Copy state, image and bits of slots `sources` [n] int64 to slots `targets` [n], IN PLACE;
        no target is the source of another slot."""
        self.shape.check_copying(slots, sources, targets)
        _library().scanline_copy_slots(
            self._open(),
            ctypes.byref(_slots(slots)),
            sources.data_ptr(),
            targets.data_ptr(),
            len(sources),
        )

    def _open(self) -> int:
        if not self._network:
            raise ValueError("the network is closed")
        if self.process != os.getpid():
            raise ValueError(
                f"the network's threads are those of process {self.process}: load the model after a fork"
            )
        return int(self._network)

    def close(self) -> None:
        """Free memory and threads; a later call of `advance` or `read` raises ValueError.

        In a fork of the process that made it there is nothing to free: the threads are not there.
        """
        if self._network and self.process == os.getpid():
            _library().scanline_destroy(self._network)
        self._network = None

    def __del__(self) -> None:
        if getattr(self, "_network", None):
            self.close()


class CheckedSlots:
    """Slots to paint, whose arrays are checked once and stay where they are."""

    def __init__(self, shape: Shape, arrays: Arrays) -> None:
        """arrays: as in abi.h. Raises ValueError where they are not those that the shape needs."""
        shape.check_painting(arrays)
        self.arrays = arrays
        self.struct = _slots(arrays)


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _slots(tensors: Arrays) -> _Slots:
    slots = _Slots(count=len(tensors["position"]))
    for name, tensor in tensors.items():
        if name not in CODES:
            setattr(slots, name, tensor.data_ptr())
    if "code" in tensors:
        codes = _Codes(
            width=tensors["code"].shape[1],
            code=tensors["code"].data_ptr(),
            at=tensors["code_at"].data_ptr(),
            value=tensors["code_value"].data_ptr(),
            range=tensors["code_range"].data_ptr(),
        )
        slots.codes = ctypes.pointer(codes)
    return slots


def available() -> bool:
    """Return whether the library exists and fits this version."""
    return unavailable_reason() is None


def unavailable_reason() -> str | None:
    """Return why the library cannot be used, in words for a log; None if it can."""
    loaded = _load()
    return loaded if isinstance(loaded, str) else None


def instruction_sets() -> list[str]:
    """Return the instruction sets that this processor has and the
    library was compiled for, best first.
    """
    names: bytes = _library().scanline_isas()
    return names.decode().split()


@cache
def _load() -> ctypes.CDLL | str:
    """Return the library, or why it cannot be used."""
    if not LIBRARY.exists():
        others = [file.name for file in sorted(LIBRARY.parent.glob("_step*.so"))]
        if others:
            return f"the cpu kernel was compiled by another version ({', '.join(others)}), install it again"
        return "the cpu kernel was not compiled at install (no C++ compiler?)"
    try:
        _check_complete(LIBRARY.read_bytes())
        library = ctypes.CDLL(str(LIBRARY), use_errno=True)
        library.scanline_abi.restype = _i64
        compiled = library.scanline_abi()
        expected = expected_abi()
    # another machine's library, half a file, or another library
    except (OSError, AttributeError) as error:
        return f"the cpu kernel cannot be loaded ({error}), install it again"
    if compiled != expected:
        return f"the cpu kernel {LIBRARY.name} has ABI {compiled:#x} instead of {expected:#x}, install it again"
    library.scanline_isas.restype = ctypes.c_char_p
    library.scanline_create.restype = _pointer
    library.scanline_create.argtypes = [_pointer, _pointer, _i64, _i64, _i64, ctypes.c_char_p]
    library.scanline_destroy.argtypes = [_pointer]
    library.scanline_advance.argtypes = [_pointer, _pointer, _pointer, _i64, _i64, _pointer]
    library.scanline_advance.restype = _i64
    library.scanline_read.argtypes = [_pointer, _pointer, _i64, _i64, _pointer, _pointer, _pointer]
    library.scanline_copy_slots.argtypes = [_pointer, _pointer, _pointer, _pointer, _i64]
    library.scanline_follow.argtypes = [
        _pointer,
        _pointer,
        _pointer,
        ctypes.c_char_p,
        _i64,
        _i64,
        _i64,
        _i64,
        _f32,
        _f32,
        _pointer,
    ]
    library.scanline_follow.restype = _i64
    for name in ("destroy", "read", "copy_slots"):
        getattr(library, f"scanline_{name}").restype = None
    return library


def expected_abi() -> int:
    """Return what scanline_abi() must return: the version mixed
    with the sizes of the structs above.
    """
    abi = ABI
    abi |= ctypes.sizeof(Shape) << 16
    abi |= ctypes.sizeof(_Slots) << 32
    abi |= (ctypes.sizeof(_Tensor) + ctypes.sizeof(_Ahead)) << 48
    return abi


def _check_complete(elf: bytes) -> None:
    """Raise OSError if an ELF file ends before its segments do: the loader maps
    them unchecked and dies of SIGBUS.
    """
    if elf[:5] != b"\x7fELF\x02":
        return  # the loader refuses what it does not know
    try:
        (table,) = struct.unpack_from("<Q", elf, 32)
        entry, count = struct.unpack_from("<HH", elf, 54)
        segments = [struct.unpack_from("<IIQQQQQQ", elf, table + i * entry) for i in range(count)]
    except struct.error:
        raise OSError("the file is truncated") from None
    if any(offset + size > len(elf) for _, _, offset, _, _, size, _, _ in segments):
        raise OSError("the file is truncated")


def _library() -> Any:
    loaded = _load()
    assert not isinstance(loaded, str), loaded
    return loaded
