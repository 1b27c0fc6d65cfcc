"""Models of the Hugging Face Hub: ORG/NAME or ORG/NAME@REVISION as a directory of Hugging Face's cache, and back.

The only module that imports huggingface_hub, and that when a model of the Hub is asked for. Only JSON, safetensors and
the card are downloaded, after their sizes in the Hub's list of files have been checked. Each error is a ValueError with
one sentence.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from scanline.model import extras
from scanline.model.formats.model_card import CARD, with_metadata
from scanline.model.formats.model_dir import (
    CONFIG,
    EVALUATION,
    GENERATION,
    INDEX,
    WEIGHTS,
    ModelDirectoryError,
    load_config,
    model_name,
    read_evaluation,
    weight_files,
)

NAME = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:@(\S+))?", re.ASCII)
SAFETENSORS = re.compile(r"[\w.-]+\.safetensors", re.ASCII)
SMALL = (CONFIG, EVALUATION, GENERATION, INDEX, CARD)
MAX_SMALL_BYTES = 10_000_000  # of these together
MAX_WEIGHT_BYTES = 2_000_000_000
PICTURE = re.compile(r"!\[[^]]*]\(([\w.-]+)\)", re.ASCII)  # that a card shows, a file beside it


def is_repository(name: str) -> bool:
    """Return whether a name has the form ORG/NAME or ORG/NAME@REVISION."""
    return NAME.fullmatch(name) is not None


def fetch(name: str) -> Path:
    """Return the directory of Hugging Face's cache with the files of a model, after downloading those that it lacks.

    Where the Hub cannot be reached, or HF_HUB_OFFLINE is set, the files that were downloaded before are used.
    """
    api, repository, revision = _open(name)
    # one thread: as one of several retries, huggingface_hub 2.4 closes the connections of all, with an AttributeError
    download = partial(api.snapshot_download, repository, max_workers=1)
    with _one_sentence(api, name):
        try:
            listed = api.model_info(repository, revision=revision, files_metadata=True)
        except _errors() as error:
            if not _unreachable(error):
                raise
            return _downloaded_before(download, name, revision, _reason(api, error))

        # The small files first: they say whether this is a model of ours, and in which files its weights are.
        sizes = {file.rfilename: file.size for file in listed.siblings}
        _check_files(name, sizes, [CONFIG], MAX_SMALL_BYTES)
        _check_files(name, sizes, [file for file in SMALL if file in sizes], MAX_SMALL_BYTES)
        # By the revision's name, so that the cache knows the commit of that name when offline.
        directory = Path(download(revision=revision, allow_patterns=list(SMALL), tqdm_class=_bar(False)))
        if directory.name != listed.sha:
            raise ValueError(f"{name} changed while it was being downloaded; try again")
        weights = _weights(name, directory)
        _check_files(name, sizes, weights, MAX_WEIGHT_BYTES)
        shown = sys.stderr.isatty() and not all((directory / file).exists() for file in weights)
        return Path(download(revision=listed.sha, allow_patterns=weights, tqdm_class=_bar(shown)))


def pinned(name: str, directory: Path) -> str | None:
    """Return ORG/NAME@COMMIT, by which other machines get the files that a repository has in the cache's `directory`;
    None where the name is not of a repository."""
    if not is_repository(name) or Path(name).is_dir():
        return None
    return f"{name.partition('@')[0]}@{directory.name}"


def push(directory: Path, name: str, *, private: bool = False, message: str | None = None) -> str:
    """Commit the files of a model, its card and the pictures on it to a repository of the Hub, ORG/NAME, or to a branch
    of it, ORG/NAME@BRANCH, and return the commit's URL. The repository and the branch are created where there are none;
    private: such a repository is."""
    from scanline.model.formats.checkpoint import SHARD, load_model

    load_model(directory)  # raises where a file is wrong
    api, repository, branch = _open(name)
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()

    # The files of the model, and the card, with metadata at its head.
    own = model_name(directory.resolve())
    path = directory / CARD
    card = path.read_text() if path.exists() else f"# {own}\n\nA linear transformer that paints images.\n"
    optional = [EVALUATION, GENERATION, INDEX, *dict.fromkeys(PICTURE.findall(card))]
    files = [CONFIG, *weight_files(directory), *(file for file in optional if (directory / file).is_file())]
    added = [CommitOperationAdd(file, directory / file) for file in files]
    added.append(CommitOperationAdd(CARD, with_metadata(card, own, read_evaluation(directory)).encode()))

    with _one_sentence(api, name):
        api.create_repo(repository, private=private or None, exist_ok=True)  # None: as the organisation has it
        if branch:
            api.create_branch(repository, branch=branch, exist_ok=True)
        # What an earlier model had and this one lacks would be read with it.
        there = api.list_repo_files(repository, revision=branch)
        stale = [file for file in there if file in (WEIGHTS, INDEX, EVALUATION, GENERATION) or SHARD.fullmatch(file)]
        deleted = [CommitOperationDelete(file) for file in stale if file not in files]
        commit = api.create_commit(
            repository, [*added, *deleted], commit_message=message or f"Push {own}", revision=branch
        )
    return str(commit.commit_url)


def _open(name: str) -> tuple[Any, str, str | None]:
    """Return the Hub's client, the repository and the revision of a name."""
    match = NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is no repository of the Hugging Face Hub; give ORG/NAME or ORG/NAME@REVISION")
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise extras.MissingExtraError(f"{name} is no directory; a model of the Hugging Face Hub", "hub") from None
    return HfApi(library_name="scanline", library_version=extras.version()), match[1], match[2]


