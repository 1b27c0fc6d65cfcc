"""From words to labels; what images are painted with where a request does
not say; generation_config.json.
"""

import json
import time
from functools import partial

import pytest

from scanline.model import zoo
from scanline.model.base.class_names import (
    drawn_label,
    label_of_class,
    label_of_prompt,
    listed_in,
)
from scanline.model.base.inputs import InvalidInput
from scanline.model.base.sampling_options import Defaults, DrawnLabel, SamplingParams
from scanline.model.formats.model_dir import ModelDirectoryError, load_config, read_defaults
from scanline.model.inference import load
from tests.support import shapes, small_models

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NAMED = (("car",), ("sports car",), ("café",), ("c++", "+"))
CLASSES = (*((str(digit), word) for digit, word in enumerate(DIGITS)), *NAMED)


@pytest.fixture(scope="module")
def config():
    return small_models.config(classes=CLASSES)


@pytest.mark.parametrize(
    ("text", "label"),
    [("7", 8), ("seven", 8), ("SEVEN", 8), (" 0 ", 1), ("Sports  Car", 12), ("Cafe\u0301", 13)],
)
def test_a_class_has_any_of_its_words_in_any_case(config, text, label):
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
def test_a_prompt_means_the_one_class_that_it_names(config, prompt, label):
    assert label_of_prompt(config, prompt) == label


def test_a_capital_is_another_class_than_the_small_letter_where_both_are_classes():
    config = small_models.config(classes=(("A",), ("a",), ("B",), ("two", "2")))
    named = {"A": 1, "a": 2, "B": 3, "b": 3, "TWO": 4}
    assert {text: label_of_class(config, text) for text in named} == named
    assert label_of_prompt(config, "The letter A, Please") == 1
    assert listed_in(config, "aAb2") == ["a", "A", "b", "2"]
    assert not listed_in(config, "Ac")
    assert not listed_in(config, "Two")
    assert Defaults().to_paint(config, prompt="aAb2").label == (2, 1, 3, 4)


@pytest.mark.parametrize("name", ["any", "None"])
def test_any_and_none_are_no_list_of_letters(name):
    config = small_models.config(classes=tuple((letter,) for letter in "anyoe"))
    assert not listed_in(config, name)
    assert listed_in(config, name.lower(), "prompt") == [*name.lower()]


@pytest.mark.parametrize("text", ["", "sevens", "17", "a seven", "ten"])
def test_a_class_that_is_not_known_is_refused_with_those_that_are(config, text):
    with pytest.raises(InvalidInput) as error:
        label_of_class(config, text)
    names = "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, car, sports car, café, c++"
    assert error.value.message == f"class must be one of {names}, not {text!r}."
    assert (error.value.param, error.value.code) == ("class", "invalid_value")


NO_CLASS = r"^prompt names no class of this model, which knows 0, 1, .* c\+\+\.$"
TWO_CLASSES = r"^prompt must name one class, not 3 and 7; this model knows 0, 1, "


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [(prompt, NO_CLASS) for prompt in ("a handwritten digit", "seventeen 17s", "racecar")]
    + [(prompt, TWO_CLASSES) for prompt in ("a seven or a three", "7 3 7", "Three. Seven. Nine.")],
)
def test_a_prompt_without_one_class_is_refused_with_the_names(config, prompt, sentence):
    with pytest.raises(InvalidInput, match=sentence) as error:
        label_of_prompt(config, prompt)
    assert (error.value.param, error.value.code) == ("prompt", "prompt_not_supported")


def test_a_model_without_classes_takes_an_empty_prompt_and_no_class():
    config = small_models.config()
    assert label_of_prompt(config, "") == 0
    with pytest.raises(InvalidInput, match=r"^This model knows no classes; leave class out\.$"):
        label_of_class(config, "7")
    with pytest.raises(
        InvalidInput, match=r"^This model knows no classes; leave prompt out or empty\.$"
    ) as error:
        label_of_prompt(config, "a seven")
    assert error.value.code == "prompt_not_supported"


