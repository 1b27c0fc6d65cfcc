"""The CUDA backend with int8 weights has the bits of the CPU kernel: painting, states, costs,
intervals of codes and digests, so that either decodes what the other has encoded.
"""

import numpy as np
import pytest
import torch

from tests.support.kernels.gpu import DEVICE  # isort: skip

from scanline.kernels.triton.ordered_linear import OrderedWeight
from scanline.model.backends import open_backend
from scanline.model.backends.cpu import CpuBackend
from scanline.model.backends.cuda import CudaBackend, CudaOptions
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.backends.slots import SlotPool
from scanline.model.base.precision import PRECISIONS
from scanline.model.base.state import NUMBERS, State
from scanline.model.inference import Model
from scanline.model.sampling.base.digest import coding_digests, model_digest
from tests.support import small_models
from tests.support.engine.mixed_arrivals import mixed_arrivals, small_model
from tests.support.kernels.native import NATIVE
from tests.support.sweeps import and_slow

pytestmark = NATIVE
COMPUTED = pytest.mark.compared(
    "small models in 8 bits: images, states, costs, intervals", "CPU kernel", "Triton's interpreter"
)
SMALL = {"height": 2, "width": 4, "layers": 1}  # the interpreter takes its time
# no width is a multiple of a vector or of a block
ODD = {"heads": 3, "key_width": 19, "value_width": 7, "feed_forward": 37, "components": 17}
IMAGES = 5
STATE = NUMBERS[:3]  # but for the deferred steps, of which there are none after four


def model_of(variant, **sizes):
    return small_model({**small_models.VARIANTS[variant], **SMALL, **sizes})


def cpu_backend(model):
    return CpuBackend(model, threads=1, precision=PRECISIONS["int8"])


def cuda_backend(model):
    options = CudaOptions(
        sizes=(1, 6),
        steps=2,
        few=1,
        prefill_graphs=((IMAGES, 3),),
    )
    return CudaBackend(model.to(DEVICE), options=options, int8_weights=True)


def painted(backend, config, device):
    """What slots hold after four steps, and after all."""
    pool = SlotPool.empty(config, IMAGES, device, deferred=backend.deferred)
    arrivals = mixed_arrivals(config)
    arrivals.temperature[1:3] = torch.tensor([0.7, 1.3])
    backend.place(pool, arrivals)
    found = {}
    for steps in (4, config.steps):
        backend.advance(pool, np.arange(IMAGES), steps).wait()
        for name in STATE:
            found[f"{name} after {steps}"] = getattr(pool.state, name).cpu().clone()
    for name in ("images", "bits", "known_bits"):
        found[name] = getattr(pool, name).cpu()
    return found


def read(backend, config, device):
    images = small_models.tensor(config, IMAGES).to(device)
    state = State.zeros(config, IMAGES, device, deferred=backend.deferred)
    steps = np.minimum([config.steps // 4 * 4, 4, 4, 8, 4], config.steps)
    stops = config.first + config.step_bytes * steps
    labels = torch.arange(IMAGES, device=device) % 4
    intervals = torch.zeros(IMAGES, int(stops.max()), 2, dtype=torch.int32, device=device)
    batch = PrefillBatch.of(images, state, stops, labels, intervals=intervals)
    bits = backend.prefill(batch)
    found = {name: getattr(state, name).cpu() for name in STATE}
    return found | {"bits": bits.cpu(), "intervals": intervals.cpu()}


def assert_same_bits(run, model):
    expected = run(cpu_backend(model), model.config, "cpu")
    found = run(cuda_backend(model), model.config, DEVICE)
    for name, numbers in expected.items():
        assert numbers.dtype == found[name].dtype
        same = numbers.nan_to_num() == found[name].nan_to_num()
        assert same.all(), f"{(~same).sum()} of {same.numel()} of {name}"
    return expected.values()


@COMPUTED
@pytest.mark.parametrize("run", [painted, read])
@pytest.mark.parametrize("variant", and_slow(small_models.CORE, *small_models.REST))
def test_images_states_costs_and_intervals_are_those_of_the_cpu_kernel(variant, run, compared):
    compared(*assert_same_bits(run, model_of(variant)))


@COMPUTED
def test_bits_are_the_cpu_kernels_at_odd_sizes(compared):
    compared(*assert_same_bits(painted, model_of("grey pixels", **ODD)))


@pytest.mark.parametrize("variant", ["strokes", "histogram"])
def test_digests_are_those_of_the_cpu_kernel(variant):
    model = model_of(variant)
    cpu = cpu_backend(model)
    cuda = cuda_backend(model)
    exact = CudaBackend(model)
    for digest in (model_digest, coding_digests):
        expected = digest(model, cpu, "int8")
        assert digest(model, cuda, "int8") == expected
        assert digest(model, exact, "exact") != expected


@pytest.mark.compared(
    "images of a file of codes in 8 bits",
    "encoded by one",
    "decoded by the other: CPU kernel, Triton's interpreter",
)
@pytest.mark.parametrize(("encoding", "decoding"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_a_file_of_codes_is_decoded_by_the_other(encoding, decoding, tmp_path, compared):
    network = model_of("strokes")
    images = small_models.tensor(network.config, 3).reshape(-1, 2, 4).numpy()
    path = tmp_path / "codes"

    def opened(backend):
        on = network.to(DEVICE) if backend == "cuda" else network.cpu()
        return Model(on, "", "int8", 1, backend)

    path.write_bytes(opened(encoding).compress(images, class_name=["7", None, "horse"]))
    assert (opened(decoding).decompress(path.read_bytes()) == images).all()
    compared(images)


@pytest.mark.slow  # at the sizes that users have, in the interpreter
def test_a_backend_opens_only_where_the_self_test_finds_the_bits_of_the_cpu_kernel(monkeypatch):
    model = model_of("strokes").to(DEVICE)
    opened = open_backend(model, 2, precision_name="int8", backend="cuda")
    assert opened.backend.has_cpu_bits
    assert opened.backend.build == CpuBackend.build
    rounded = OrderedWeight.of

    def off_by_one_bit(weight, in_8_bits):
        found = rounded(weight, in_8_bits)
        if in_8_bits:
            above = torch.ones(1, device=weight.device)
            found.scale[-1:] = found.scale[-1:].nextafter(above)
        return found

    monkeypatch.setattr(OrderedWeight, "of", off_by_one_bit)
    with pytest.raises(ValueError, match=r"are not those of the cpu kernel$"):
        open_backend(model, 2, precision_name="int8", backend="cuda")
