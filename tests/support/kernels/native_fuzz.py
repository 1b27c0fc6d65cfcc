"""Random networks, slots and arguments for the CPU kernel, many of them with
numbers that are not finite or denormal.

Whatever the numbers are, a call ends, and the bytes depend neither on threads nor on how
many steps a call or a pass runs. Built with sanitizers (tests/kernels/cpu/sanitize.py) every
access to memory is checked as well.
"""

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.kernels.codec import coder
from scanline.kernels.cpu.shape import STATE
from tests.support.kernels import native_vectors
from tests.support.kernels.native_vectors import CATEGORICAL, Arrays, Case

ODD = [
    float("nan"),
    float("inf"),
    float("-inf"),
    0.0,
    -0.0,
    1e-45,
    -1e-40,
    1e-38,
    3e38,
    -3e38,
    1e20,
    65520.0,
]
WHOLE = [
    -(2**63),
    -(2**31),
    -1,
    0,
    1,
    2,
    3,
    255,
    256,
    2**16,
    2**16 + 1,
    2**20,
    2**31,
    2**62,
    2**63 - 1,
]
Random = np.random.Generator


def random_case(random):
    """A network of any shape that there is, with few weights."""

    def one_of(*values):
        return int(random.choice(values))

    fields = {
        **{name: one_of(0, 1) for name in ("pre_norm", "gelu", "exp_scale")},
        "height": one_of(1, 2, 3, 5, 9),
        "width": one_of(1, 2, 4, 7, 11),
        "channels": one_of(1, 1, 2, 3, 4),
        "layers": one_of(1, 1, 2, 3),
        "heads": one_of(1, 2, 3, 5),
        "key_width": one_of(1, 3, 8, 16, 17, 33),
        "value_width": one_of(1, 2, 7, 16, 31, 32, 48),
        "feed_forward": one_of(1, 5, 32, 33, 70),
        "components": one_of(1, 2, 3, 10, 16, 17),
    }
    even = fields["heads"] * fields["value_width"] % 2 == 0
    if random.random() < 0.5:
        fields |= {"predicts": one_of(0, CATEGORICAL), "first": one_of(0, 1), "axial": one_of(0, 1)}
        fields |= {"concat": one_of(0, 1) if even else 0}
        # a byte to predict
        fields["width"] += fields["height"] * fields["width"] * fields["channels"] == 1
    else:
        rows = one_of(0, 1, 2, 4)
        columns = one_of(1, 2, 5)
        fields |= {
            "reads": 1,
            "window_rows": rows,
            "window_columns": columns,
            "centred": one_of(0, 1),
        }
        fields |= {
            "outside": one_of(0, 128, 255),
            "blocks": one_of(0, 1, 2),
            "block_width": one_of(1, 13, 40),
        }
        fields |= {
            "waves": one_of(0, 1, 8),
            "wave_rows": one_of(0, rows),
            "wave_columns": one_of(0, 1, columns),
        }
        fields["causal_conv"] = one_of(0, 1)
        fields["predicts"] = 0 if fields["channels"] > 1 else one_of(0, CATEGORICAL)
        fields["skip"] = 0 if fields["predicts"] == CATEGORICAL else one_of(0, 1)
        fields["step_bytes"] = fields["channels"]
    fields["classes"] = one_of(0, 0, 1, 7)
    return Case(
        fields,
        str(random.choice(["float32", "float16", "int8"])),
        images=one_of(
            1,
            2,
            3,
            5,
            45,
        ),
    )


def sprinkle(tensor, random, share):
    """A copy in which a share of the numbers is replaced by ODD ones."""
    found = tensor.clone()
    chosen = torch.from_numpy(random.random(tuple(tensor.shape)) < share)
    found[chosen] = torch.from_numpy(random.choice(ODD, int(chosen.sum()))).to(found.dtype)
    return found


