"""Models of the Hugging Face Hub: ORG/NAME or ORG/NAME@REVISION as a
directory of Hugging Face's cache, and back.

The only module that imports huggingface_hub, and that when a model of the Hub is asked for. Only
JSON, safetensors and the card are downloaded, after a dry run has said how large they are. Each
error is a ValueError with one sentence.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote

from scanline.model.base import extras
from scanline.model.base.atomic import write_file
from scanline.model.base.named_files import read_file
from scanline.model.formats import model_dir
from scanline.model.formats.model_card import CARD, with_metadata
from scanline.model.formats.model_dir import (
    CLASS_HEAD,
    CONFIG,
    EVALUATION,
    GENERATION,
    INDEX,
    weight_files,
)

NAME = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:@(\S+))?", re.ASCII)
SAFETENSORS = re.compile(r"[\w.-]+\.safetensors", re.ASCII)
SMALL = (CONFIG, EVALUATION, GENERATION, INDEX, CARD)
SHARDS = "model-*-of-*.safetensors"
MAX_WEIGHT_BYTES = 2_000_000_000
# What a card shows, in Markdown or HTML: a file of the directory, or an address.
MARKDOWN = re.compile(r"!\[[^]]{0,500}]\(\s{0,9}(?:<([^>\n]{1,500})>|([^\s()]{1,500}))")
HTML = re.compile(r"<img\s[^>]{0,500}?\bsrc\s{0,9}=\s{0,9}[\"']?([^\"'>]{1,500})", re.IGNORECASE)
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)
# how its files begin
PICTURES = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"<svg", b"<?xml")
MAX_MAGIC = 8  # bytes
LOG_IN = "log in by `hf auth login` or set HF_TOKEN"


def is_repository(name: str) -> bool:
    """Return whether a name has the form ORG/NAME or ORG/NAME@REVISION."""
    return NAME.fullmatch(name) is not None


def fetch(name: str) -> Path:
    """Return the directory of Hugging Face's cache with the files of a model,
    after downloading those that it lacks.

    Where the Hub cannot be reached, or HF_HUB_OFFLINE is set, the files
    that were downloaded before are used.
    """
    api, repository, revision = _open(name)
    from huggingface_hub import snapshot_download  # HfApi's has no dry run in huggingface_hub 1.0

    # one thread: as one of several retries, huggingface_hub 2.4 closes the
    # connections of all, with an AttributeError
    download = partial(snapshot_download, repository, max_workers=1, **_library())
    with _one_sentence(
        api, name, f"{name} is neither a directory nor complete in Hugging Face's cache, and"
    ):
        # The small files first: they say whether this is a model of ours,
        # and in which files its weights are.
        directory = _checked(
            name,
            partial(download, allow_patterns=list(SMALL)),
            revision,
            [CONFIG],
            model_dir.MAX_SMALL_BYTES,
        )
        try:
            model_dir.load_config(directory)
            weights = weight_files(directory)
        except model_dir.ModelDirectoryError as error:
            raise ValueError(
                f"{name} is not a model of Scanline: {str(error).replace(f'{directory}/', '')}"
            ) from None
        if wrong := [file for file in weights if not SAFETENSORS.fullmatch(file)]:
            raise ValueError(
                f"{name} is not a model of Scanline: {wrong[0]!r} is not a safetensors file"
            )
        wanted = [*weights, CLASS_HEAD]
        return _checked(
            name,
            partial(download, allow_patterns=wanted),
            directory.name,
            weights,
            MAX_WEIGHT_BYTES,
        )


def _checked(
    name: str, download: Any, revision: str | None, needed: Sequence[str], limit: int
) -> Path:
    """Return the directory of a download, from the cache alone where the Hub cannot be reached;
    ValueError where the repository lacks a file or has more bytes than `limit`."""
    from huggingface_hub.errors import DryRunError, LocalEntryNotFoundError

    try:
        # The cache now knows the commit of the revision, for when it is offline.
        files = download(revision=revision, dry_run=True, tqdm_class=_bar(False))
    except (DryRunError, LocalEntryNotFoundError):
        with suppress(LocalEntryNotFoundError):
            return Path(download(revision=revision, local_files_only=True))
        raise
    sizes = {file.filename: file.file_size for file in files}
    if missing := [file for file in (*needed, *sizes) if sizes.get(file) is None]:
        raise ValueError(f"{name} is not a model of Scanline: it has no {missing[0]}")
    if (total := sum(sizes.values())) > limit:
        raise ValueError(
            f"{name} is too large: {needed[0]}{' and others' if len(sizes) > 1 else ''} of {total / 1e6:,.0f} MB, where"
            f" {limit / 1e6:,.0f} MB are the limit; what you trust, download by `hf download`, and give its directory"
        )
    shown = sys.stderr.isatty() and any(file.will_download for file in files)
    return Path(download(revision=files[0].commit_hash, tqdm_class=_bar(shown)))


def pinned(name: str, directory: Path) -> str | None:
    """Return ORG/NAME@COMMIT, by which other machines get the files that a repository has in the
    cache's `directory`; None where the name is not of a repository."""
    if not is_repository(name) or Path(name).is_dir():
        return None
    return f"{name.partition('@')[0]}@{directory.name}"


