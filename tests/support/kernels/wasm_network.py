"""The kernel's WebAssembly module (kernels/cpu/wasm) in wasmtime, called as cpu_kernels.Network
is: arrays are copied into the module's memory for a call, and back after it."""

import atexit
import ctypes
import time
from functools import cache
from importlib.util import find_spec

import numpy as np
import torch

from scanline.kernels.cpu import bindings
from scanline.kernels.cpu.shape import CODES, Shape

# beside the library: one that is compiled elsewhere, with a sanitizer, is tested alone
MODULE = bindings.LIBRARY.parent / "wasm" / "step.wasm"
IS_INSTALLED = find_spec("wasmtime") is not None and MODULE.is_file()


def _narrow(struct):
    """Return the struct as it is where a pointer has four bytes."""
    fields = []
    for name, kind in struct._fields_:
        is_whole = kind is ctypes.c_int64
        fields.append((name, kind if is_whole else ctypes.c_uint32))
    return type(struct.__name__, (ctypes.Structure,), {"_fields_": fields})


Tensor = _narrow(bindings._Tensor)
Codes = _narrow(bindings._Codes)
Slots = _narrow(bindings._Slots)
Ahead = _narrow(bindings._Ahead)


def expected_abi():
    """What scanline_abi() of the module must return."""
    abi = bindings.ABI
    abi |= ctypes.sizeof(Shape) << 16
    abi |= ctypes.sizeof(Slots) << 32
    abi |= (ctypes.sizeof(Tensor) + ctypes.sizeof(Ahead)) << 48
    return abi


@cache
def compiled(path):
    import wasmtime

    engine = wasmtime.Engine()
    return engine, wasmtime.Module.from_file(engine, str(path))


# before the interpreter ends, and with it what frees the module
atexit.register(compiled.cache_clear)


class Instance:
    """The module with a memory of its own."""

    def __init__(self, path=MODULE):
        import wasmtime

        engine, module = compiled(path)
        self.store = wasmtime.Store(engine)
        kinds = [wasmtime.ValType.i32(), wasmtime.ValType.i64(), wasmtime.ValType.i32()]
        clock_type = wasmtime.FuncType(kinds, [wasmtime.ValType.i32()])
        clock = wasmtime.Func(self.store, clock_type, self.write_time)
        instance = wasmtime.Instance(self.store, module, [clock])
        self.exports = instance.exports(self.store)
        self.memory = self.exports["memory"]
        self.call("_initialize")

    def call(self, name, *arguments):
        return self.exports[name](self.store, *arguments)

    def write_time(self, _clock, _precision, place):
        now = np.int64(time.monotonic_ns())
        self.memory.write(self.store, now.tobytes(), place)
        return 0

    def read(self, place, size):
        return self.memory.read(self.store, place, place + size)


class Call:
    """What is in the module's memory for the length of a call."""

    def __init__(self, instance):
        self.instance = instance
        self.allocated = []
        self.places = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for place in self.allocated:
            self.instance.call("free", place)

    def put(self, data):
        """Copy bytes, a ctypes struct or a contiguous array; return where they are."""
        raw = bytes(data)
        place = self.instance.call("malloc", max(len(raw), 1)) & 0xFFFFFFFF
        self.instance.memory.write(self.instance.store, raw, place)
        self.allocated.append(place)
        return place

    def put_tensor(self, tensor):
        """The same of a tensor, which `fetch` copies back; None is a null pointer."""
        if tensor is None:
            return 0
        place = self.put(tensor.contiguous().numpy().tobytes())
        self.places[place] = tensor
        return place

    def put_slots(self, arrays):
        slots = Slots(count=len(arrays["position"]))
        for name, tensor in arrays.items():
            if name not in CODES:
                setattr(slots, name, self.put_tensor(tensor))
        if "code" in arrays:
            codes = Codes(width=arrays["code"].shape[1])
            for field, name in zip(("code", "at", "value", "range"), CODES, strict=True):
                setattr(codes, field, self.put_tensor(arrays[name]))
            slots.codes = self.put(codes)
        return self.put(slots)

    def fetch(self):
        """Copy all tensors back, as the call may have changed them."""
        for place, tensor in self.places.items():
            array = tensor.numpy()
            raw = self.instance.read(place, array.nbytes)
            array[...] = np.frombuffer(raw, array.dtype).reshape(array.shape)