def random_slots(case, random, share):
    """Slots at any positions, some empty, with any seeds, temperatures, masks and states."""
    shape = case.shape()
    slots = native_vectors.slots(case)
    steps = (shape.bytes - shape.first) // shape.step_bytes
    at = shape.first + shape.step_bytes * random.integers(0, steps + 1, case.images)
    slots["position"] = torch.from_numpy(at)
    slots["known"] = torch.from_numpy(random.random((case.images, shape.bytes)) < random.random())
    for name in ("s", "z", "conv_state"):
        slots[name] = sprinkle(
            torch.from_numpy(random.random(tuple(slots[name].shape), np.float32)), random, share
        )
    slots["temperature"] = sprinkle(slots["temperature"], random, share)
    if shape.classes and random.random() < 0.5:
        _guide(slots, random, share)
    if random.random() < 0.3:
        _encode(slots, random)
    return slots


def _encode(slots, random):
    """Give codes of random bytes to some of the slots that are not guided, IN PLACE."""
    count = len(slots["label"])
    width = int(random.integers(0, 40))
    chosen = torch.from_numpy(random.random(count) < 0.5) & (slots["partner"] == 0)
    range_ = torch.from_numpy(random.integers(coder.MIN_RANGE, coder.WHOLE + 1, count))
    slots["code"] = torch.from_numpy(random.integers(0, 256, (count, width), np.uint8))
    slots["code_at"] = torch.from_numpy(random.integers(0, width + 3, count))
    slots["code_value"] = torch.from_numpy(random.integers(0, range_.numpy()))
    slots["code_range"] = range_ * chosen
    slots["known"][chosen] = 0