def test_a_message_lists_a_hundred_names_and_long_prompts_take_little_time():
    config = small_models.config(
        classes=tuple((f"kind {number}", f"number {number}") for number in range(1000))
    )
    assert label_of_class(config, "Kind 999") == 1000
    with pytest.raises(InvalidInput, match=r"kind 98, kind 99 and 900 more, not 'horse'\.$"):
        label_of_class(config, "horse")
    assert label_of_prompt(config, "a kindness " * 3000 + "of kind 17") == 18


@pytest.mark.parametrize(
    "prompt", ["number 7 " * 3500, "a " * 16_000, "of kind " * 4000, "kind" * 8000]
)
def test_a_prompt_takes_as_long_with_32_000_words_as_with_two(prompt):
    def seconds(classes, words):
        named = (
            tuple(f"kind {number} {word}" for word in range(words)) for number in range(classes)
        )
        config = small_models.config(classes=tuple(named))
        assert config.word_tree
        taken = []
        for attempt in range(3):  # a collection of garbage may fall into one
            began = time.thread_time()
            with pytest.raises(InvalidInput, match=r"^prompt names no class"):
                label_of_prompt(config, f"{prompt}{classes} {attempt}")  # a text that no cache has
            taken.append(time.thread_time() - began)
        return min(taken)

    assert seconds(1000, 32) < 5 * seconds(2, 1) + 0.01


NESTED = (
    ("new york",),
    ("new york city", "york"),
    ("rock 'n' roll",),
    ("+",),
    ("++", "a+"),
    ("t-shirt",),
    ("x_y",),
)


SENTENCES = {  # the label of the one class that each names, 0 for none, -1 for several
    "New York City!": 2,
    "in new york cities": 1,
    "york, and not new\nyork": -1,
    "rock 'n' roll'": 3,
    "rock n roll": 0,
    "1 + 1": 4,
    "1+1": 0,
    "a +++ b": -1,
    "a ++ b": 5,
    "a+": 5,
    "a-t-shirt": 6,
    "t-shirts": 0,
    "x_y": 7,
    "x_y_z": 0,
    "new  york new york city": -1,
    "new new york": 1,
}


@pytest.mark.parametrize(("prompt", "label"), SENTENCES.items())
def test_the_longest_word_at_a_place_is_meant_and_only_whole_words(prompt, label):
    config = small_models.config(classes=NESTED)
    if label > 0:
        assert label_of_prompt(config, prompt) == label
        return
    sentence = "prompt must name one class" if label else "prompt names no class"
    with pytest.raises(InvalidInput, match=sentence):
        label_of_prompt(config, f"{prompt} ")


def test_any_class_is_drawn_for_images_that_are_painted_from_nothing(config):
    """But where a class has that name. No class is asked for by
    None, and a number is its digits.
    """
    assert Defaults().to_paint(config, " ANY").label == DrawnLabel(len(CLASSES))
    with pytest.raises(
        InvalidInput, match=r'^class "any" is for images that are painted from nothing; leave class'
    ):
        label_of_class(config, "any")
    with pytest.raises(InvalidInput, match=r"^This model knows no classes"):
        Defaults().to_paint(small_models.config(), "any")
    named = small_models.config(classes=(("one",), ("all", "any")))
    for config_, name, label in (
        (named, "any", 2),
        (config, "seven", 8),
        (config, 7, 8),
        (config, None, 0),
    ):
        painted = Defaults().to_paint(config_, name).label
        assert painted == label_of_class(config_, name) == label


def test_a_drawn_label_never_changes():
    """Seeds are promises: these are the classes that earlier versions drew."""
    assert [drawn_label(10, 7, index) for index in range(8)] == [8, 9, 8, 4, 7, 7, 10, 1]


@pytest.mark.parametrize("marks", ["\u0301\u0323", "\u0301", "\u0f73", "\u0344"])
@pytest.mark.parametrize("name", ["class", "prompt"])
def test_many_combining_marks_in_a_row_are_refused_unsorted(config, name, marks):
    label_of = label_of_class if name == "class" else label_of_prompt
    for text in ("".join(sorted(marks * 16_000)) + " seven", "a" + 31 * marks[-1] + " seven"):
        with pytest.raises(InvalidInput) as error:
            label_of(config, text)
        assert (error.value.message, error.value.param) == (
            f"{name} has more than 30 combining marks in a row.",
            name,
        )
    assert label_of_prompt(config, "a" + 30 * "\u0301" + " seven") == 8


