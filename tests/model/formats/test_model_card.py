"""The metadata of model cards, as the Hugging Face Hub's own library reads them."""

import pytest

from scanline.model import zoo
from scanline.model.formats.model_card import TASK, metadata, with_metadata
from scanline.model.formats.model_dir import read_evaluation

hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")


@pytest.mark.parametrize(("name", "dataset"), [("mnist-small", "ylecun/mnist"), ("cifar10-small", "uoft-cs/cifar10")])
def test_a_shipped_card_has_the_metadata_of_its_model(name: str, dataset: str) -> None:
    directory = zoo.find(name)
    card = hub.ModelCard((directory / "README.md").read_text())
    evaluation = read_evaluation(directory)
    assert (card.data.library_name, card.data.pipeline_tag, card.data.license) == ("scanline", TASK, "mit")
    assert card.data.datasets == [dataset]
    (result,) = card.data.eval_results
    assert (card.data.model_name, result.task_type, result.dataset_type) == (name, TASK, dataset)
    assert (result.metric_type, result.metric_value) == ("bits_per_dim", round(evaluation["bits_per_dim"], 3))
    assert card.text.startswith(f"\n# {name}\n")


def test_names_are_quoted_and_what_was_not_measured_is_left_out() -> None:
    name, folder = 'a: "b" #1\n\u00e9\U0001f600', "- letters: [x]"
    card = hub.ModelCard(metadata(name, {"dataset": folder, "bits_per_dim": 1.5}))
    (result,) = card.data.eval_results
    assert (card.data.model_name, result.dataset_type, result.dataset_name) == (name, "imagefolder", folder)
    assert card.data.datasets is None
    assert hub.ModelCard(metadata(name, {})).data.to_dict() == {"library_name": "scanline", "pipeline_tag": TASK}
    of_own = metadata("mine", {"dataset": "mnist", "bits_per_dim": 1.5}, published=False)
    assert hub.ModelCard(of_own).data.datasets is None


def test_a_card_keeps_the_metadata_that_it_has() -> None:
    card = with_metadata("# mine\n", "mine", {})
    assert card == metadata("mine", {}) + "\n# mine\n"
    assert with_metadata(card, "other", {"dataset": "mnist", "bits_per_dim": 1.5}) == card