class WasmNetwork:
    """cpu_kernels.Network, run by the module with one thread."""

    def __init__(self, shape, tensors, weights="float32", threads=1, isa=None):
        self.shape = shape
        self.isa = "wasm"
        self.instance = Instance()
        with Call(self.instance) as call:
            structs = b""
            for tensor in tensors:
                values = tensor.detach().float()
                structs += bytes(Tensor(call.put_tensor(values), values.numel()))
            self.network = self.instance.call(
                "scanline_create",
                call.put(shape),
                call.put(structs),
                len(tensors),
                bindings.WEIGHT_TYPES[weights],
                1,
                self.instance.call("scanline_isas"),
            )

    def advance(self, slots, passes, chosen=None, *, widest=1, stop=None):
        is_checked = isinstance(slots, bindings.CheckedSlots)
        arrays = slots.arrays if is_checked else bindings.CheckedSlots(self.shape, slots).arrays
        count = len(arrays["position"])
        rows = np.arange(count) if chosen is None else chosen
        chosen_rows = np.ascontiguousarray(rows, np.int64)
        with Call(self.instance) as call:
            ahead = Ahead(widest=widest)
            if stop is not None:
                ahead.stop = call.put(np.ascontiguousarray(stop, np.int64).tobytes())
            place = call.put(ahead)
            error = self.instance.call(
                "scanline_advance",
                self.network,
                call.put_slots(arrays),
                call.put(chosen_rows.tobytes()),
                len(chosen_rows),
                passes,
                place,
            )
            assert not error
            call.fetch()
            done = Ahead.from_buffer_copy(self.instance.read(place, ctypes.sizeof(Ahead)))
        return bindings.Passes(done.passes, done.computed, done.painted, done.wrong)

    def read(self, slots, start, stop, bits, parameters=None, intervals=None):
        self.shape.check_reading(slots, start, stop, bits, parameters, intervals)
        with Call(self.instance) as call:
            places = [call.put_tensor(tensor) for tensor in (bits, parameters, intervals)]
            self.instance.call(
                "scanline_read", self.network, call.put_slots(slots), start, stop, *places
            )
            call.fetch()

    def read_layers(self, slots, start, stop, depth):
        """What goes into the layers, and comes out of the first `depth`: [depth + 1, B, n, D]."""
        steps = (stop - start) // self.shape.step_bytes
        width = self.shape.heads * self.shape.value_width
        outputs = torch.empty(depth + 1, len(slots["position"]), steps, width)
        with Call(self.instance) as call:
            place = call.put_tensor(outputs)
            self.instance.call(
                "scanline_read_layers",
                self.network,
                call.put_slots(slots),
                start,
                stop,
                depth,
                place,
            )
            call.fetch()
        return outputs

    def follow(
        self, parameters, without, path, *, seed, index, position, temperature, guidance=1.0
    ):
        self.shape.check_following(parameters, without, position, len(path))
        with Call(self.instance) as call:
            drawn = call.put(bytes(self.shape.step_bytes))
            steps = self.instance.call(
                "scanline_follow",
                self.network,
                call.put_tensor(parameters),
                call.put_tensor(without),
                call.put(path),
                len(parameters),
                seed,
                index,
                position,
                temperature,
                guidance,
                drawn,
            )
            return steps, bytes(self.instance.read(drawn, self.shape.step_bytes))

    def copy_slots(self, slots, sources, targets):
        self.shape.check_copying(slots, sources, targets)
        with Call(self.instance) as call:
            self.instance.call(
                "scanline_copy_slots",
                self.network,
                call.put_slots(slots),
                call.put_tensor(sources),
                call.put_tensor(targets),
                len(sources),
            )
            call.fetch()

    def close(self):
        self.instance.call("scanline_destroy", self.network)
