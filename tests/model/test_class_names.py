"""From words to labels: exact names, one class word in a sentence, and one sentence for everything else."""

import time
from typing import Any

import numpy as np
import pytest

from scanline.model.class_names import drawn_label, label_of_class, label_of_prompt, label_to_paint
from scanline.model.config import ModelConfig
from scanline.model.inputs import InvalidInput
from tests.support import small_models

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NAMED = (("car",), ("sports car",), ("café",), ("c++", "+"))
CLASSES = (*((str(digit), word) for digit, word in enumerate(DIGITS)), *NAMED)


@pytest.fixture(scope="module")
def config() -> ModelConfig:
    return small_models.config(classes=CLASSES)


@pytest.mark.parametrize(
    ("text", "label"), [("7", 8), ("seven", 8), ("SEVEN", 8), (" 0 ", 1), ("Sports  Car", 12), ("Cafe\u0301", 13)]
)
def test_a_class_has_any_of_its_words_in_any_case(config: ModelConfig, text: str, label: int) -> None:
    assert label_of_class(config, text) == label
    assert label_of_prompt(config, text) == label


@pytest.mark.parametrize(
    ("prompt", "label"),
    [
        ("", 0),
        (" \n", 0),
        ("a handwritten seven", 8),
        ("A Handwritten SEVEN!", 8),
        ("seven, written as 7", 8),
        ("(7)", 8),
        ("a sports car", 12),
        ("a car for sports", 11),
        ("un caf\u00e9, s'il vous pla\u00eet", 13),
        ("a book about c++.", 14),
        ("+", 14),
    ],
)
def test_a_prompt_means_the_one_class_that_it_names(config: ModelConfig, prompt: str, label: int) -> None:
    assert label_of_prompt(config, prompt) == label


@pytest.mark.parametrize("text", ["", "sevens", "17", "a seven", "ten"])
def test_a_class_that_is_not_known_is_refused_with_those_that_are(config: ModelConfig, text: str) -> None:
    with pytest.raises(InvalidInput) as error:
        label_of_class(config, text)
    names = "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, car, sports car, café, c++"
    assert error.value.message == f"class must be one of {names}, not {text!r}."
    assert (error.value.param, error.value.code) == ("class", "invalid_value")


@pytest.mark.parametrize("prompt", ["a handwritten digit", "seventeen 17s", "racecar"])
def test_a_prompt_without_a_class_is_refused_with_the_names(config: ModelConfig, prompt: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"^prompt names no class of this model, which knows 0, 1, .* c\+\+\.$"
    ) as error:
        label_of_prompt(config, prompt)
    assert (error.value.param, error.value.code) == ("prompt", "prompt_not_supported")


@pytest.mark.parametrize("prompt", ["a seven or a three", "7 3 7", "Three. Seven. Nine."])
def test_a_prompt_with_two_classes_is_refused_with_the_names(config: ModelConfig, prompt: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"^prompt must name one class, not 3 and 7; this model knows 0, 1, "
    ) as error:
        label_of_prompt(config, prompt)
    assert (error.value.param, error.value.code) == ("prompt", "prompt_not_supported")


def test_a_model_without_classes_takes_an_empty_prompt_and_no_class() -> None:
    config = small_models.config()
    assert label_of_prompt(config, "") == 0
    with pytest.raises(InvalidInput, match=r"^This model knows no classes; leave class out\.$"):
        label_of_class(config, "7")
    with pytest.raises(InvalidInput, match=r"^This model knows no classes; leave prompt out or empty\.$") as error:
        label_of_prompt(config, "a seven")
    assert error.value.code == "prompt_not_supported"


def test_a_message_lists_a_hundred_names_and_long_prompts_take_little_time() -> None:
    config = small_models.config(classes=tuple((f"kind {number}", f"number {number}") for number in range(1000)))
    assert label_of_class(config, "Kind 999") == 1000
    with pytest.raises(InvalidInput, match=r"kind 98, kind 99 and 900 more, not 'horse'\.$"):
        label_of_class(config, "horse")
    began = time.process_time()
    assert label_of_prompt(config, "a kindness " * 3000 + "of kind 17") == 18
    assert time.process_time() - began < 2


def test_any_class_is_drawn_for_images_that_are_painted_from_nothing(config: ModelConfig) -> None:
    assert label_to_paint(config, " ANY") == (0, len(CLASSES))
    assert label_to_paint(config, "seven") == (8, 0)
    with pytest.raises(
        InvalidInput, match=r'^class "any" is for images that are painted from nothing; leave class out'
    ):
        label_of_class(config, "any")
    with pytest.raises(InvalidInput, match=r"^This model knows no classes"):
        label_to_paint(small_models.config(), "any")


def test_no_class_is_asked_for_by_none_and_a_number_is_its_digits(config: ModelConfig) -> None:
    numbers: tuple[Any, ...] = (None, 7)
    assert [label_of_class(config, number) for number in numbers] == [0, 8]
    assert [label_to_paint(config, number) for number in numbers] == [(0, 0), (8, 0)]


def test_a_class_that_is_named_any_is_that_class() -> None:
    config = small_models.config(classes=(("one",), ("all", "any")))
    assert label_to_paint(config, "any") == (label_of_class(config, "any"), 0) == (2, 0)


@pytest.mark.parametrize("classes", [1, 10, 100])
def test_drawn_labels_are_equally_likely(classes: int) -> None:
    draws = 40 * classes
    drawn = [drawn_label(classes, seed, index) for seed in (7, 2**62) for index in range(draws // 2)]
    counts = np.bincount(drawn, minlength=classes + 1)
    assert counts[0] == 0
    assert len(counts) == classes + 1
    if classes > 1:  # chi-squared, of classes - 1 degrees of freedom: five standard deviations from its mean
        assert ((counts[1:] - 40) ** 2 / 40).sum() < classes - 1 + 5 * (2 * (classes - 1)) ** 0.5
    assert drawn[: draws // 2] != drawn[draws // 2 :] or classes == 1


def test_a_drawn_label_never_changes() -> None:
    """Seeds are promises: these are the classes that earlier versions drew."""
    assert [drawn_label(10, 7, index) for index in range(8)] == [8, 9, 8, 4, 7, 7, 10, 1]


@pytest.mark.parametrize("marks", ["\u0301\u0323", "\u0301", "\u0f73", "\u0344"])
@pytest.mark.parametrize("name", ["class", "prompt"])
def test_many_combining_marks_in_a_row_are_refused_unsorted(config: ModelConfig, name: str, marks: str) -> None:
    label_of = label_of_class if name == "class" else label_of_prompt
    with pytest.raises(InvalidInput) as error:
        label_of(config, "".join(sorted(marks * 16_000)) + " seven")
    assert (error.value.message, error.value.param) == (f"{name} has more than 30 combining marks in a row.", name)


def test_up_to_30_combining_marks_in_a_row_are_compared(config: ModelConfig) -> None:
    assert label_of_prompt(config, "a" + 30 * "\u0301" + " seven") == 8
    with pytest.raises(InvalidInput, match="more than 30"):
        label_of_prompt(config, "a" + 31 * "\u0301" + " seven")