GUIDED = shapes.GUIDED
DEFAULTS = Defaults("any", 1.5, 0.9, 4, 2)
DRAWN = len(GUIDED.classes)
STAR = 3
sampling = partial(SamplingParams, temperature=0.9)
guided = partial(sampling, guidance=1.5, best_of=2)


@pytest.mark.parametrize(
    ("asked", "prompt", "expected"),
    [
        ({}, "", guided(label=DrawnLabel(DRAWN))),
        ({"class_name": "star"}, "", guided(label=STAR)),
        ({}, "a star", guided(label=STAR)),
        ({"class_name": "None"}, "", sampling()),
        ({"class_name": ["none", "none"]}, "", sampling(label=(0, 0))),
        ({"class_name": ["none", "star"]}, "", guided(label=(0, STAR))),
        (
            {"guidance": 1.0, "temperature": 1.0, "best_of": 1},
            "",
            sampling(label=DrawnLabel(DRAWN), temperature=1.0),
        ),
    ],
)
def test_images_from_nothing(asked, prompt, expected):
    assert DEFAULTS.to_paint(GUIDED, **asked, prompt=prompt) == expected


def test_a_completion_has_no_class_unless_one_is_asked_for():
    assert DEFAULTS.to_complete(GUIDED) == sampling(particles=4)
    assert DEFAULTS.to_complete(GUIDED, "star", guidance=2.0) == sampling(label=STAR, guidance=2.0)
    assert DEFAULTS.to_complete(GUIDED, particles=2).particles == 2
    with pytest.raises(
        TypeError,
        match=r"^Defaults\.to_complete\(\) got an unexpected keyword argument 'temprature'$",
    ):
        DEFAULTS.to_complete(GUIDED, temprature=1)


@pytest.mark.parametrize("class_name", ["none", "circle"])
def test_a_class_against_the_prompt_is_refused(class_name):
    with pytest.raises(InvalidInput, match=r"^class and prompt name different classes"):
        DEFAULTS.to_paint(GUIDED, class_name, prompt="star")


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ({"class": "horse"}, "class must be one of "),
        (
            {"classes": "any"},
            "unknown field 'classes'; it may have class, guidance, temperature, particles, best_of",
        ),
        ({"guidance": "2"}, "guidance must be a number, not '2'"),
        ({"guidance": 11, "class": "any"}, "guidance must be from 1 "),
        ({"guidance": 10.001}, "guidance must be from 1 "),
        ({"temperature": 3}, "temperature must be from "),
        ({"particles": 0}, "particles must be a whole number from 1 to 64, not 0"),
        ({"best_of": 9}, "best_of must be a whole number from 1 to 8, not 9"),
        ({"best_of": 2}, "best_of needs a class head, which the model does not have"),
        ([], "must hold a JSON object"),
    ],
)
def test_a_wrong_file_is_refused_with_a_sentence(tmp_path, file, sentence):
    (tmp_path / "generation_config.json").write_text(json.dumps(file))
    with pytest.raises(ModelDirectoryError, match=r"generation_config\.json") as caught:
        read_defaults(tmp_path, GUIDED)
    assert sentence in str(caught.value)


def test_the_largest_guidance_is_a_default_without_a_class():
    assert Defaults.from_dict({"guidance": 10}, GUIDED) == Defaults(guidance=10)


def test_python_paints_with_the_defaults_and_says_so(tmp_path):
    shapes.save(tmp_path, GUIDED, class_head=True)
    (tmp_path / "generation_config.json").write_text(json.dumps(DEFAULTS.to_dict()))
    model = load(tmp_path, device="cpu")
    unsaid = model.sample(3, seed=1)
    said = model.sample(3, seed=1, class_name="any", guidance=1.5, temperature=0.9, best_of=2)
    assert (unsaid.array == said.array).all()
    assert (unsaid.classes, unsaid.guidance, unsaid.temperature) == (said.classes, 1.5, 0.9)


def test_the_shipped_digits_are_guided():
    directory = zoo.find("mnist-small")
    assert read_defaults(directory, load_config(directory)) == Defaults("any", 2)