def push(directory: Path, name: str, *, private: bool = False, message: str | None = None) -> str:
    """Commit the files of a model, its card and the pictures on it to a repository of the Hub,
    ORG/NAME, or to a branch of it, ORG/NAME@BRANCH, and return the commit's URL. The repository and
    the branch are created where there are none; private: such a repository is."""
    from scanline.model.formats.checkpoint import load_model

    directory = directory.resolve()
    title = model_dir.model_name(directory)
    # A directory from a stranger may link to the user's own files: none of these
    # is sent, and each file is read first.
    names = [CARD, CONFIG, *weight_files(directory), CLASS_HEAD, EVALUATION, GENERATION, INDEX]
    files = {name: _inside(directory, name) for name in names}
    load_model(directory)  # raises where a file is wrong
    model_dir.read_info(directory)
    card = _card(files.pop(CARD), f"# {title}\n\nA linear transformer that paints images.\n")
    files |= {name: _picture(directory, name) for name in _shown(directory, card)[0]}
    api, repository, branch = _open(name)
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()
    with TemporaryDirectory() as folder, _one_sentence(api, name, f"{name}:"):
        # The files of the model, and the card, with metadata at its head.
        for file, path in files.items():
            if path.is_file():
                Path(folder, file).parent.mkdir(parents=True, exist_ok=True)
                Path(folder, file).symlink_to(path)
        write_file(
            Path(folder, CARD), with_metadata(card, title, model_dir.read_evaluation(directory))
        )
        # None: as the organisation has it
        api.create_repo(repository, private=private or None, exist_ok=True)
        if branch:
            api.create_branch(repository, branch=branch, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository,
            folder_path=folder,
            revision=branch,
            commit_message=message or f"Push {title}",
            # else an earlier model's would be read
            delete_patterns=[model_dir.WEIGHTS, CLASS_HEAD, INDEX, EVALUATION, GENERATION, SHARDS],
        )
    return str(commit.commit_url)


def missing_pictures(directory: Path) -> list[str]:
    """Return the pictures that a model's card shows and that are not sent: none
    of that name is in the directory.
    """
    return _shown(directory.resolve(), _card(_inside(directory.resolve(), CARD), ""))[1]


def _shown(directory: Path, card: str) -> tuple[list[str], list[str]]:
    """Return the files that a card shows, relative to the directory, and the
    names of which there are none in it.
    """
    names = ["".join(groups) for groups in MARKDOWN.findall(card)] + HTML.findall(card)
    there: dict[str, None] = {}
    missing: dict[str, None] = {}
    for name in names:
        path = Path(unquote(name.strip().partition("?")[0].partition("#")[0]))
        if ADDRESS.match(name.strip()):
            continue
        if path.is_absolute() or ".." in path.parts or not (directory / path).is_file():
            missing[name.strip()] = None
        else:
            there[str(path)] = None
    return [*there], [*missing]


def _inside(directory: Path, file: str) -> Path:
    """Return where a file of a resolved directory is; ModelDirectoryError where that is
    neither in the directory nor among the blobs of its repository in Hugging Face's cache,
    which links of a snapshot lead to."""
    path = (directory / file).resolve()
    repository = model_dir.cached_repository(directory)
    if not path.is_relative_to(directory) and (
        repository is None or path.parent != repository / "blobs"
    ):
        raise model_dir.ModelDirectoryError(
            f"{directory / file} is a link to {path}, outside of the model's directory, and is not sent;"
            " put a copy there"
        )
    return path