def _guide(slots, random, share):
    """Make pairs of slots, any two of them, those of guided images, IN PLACE."""
    count = len(slots["label"])
    chosen = random.permutation(count)[: int(random.integers(0, count // 2 + 1)) * 2]
    slots["guidance"] = sprinkle(
        torch.from_numpy(random.random(count, np.float32) * 10), random, share
    )
    for one, other in chosen.reshape(-1, 2).tolist():
        slots["partner"][one], slots["partner"][other] = other - one, one - other
        slots["label"][one], slots["label"][other] = 1, 0
        for name in ("position", "images", "known", "seed", "index", "temperature", "guidance"):
            slots[name][other] = slots[name][one]


@dataclass
class Call:
    case: Case
    tensors: list[torch.Tensor]
    slots: Arrays
    isa: str

    def paint(self, threads, passes, widths=(1,)):
        """The slots' arrays after calls of so many passes each, of images
        that have up to `widths` steps in a pass, in turn.
        """
        slots = {name: tensor.clone() for name, tensor in self.slots.items()}
        network = native_vectors.open_network(self.case, self.tensors, self.isa, threads)
        for call, count in enumerate(passes):
            network.advance(slots, count, widest=widths[call % len(widths)])
        network.close()
        return {name: tensor.numpy() for name, tensor in slots.items()}

    def read(self, threads, stop):
        """Bits, parameters and states after the known bytes up to `stop`."""
        shape = self.case.shape()
        count = self.case.images
        slots = {name: self.slots[name].clone() for name in (*STATE, "images", "label")}
        bits = torch.zeros(count, stop - shape.first, dtype=torch.float64)
        parameters = torch.zeros(count, bits.shape[1] // shape.step_bytes, shape.parameters)
        network = native_vectors.open_network(self.case, self.tensors, self.isa, threads)
        intervals = torch.zeros(*bits.shape, 2, dtype=torch.int32)
        network.read(slots, shape.first, stop, bits, parameters, intervals)
        network.close()
        written = {"bits": bits, "parameters": parameters, "intervals": intervals}
        return {name: tensor.numpy() for name, tensor in (slots | written).items()}


def random_call(random, odd):
    """odd: with numbers that are not finite, denormal or huge among
    weights, states and temperatures.
    """
    case = random_case(random)
    share = float(random.choice([0.001, 0.02, 0.3])) if odd else 0.0
    tensors = native_vectors.tensors(case)
    if random.random() < 0.5:  # flat images, of which the next bytes can be guessed
        tensors = native_vectors.with_favourite(case, tensors)
    tensors = [sprinkle(tensor, random, share) for tensor in tensors]
    return Call(
        case,
        tensors,
        random_slots(case, random, share),
        str(random.choice(native_vectors.ISAS)),
    )


def different(one, other):
    """The arrays that differ; NaN equals NaN."""
    equal = {
        name: np.array_equal(one[name], other[name], equal_nan=one[name].dtype.kind == "f")
        for name in one
    }
    return [name for name in one if not equal[name]]


def check_painting(random, odd):
    """Random calls of random numbers of passes on several threads leave
    what one call of single steps on one thread does.
    """
    call = random_call(random, odd)
    shape = call.case.shape()
    steps = shape.bytes + 1
    parts = random.integers(0, steps, int(random.integers(0, 4))).tolist()
    widths = random.choice([0, 1, 2, 3, 8, 60], 3).tolist()
    once = call.paint(1, [steps])
    divided = call.paint(int(random.integers(1, 6)), [*parts, steps], widths)
    assert different(once, divided) == [], call
    assert (once["position"] == shape.bytes).all(), call
    kept = call.slots["known"].numpy().astype(bool)
    kept |= np.arange(shape.bytes) < call.slots["position"].numpy()[:, None]
    assert (once["images"][kept] == call.slots["images"].numpy()[kept]).all(), call
    other = replace(call, isa=str(random.choice(native_vectors.ISAS)))
    assert different({"images": once["images"]}, other.paint(1, [steps])) == [], (call, other.isa)


def check_reading(random, odd):
    """Known bytes leave the same numbers on one thread and on several."""
    call = random_call(random, odd)
    shape = call.case.shape()
    steps = int(random.integers(1, (shape.bytes - shape.first) // shape.step_bytes + 1))
    stop = shape.first + shape.step_bytes * steps
    assert different(call.read(1, stop), call.read(int(random.integers(1, 6)), stop)) == [], call


def check_wrong_arguments(random):
    """An argument that is replaced by another is refused with a
    sentence, or is a right one as well.
    """
    call = random_call(random, odd=False)
    call.isa = cpu_kernels.instruction_sets()[0]
    changes = [
        _other_tensors,
        _other_array,
        _other_call,
    ]
    with suppress(ValueError):
        changes[random.integers(len(changes))](call, random)


def _other_tensors(call, random):
    tensors = list(call.tensors)
    at = int(random.integers(len(call.tensors)))
    wrong = [
        tensors[at].half(),
        tensors[at].flatten()[:-1],
        torch.empty(0),
        tensors[at].t(),
        tensors[at].double(),
    ]
    tensors[at : at + int(random.integers(0, 3))] = [wrong[random.integers(len(wrong))]]
    cpu_kernels.Network(call.case.shape(), tensors, call.case.weights, 1, call.isa).close()


def _other_array(call, random):
    name = str(random.choice(list(call.slots)))
    right = call.slots[name]
    wrong = [
        right[:-1],
        right.unsqueeze(0),
        torch.cat([right, right]),
        right.half(),
        right.double(),
        torch.empty(0),
    ]
    wrong += [right.to(torch.int64), right.flip(0).repeat_interleave(2, 0)[::2]]
    wrong += [torch.full_like(right, -1), right + 1] if name == "position" else [right, right]
    call.slots[name] = wrong[random.integers(len(wrong))]
    if random.random() < 0.1:
        del call.slots[name]
    call.paint(
        2,
        [
            int(
                random.choice(
                    [
                        -1,
                        0,
                        1,
                        2**40,
                    ]
                )
            )
        ],
    )


def _other_call(call, random):
    shape = call.case.shape()
    network = cpu_kernels.Network(
        shape, call.tensors, call.case.weights, int(random.choice(WHOLE[2:])), call.isa
    )
    if random.random() < 0.2:
        network.close()
    slots = {name: call.slots[name] for name in (*STATE, "images", "label")}
    start, stop = (int(random.choice([*WHOLE, shape.bytes, shape.bytes - 1])) for _ in range(2))
    bits = torch.zeros(call.case.images, max(0, min(stop - start, 100)), dtype=torch.float64)
    if random.random() < 0.5:
        network.read(slots, start, stop, bits, None)
    else:
        sources, targets = (
            torch.from_numpy(random.choice(WHOLE, int(random.integers(0, 3)))) for _ in range(2)
        )
        del slots["label"]
        network.copy_slots(slots | {"bits": call.slots["bits"]}, sources, targets)
