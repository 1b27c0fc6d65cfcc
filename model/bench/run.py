"""The whole benchmark in its order. Correctness comes first: where `check` raises, there are no numbers."""

from collections.abc import Callable

from scanline.model.bench import fast_transformers, memory_over_position
from scanline.model.bench.baseline import Contender, Rate, in_turns
from scanline.model.bench.ceilings import ceilings
from scanline.model.bench.correctness import Reference, reference
from scanline.model.bench.fast_transformers import Authors
from scanline.model.bench.memory_over_position import Looks
from scanline.model.bench.plan import Plan
from scanline.model.bench.prefill import reading
from scanline.model.bench.result import Measured
from scanline.model.bench.scanline import Ours, alone
from scanline.model.bench.softmax import Softmax, too_large
from scanline.model.network.transformer import Transformer


def bench(model: Transformer, plan: Plan, tell: Callable[[str], None] = lambda stage: None) -> Measured:
    """Measures `model`; `tell` hears what comes next, Plan.stages times."""
    device, exact = model.device.type, plan.precision
    tell("checking")
    checked = reference(model, plan.batches, exact)
    tell("ceilings")
    measured = Measured(checked, ceilings(model.config, plan.batches, device, min(0.5, plan.seconds)))
    if plan.does("latency"):
        tell("one image")
        measured.alone = alone(model, plan.seconds, checked, exact)
    if plan.does("bulk"):
        left_out: dict[str, None] = {}  # each reason once, in order
        measured.bulk = []
        for batch in plan.batches:
            tell(f"{batch} in flight")
            measured.bulk.append(_rates(model, batch, plan, checked, left_out))
        measured.left_out = list(left_out)
    if plan.does("reading"):
        tell("reading")
        measured.prefill, measured.scoring = reading(model, plan.seconds, checked, exact)
    if plan.does("position"):
        tell("over position")
        measured.looks = _looks(model, plan, checked)
    return measured


def _rates(
    model: Transformer, batch: int, plan: Plan, checked: Reference, left_out: dict[str, None]
) -> dict[str, Rate]:
    """Our rate and those of the baselines that can be measured, by name."""
    device = model.device.type
    reasons = {
        "authors": fast_transformers.missing() if plan.does("authors") else "",
        "softmax": too_large(model.config, batch, device) if plan.does("softmax") else "",
    }
    left_out.update(dict.fromkeys(filter(None, reasons.values())))
    contenders: dict[str, Contender] = {"ours": Ours(model, batch, checked, plan.precision)}
    if reasons["authors"] is None:
        contenders["authors"] = Authors(model.config, batch, device)
    if reasons["softmax"] is None:
        contenders["softmax"] = Softmax(model, batch)
    return dict(zip(contenders, in_turns(list(contenders.values()), plan.seconds), strict=True))


def _looks(model: Transformer, plan: Plan, checked: Reference) -> dict[str, Looks]:
    """Ours, and softmax over as many images as it has room for."""
    device = model.device.type
    images = memory_over_position.IMAGES[device]
    found = {"ours": memory_over_position.ours(model, checked, images, precision=plan.precision)}
    if plan.does("softmax"):
        fit = memory_over_position.images_that_fit(model.config, images, device)
        found["softmax"] = memory_over_position.softmax(model, plan.seconds, fit)
    return found
