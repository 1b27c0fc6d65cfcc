"""A server on this machine with the routes of the Hugging Face Hub that its client
library calls, and faults to order.

It keeps repositories in memory: commits by their hash, branches by their name. What it answers was
compared with the library's code; it is no mock of that, which runs as it is.
"""

import hashlib
import json
import re
from base64 import b64decode
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.local_server import answering

TOKEN = "hf_of_the_tests"
NAME = r"/(?P<name>[^/]+/[^/]+?)"
API = r"/api/models/(?P<name>[^/]+/[^/]+)"
READ = {  # pattern: the method of LocalHub that answers
    NAME + r"/resolve/(?P<revision>[^/]+)/(?P<file>.+)": "_file",
    API: "_info",
    API + r"/revision/(?P<revision>.+)": "_info",
    API + r"/tree/(?P<revision>.+)": "_tree",
    r"/lfs/(?P<oid>\w+)": "_upload",  # of a store beside the Hub, at addresses that need no token
}
WRITE = {  # for clients with the token
    r"/api/repos/create": "_create",
    r"/api/validate-yaml": "_validate",
    API + r"/branch/(?P<branch>.+)": "_branch",
    API + r"/preupload/.+": "_preupload",
    NAME + r"\.git/info/lfs/objects/batch": "_batch",
    API + r"/commit/(?P<branch>.+)": "_commit",
}
Files = dict[str, bytes]