def _picture(directory: Path, file: str) -> Path:
    """Return where a picture of the card is, as `_inside`;
    ModelDirectoryError where it does not begin as one.
    """
    path = _inside(directory, file)
    if path.is_file():
        with path.open("rb") as opened:
            if not opened.read(MAX_MAGIC).startswith(PICTURES):
                raise model_dir.ModelDirectoryError(
                    f"{directory / file} is shown on the card and is no picture"
                )
    return path


def _card(path: Path, missing: str) -> str:
    """Return the card of a model, `missing` where there is none;
    ModelDirectoryError where it is no text.
    """
    with model_dir.reading(path):
        return read_file(path, model_dir.MAX_SMALL_BYTES).decode() if path.exists() else missing


def _open(name: str) -> tuple[Any, str, str | None]:
    """Return the Hub's client, the repository and the revision of a name."""
    match = NAME.fullmatch(name)
    if match is None:
        raise ValueError(
            f"{name!r} is no repository of the Hugging Face Hub; give ORG/NAME or ORG/NAME@REVISION"
        )
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise extras.MissingExtraError(
            f"{name} is no directory; a model of the Hugging Face Hub", "hub"
        ) from None
    return HfApi(**_library()), match[1], match[2]


def _library() -> dict[str, Any]:
    return {"library_name": "scanline", "library_version": extras.version()}


def _bar(shown: bool) -> type:
    """Return huggingface_hub's progress bar, which it shows in logs too, and
    where all is downloaded already.
    """
    from huggingface_hub.utils.tqdm import tqdm

    def start(bar: Any, *arguments: Any, **options: Any) -> None:
        tqdm.__init__(bar, *arguments, **{**options, "disable": not shown})

    return type("Bar", (tqdm,), {"__init__": start})


@contextmanager
def _one_sentence(api: Any, name: str, start: str) -> Iterator[None]:
    """Raise ValueError with one sentence in place of what huggingface_hub
    raises; `start`: of most sentences.
    """
    from huggingface_hub import errors

    repository, _, revision = name.partition("@")
    sentences: dict[type[Exception], str] = {
        errors.GatedRepoError: f"{name} is gated: ask for access at {api.endpoint}/{repository}, and {LOG_IN}",
        errors.RepositoryNotFoundError: f"there is no model {name!r}: neither a directory nor a repository of"
        f" {api.endpoint} (if private, {LOG_IN})",
        errors.RevisionNotFoundError: f"{api.endpoint}/{repository} has no revision {revision!r}",
    }
    # of files and connections, of its HTTP library, and of hf_xet
    expected: tuple[type[Exception], ...] = (
        OSError,
        errors.HfHubHTTPError.__bases__[0],
        RuntimeError,
    )
    try:
        yield
    except expected as error:
        vague = errors.DryRunError | errors.LocalEntryNotFoundError | RuntimeError
        cause = error
        while isinstance(cause, vague) and isinstance(cause.__cause__, Exception):
            cause = cause.__cause__
        sentence = None if _refuses_token(cause) else sentences.get(type(cause))
        raise ValueError(sentence or f"{start} {_reason(api, cause)}") from None


def _refuses_token(error: Exception) -> bool:
    """Return whether the Hub does not know the token that was sent, of which it also
    says that a repository is not there."""
    from huggingface_hub import errors, get_token

    return (
        isinstance(error, errors.HfHubHTTPError)
        and error.response.status_code == 401
        and get_token() is not None
    )


def _reason(api: Any, error: Exception) -> str:
    """Return what kept the Hub from answering as wanted, in words for the middle of a sentence."""
    from huggingface_hub import errors

    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, errors.OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set"
    if isinstance(error, errors.HfHubHTTPError):
        said = " ".join((error.server_message or "").split()).rstrip(".")
        saying = f", {said}" if said else ""
        if _refuses_token(error):
            return f"{api.endpoint} refuses the token that is set{saying}; {LOG_IN}, or log out"
        if error.response.status_code == 401:
            return f"{api.endpoint} wants a token; {LOG_IN}"
        return f"{api.endpoint} answers {error.response.status_code}{saying}"
    if isinstance(error, errors.HfHubHTTPError.__bases__[0]):
        return f"{api.endpoint} cannot be reached ({text})"
    return (
        f"{error.filename}: {error.strerror}"
        if isinstance(error, OSError) and error.filename
        else text
    )
