"""The network: parallel == recurrent, whole == split and resumed, whatever
its options; the input of a step.
"""

import math

import pytest
import torch

from scanline.model.base.state import State
from scanline.model.network.embedding import START
from scanline.model.network.transformer import Transformer
from tests.support import small_models
from tests.support.close import assert_close

VARIANTS = small_models.VARIANTS
LABELLED = ["plain", "concat", "histogram", "window", "waves of pixels"]


def model_of(variant, **changes):
    return small_models.model_of(variant, **changes)


def images_of(model, count):
    return small_models.tensor(model.config, count)


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_parameters_and_final_states_of_both_views_agree(variant, labelled):
    model = model_of(variant, **(small_models.CLASSES if labelled else {}))
    images = images_of(model, 4)
    labels = torch.tensor([3, 0, 1, 3]) if labelled else None
    state, stepped = (State.zeros(model.config, 4) for _ in range(2))
    steps = [model.step(images, stepped, labels) for _ in range(model.config.steps)]
    assert_close(
        "parameters", torch.stack(steps, dim=1), model.parallel(images, state, labels=labels)
    )
    assert_close("s", stepped.s, state.s)
    assert_close("z", stepped.z, state.z)
    assert torch.equal(stepped.position, state.position)


@pytest.mark.parametrize("variant", small_models.CORE)
def test_no_byte_is_read_before_it_is_painted(variant):
    model = model_of(variant)
    images = images_of(model, 2)
    size = model.config.step_bytes
    before = model.parallel(images)
    place = model.config.bytes // 2 // size * size
    images[:, place:] ^= 255
    after = model.parallel(images)
    # the step at `place` is still predicted from those before it
    predicted = place // size + 1 - model.config.first
    assert torch.equal(before[:, :predicted], after[:, :predicted])
    assert not torch.equal(before[:, predicted:], after[:, predicted:])


@pytest.mark.parametrize("variant", small_models.CORE)
def test_images_at_different_positions_step_together(variant):
    model = model_of(variant)
    images = images_of(model, 2)
    state = State.zeros(model.config, 2)
    ahead = State.zeros(model.config, 1)
    for _ in range(5):
        model.step(images[1:], ahead)
    state.put(torch.tensor([1]), ahead)
    assert_close(
        "parameters",
        model.parallel(images)[[0, 1], [0, 5]],
        model.step(images, state),
    )


def test_a_finished_image_stays_at_its_end():
    model = model_of("plain")
    state = State.zeros(model.config, 1)
    state.position.fill_(model.config.bytes)
    model.step(images_of(model, 1), state)
    assert state.position.tolist() == [model.config.bytes]


@pytest.mark.parametrize(
    ("variant", "cut"),
    [(variant, cut) for variant in ("plain", "authors", "strokes") for cut in (2, 19)]
    + [(variant, cut) for variant in ("pixels", "waves of pixels") for cut in (3, 57)],
)
def test_parallel_resumed_from_its_state_and_by_steps(variant, cut):
    model = model_of(variant)
    images = images_of(model, 2)
    state = State.zeros(model.config, 2)
    stepped = State.zeros(model.config, 2)
    expected = model.parallel(images)
    first = model.parallel(images, state, cut)
    assert_close(
        "parameters",
        expected,
        torch.cat((first, model.parallel(images, state)), dim=1),
    )
    first = model.parallel(images, stepped, cut)
    steps = [
        model.step(images, stepped) for _ in range(cut, model.config.bytes, model.config.step_bytes)
    ]
    assert_close(
        "parameters",
        expected,
        torch.cat((first, torch.stack(steps, dim=1)), dim=1),
    )


@pytest.mark.parametrize(
    ("variant", "length", "start", "stop"),
    [
        ("plain", 19, 6, 10),
        ("plain", 20, 6, 21),
        ("plain", 20, 6, 6),
        ("plain", 20, 6, 5),
        ("pixels", 60, 0, 7),
    ],
)
def test_parallel_over_no_steps_of_the_image_is_refused(variant, length, start, stop):
    model = model_of(variant)
    state = State.zeros(model.config, 1)
    state.position.fill_(start)
    with pytest.raises(ValueError, match=f"cannot run bytes {start} to"):
        model.parallel(torch.zeros(1, length, dtype=torch.uint8), state, stop)


def literal(embedding, image, position):
    """The vector [D] for one byte to predict: the previous byte or a start
    token, and the place, looked up.
    """
    config = embedding.config
    value = embedding.value[int(image[position - 1]) if position else START]
    if config.position == "sincos":
        width = len(value)
        time = position - config.first
        angles = [time / 10000 ** (2 * i / width) for i in range(width // 2)]
        place = torch.tensor([wave(angle) for angle in angles for wave in (math.sin, math.cos)])
    else:
        row, column = divmod(position // config.channels, config.width)
        place = embedding.row[row] + embedding.column[column]
        if config.channels == 3:
            place = place + embedding.channel[position % 3]
    return value + place if config.embedding_join == "sum" else torch.cat((value, place))


@pytest.mark.parametrize(
    "variant", [name for name, changes in VARIANTS.items() if "step" not in changes]
)
def test_the_input_of_a_byte_is_the_literal_sum(variant):
    model = model_of(variant)
    images = images_of(model, 2)
    positions = torch.arange(model.config.first, model.config.bytes)
    expected = [
        torch.stack([literal(model.embedding, image, at) for at in positions.tolist()])
        for image in images
    ]
    assert_close(
        "embedding", torch.stack(expected), model.embedding(images, positions.unsqueeze(0))
    )


@pytest.mark.parametrize("variant", LABELLED)
def test_the_vector_of_each_image_s_label_is_added_and_no_labels_are_label_0(variant):
    model = model_of(variant, **small_models.CLASSES)
    labels = torch.tensor([3, 0, 1, 3])
    images = images_of(model, 4)
    zeros = torch.zeros(4, dtype=torch.int64)
    found = model.parallel(images, labels=labels)
    assert torch.equal(model.parallel(images), model.parallel(images, labels=zeros))
    states = [State.zeros(model.config, 4) for _ in range(2)]
    assert torch.equal(model.step(images, states[0]), model.step(images, states[1], zeros))
    for row, label in enumerate(labels.tolist()):
        one = small_models.model(model.config)
        for name, table in one.named_parameters():
            if name.rpartition(".")[2] in ("classes", "class_bias"):
                table[0] = table[label]  # what an image without a label then has
        assert_close(
            f"label {label}",
            one.parallel(images[row : row + 1]),
            found[row : row + 1],
        )


@pytest.mark.parametrize("variant", LABELLED)
def test_a_new_model_with_classes_starts_as_the_same_without(variant):
    torch.manual_seed(4)
    plain = Transformer(small_models.config(**VARIANTS[variant]))
    torch.manual_seed(4)
    model = Transformer(small_models.config(**VARIANTS[variant], **small_models.CLASSES))
    assert "classes" not in plain.state_dict()
    assert not model.classes.any()
    for name, weights in plain.state_dict().items():
        assert torch.equal(weights, model.state_dict()[name]), name
    images = images_of(plain, 3)
    labels = torch.tensor([0, 2, 3])
    assert torch.equal(plain.parallel(images), model.parallel(images, labels=labels))
    assert torch.equal(plain.parallel(images), plain.parallel(images, labels=labels))