class Answer(NamedTuple):
    """What is sent: of a body that is interrupted, its first half alone."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = {}  # noqa: RUF012 (never changed)
    interrupted: bool = False


@dataclass
class Repository:
    """A repository: the files of its commits, and the commits of its branches."""

    commits: dict[str, Files] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    private: bool = False
    gated: bool = False

    def commit(self, files, branch="main", message=""):
        """Add a commit of these files to a branch, and return its hash."""
        self.messages.append(message)
        commit = hashlib.sha1(f"{len(self.messages)} {sorted(files)}".encode()).hexdigest()
        self.commits[commit], self.branches[branch] = files, commit
        return commit


@dataclass
class LocalHub:
    url: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)  # METHOD PATH
    interrupted: set[str] = field(default_factory=set)  # files whose downloads end in their middle
    # that files are said to have in place of the true ones
    sizes: dict[str, int] = field(default_factory=dict)
    uploaded: Files = field(default_factory=dict)  # by SHA-256, before a commit names them

    def add(self, name, files, *, gated=False):
        """Commit the files of a directory to a repository, and return the commit's hash."""
        if isinstance(files, Path):
            files = {path.name: path.read_bytes() for path in files.iterdir()}
        return self.repositories.setdefault(name, Repository(gated=gated)).commit(files)

    def clear(self):
        for each in (self.repositories, self.requests, self.interrupted, self.sizes, self.uploaded):
            each.clear()

    def downloaded(self):
        """Return the names of the files that were sent, or part of them."""
        resolved = [one for one in self.requests if re.match("GET .+/resolve/", one)]
        return {one.rpartition("/")[2] for one in resolved}

    def respond(self, exchange):
        body = exchange.body()
        while exchange.headers.get("transfer-encoding") == "chunked":
            size = int(exchange.rfile.readline(), 16)
            body += exchange.rfile.read(size)
            exchange.rfile.readline()
            if size == 0:
                break
        path = unquote(urlsplit(exchange.path).path)
        answer = self.answer(exchange.command, path, body, exchange.headers.get("authorization"))
        exchange.begin(len(answer.body), answer.status, **answer.headers)
        sent = len(answer.body)
        if answer.interrupted:
            sent //= 2
            exchange.close_connection = True
        if exchange.command != "HEAD":
            exchange.wfile.write(answer.body[:sent])

    def answer(self, method, path, body, authorization):
        self.requests.append(f"{method} {path}")
        for pattern, name in {**READ, **WRITE}.items():
            match = re.fullmatch(pattern, path)
            if match is None:
                continue
            if authorization != f"Bearer {TOKEN}" and (authorization or pattern in WRITE):
                return _refused(401, "", "Invalid username or password.")
            try:
                answered = getattr(self, name)(body, **match.groupdict())
            except _RefusedError as refused:
                return _refused(*refused.args)
            if isinstance(answered, Answer):
                return answered
            return Answer(json.dumps(answered).encode())
        return _refused(404, "", f"no route {path}")

    def _at(self, name, revision):
        if (repository := self.repositories.get(name)) is None:
            raise _RefusedError(401, "RepoNotFound", "Repository not found")
        commit = repository.branches.get(revision, revision)
        if commit not in repository.commits:
            raise _RefusedError(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return repository, commit, repository.commits[commit]

    def _info(self, body, name, revision="main"):
        repository, commit, files = self._at(name, revision)
        return {
            "id": name,
            "sha": commit,
            "siblings": [{"rfilename": file} for file in files],
            "private": repository.private,
            "gated": "manual" if repository.gated else False,
        }

    def _tree(self, body, name, revision):
        _, _, files = self._at(name, revision)
        return [self._stored(file, data) for file, data in files.items()]

    def _stored(self, file, data):
        size = self.sizes.get(file, len(data))
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        found = {"type": "file", "path": file, "size": size, "oid": blob}
        if _is_large(file):
            oid = hashlib.sha256(data).hexdigest()
            found["lfs"] = {"oid": oid, "size": size, "pointerSize": 130}
        return found

    def _file(self, body, name, revision, file):
        repository, commit, files = self._at(name, revision)
        if repository.gated:
            raise _RefusedError(403, "GatedRepo", f"Access to model {name} is restricted.")
        if file not in files:
            raise _RefusedError(404, "EntryNotFound", "Entry not found")
        stored = self._stored(file, files[file])
        oid = stored.get("lfs", stored)["oid"]
        size = str(stored["size"])
        headers = {"X-Repo-Commit": commit, "ETag": f'"{oid}"', "X-Linked-Size": size}
        return Answer(files[file], headers=headers, interrupted=file in self.interrupted)

    def _upload(self, body, oid):
        self.uploaded[oid] = body
        return Answer()

    def _validate(self, body):
        return {"errors": [], "warnings": []}

    def _create(self, body):
        asked = json.loads(body)
        name = f"{asked['organization']}/{asked['name']}"
        status = 409
        if name not in self.repositories:
            status = 200
            private = asked.get("private") or asked.get("visibility") == "private"
            repository = self.repositories[name] = Repository(private=private)
            repository.commit({".gitattributes": b""}, message="initial commit")
        created = {"url": f"{self.url}/{name}", "name": name}
        return Answer(json.dumps(created).encode(), status)

    def _branch(self, body, name, branch):
        repository, commit, _ = self._at(name, "main")
        repository.branches.setdefault(branch, commit)
        return {}

    def _preupload(self, body, name):
        files = []
        for file in json.loads(body)["files"]:
            mode = "lfs" if _is_large(file["path"]) else "regular"
            files.append({"path": file["path"], "uploadMode": mode, "shouldIgnore": False})
        return {"files": files}

    def _batch(self, body, name):
        objects = []
        for one in json.loads(body)["objects"]:
            address = {"href": f"{self.url}/lfs/{one['oid']}"}
            objects.append({**one, "actions": {"upload": address}})
        return {"transfer": "basic", "objects": objects}

    def _commit(self, body, name, branch):
        repository, _, before = self._at(name, branch)
        files = dict(before)
        message = ""
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            match line["key"]:
                case "header":
                    message = value["summary"]
                case "file":
                    files[value["path"]] = b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.uploaded[value["oid"]]
                case "deletedFile":
                    del files[value["path"]]
        commit = repository.commit(files, branch, message)
        url = f"{self.url}/{name}/commit/{commit}"
        return {"success": True, "commitOid": commit, "commitUrl": url}


class _RefusedError(Exception):
    """An answer other than 200, with the Hub's headers for it."""


def _refused(status, code, message):
    return Answer(status=status, headers={"X-Error-Code": code, "X-Error-Message": message})


def _is_large(name):
    return name.endswith((".safetensors", ".png"))


@contextmanager
def local_hub():
    hub = LocalHub()
    with answering(hub.respond) as port:
        hub.url = f"http://127.0.0.1:{port}"
        yield hub


def use(hub, cache, monkeypatch):
    """Let huggingface_hub ask this server, without a token, and keep files in `cache`: what it
    reads from HF_ENDPOINT, HF_HUB_CACHE and HF_HOME when it is imported."""
    constants = pytest.importorskip(
        "huggingface_hub.constants", reason="huggingface_hub is not installed"
    )
    changed = {
        "ENDPOINT": hub.url,
        "HUGGINGFACE_CO_URL_TEMPLATE": hub.url + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_CACHE": str(cache),
        "HF_HOME": str(cache),
        "HF_TOKEN_PATH": str(cache / "token"),
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_XET": True,  # uploads as Git LFS has them
    }
    for name, value in changed.items():
        monkeypatch.setattr(constants, name, value)
    monkeypatch.delenv("HF_TOKEN", raising=False)