def _downloaded_before(download: Any, name: str, revision: str | None, reason: str) -> Path:
    from huggingface_hub.errors import LocalEntryNotFoundError

    cached = partial(download, local_files_only=True, tqdm_class=_bar(False))
    try:
        directory = Path(cached(revision=revision, allow_patterns=list(SMALL)))
        return Path(cached(revision=directory.name, allow_patterns=_weights(name, directory)))
    except LocalEntryNotFoundError:
        raise ValueError(f"{name} is neither a directory nor complete in Hugging Face's cache, and {reason}") from None


def _weights(name: str, directory: Path) -> list[str]:
    """Return the files of weights; ValueError where the small files in `directory` are not of a model of ours."""
    try:
        load_config(directory)
        files = weight_files(directory)
    except ModelDirectoryError as error:
        reason = str(error).replace(f"{directory}/", "")
        raise ValueError(f"{name} is not a model of Scanline: {reason}") from None
    if wrong := [file for file in files if not SAFETENSORS.fullmatch(file)]:
        raise ValueError(f"{name} is not a model of Scanline: {wrong[0]!r} is not a safetensors file")
    return files


def _check_files(name: str, sizes: dict[str, int | None], files: Sequence[str], limit: int) -> None:
    """Raise ValueError where the repository lacks one of the files, or where they are too large together."""
    if missing := [file for file in files if sizes.get(file) is None]:
        raise ValueError(f"{name} is not a model of Scanline: it has no {missing[0]}")
    if (total := sum(sizes[file] or 0 for file in files)) > limit:
        what = f"{files[0]}{' and others' if len(files) > 1 else ''}"
        raise ValueError(
            f"{name} is too large: {what} of {total / 1e6:,.0f} MB, where {limit / 1e6:,.0f} MB are the limit; what you"
            " trust, download by `hf download`, and give its directory"
        )


def _bar(shown: bool) -> type:
    """Return huggingface_hub's progress bar, which it shows in logs too, and where all is downloaded already."""
    from huggingface_hub.utils.tqdm import tqdm

    def start(bar: Any, *arguments: Any, **options: Any) -> None:
        tqdm.__init__(bar, *arguments, **{**options, "disable": not shown})

    return type("Bar", (tqdm,), {"__init__": start})


def _errors() -> tuple[type[Exception], ...]:
    """Return what huggingface_hub raises: OSErrors, those of its HTTP library, and RuntimeErrors of hf_xet."""
    from huggingface_hub.errors import HfHubHTTPError

    return (OSError, HfHubHTTPError.__bases__[0], RuntimeError)


def _unreachable(error: Exception) -> bool:
    """Return whether the Hub gave no answer, rather than that one."""
    from huggingface_hub.errors import HfHubHTTPError

    return not isinstance(error, HfHubHTTPError) or error.response.status_code >= 500


@contextmanager
def _one_sentence(api: Any, name: str) -> Iterator[None]:
    """Raise ValueError with one sentence in place of what huggingface_hub raises."""
    from huggingface_hub import errors

    repository, _, revision = name.partition("@")
    token = "log in by `hf auth login` or set HF_TOKEN"
    try:
        yield
    except errors.GatedRepoError:
        reason = f"{name} is gated: ask for access at {api.endpoint}/{repository}, and {token}"
    except errors.RepositoryNotFoundError:
        reason = (
            f"there is no model {name!r}: neither a directory nor a repository of {api.endpoint} (if private, {token})"
        )
    except errors.RevisionNotFoundError:
        reason = f"{api.endpoint}/{repository} has no revision {revision!r}"
    except _errors() as error:
        if getattr(getattr(error, "response", None), "status_code", None) == 401:
            reason = f"{name}: {api.endpoint} wants a token; {token}"
        else:
            reason = f"{name}: {_reason(api, error)}"
    else:
        return
    raise ValueError(reason) from None


def _reason(api: Any, error: Exception) -> str:
    """Return what kept the Hub from answering as wanted, in words for the middle of a sentence."""
    from huggingface_hub import errors

    while isinstance(error, errors.LocalEntryNotFoundError | RuntimeError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    if isinstance(error, errors.OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set"
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, errors.HfHubHTTPError):
        said = " ".join((error.server_message or "").split())
        return f"{api.endpoint} answers {error.response.status_code}" + (f", {said}" if said else "")
    if isinstance(error, errors.HfHubHTTPError.__bases__[0]):
        return f"{api.endpoint} cannot be reached ({text})"
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else text
