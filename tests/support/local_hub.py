"""A server on this machine with the routes of the Hugging Face Hub that its client library calls, and faults to order.

It keeps repositories in memory: commits by their hash, branches by their name. What it answers was compared with the
library's code; it is no mock of that, which runs as it is.
"""

import hashlib
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

TOKEN = "hf_of_the_tests"
Files = dict[str, bytes]


@dataclass
class Repository:
    """A repository: the files of its commits, and the commits of its branches."""

    commits: dict[str, Files] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    private: bool = False
    gated: bool = False

    def commit(self, files: Files, branch: str = "main", message: str = "") -> str:
        """Add a commit of these files to a branch, and return its hash."""
        self.messages.append(message)
        commit = hashlib.sha1(f"{len(self.messages)} {sorted(files)}".encode()).hexdigest()
        self.commits[commit], self.branches[branch] = files, commit
        return commit


@dataclass
class LocalHub:
    """The server's address, its repositories, and what it was asked."""

    url: str
    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)  # METHOD PATH
    ranges: list[str] = field(default_factory=list)  # of the downloads that did not begin at a file's first byte
    interruptions: dict[str, int] = field(default_factory=dict)  # how many downloads of a file end in their middle
    sizes: dict[str, int] = field(default_factory=dict)  # that the list of files has in place of the true ones
    uploaded: Files = field(default_factory=dict)  # by SHA-256, before a commit names them

    def add(self, name: str, directory: Path) -> str:
        """Commit the files of a directory to a repository, and return the commit's hash."""
        files = {path.name: path.read_bytes() for path in directory.iterdir()}
        return self.repositories.setdefault(name, Repository()).commit(files)

    def add_files(self, name: str, files: Files) -> Repository:
        """Add a repository of one commit."""
        repository = self.repositories[name] = Repository()
        repository.commit(files)
        return repository

    def clear(self) -> None:
        """Forget repositories, requests and faults."""
        for each in (self.repositories, self.requests, self.ranges, self.interruptions, self.sizes, self.uploaded):
            each.clear()  # type: ignore[attr-defined]

    def downloaded(self) -> set[str]:
        """Return the names of the files that were sent, or part of them."""
        return {request.rpartition("/")[2] for request in self.requests if re.match("GET .+/resolve/", request)}


@contextmanager
def local_hub() -> Iterator[LocalHub]:
    """Run the server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.hub = hub = LocalHub(f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def use(hub: LocalHub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let huggingface_hub ask this server, without a token, and keep files in `cache`: what it reads from HF_ENDPOINT,
    HF_HUB_CACHE and HF_HOME when it is imported."""
    constants = pytest.importorskip("huggingface_hub.constants", reason="huggingface_hub is not installed")
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HOME", str(cache))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(cache / "token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # uploads as Git LFS has them
    monkeypatch.delenv("HF_TOKEN", raising=False)


class _RefusedError(Exception):
    """An answer other than 200, with the Hub's headers for it."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 (names of http.server)

    def log_message(self, *arguments: object) -> None:
        pass

    @property
    def hub(self) -> LocalHub:
        return self.server.hub  # type: ignore[attr-defined]

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        try:
            self._route(path, body)
        except _RefusedError as refused:
            status, code, message = refused.args
            self._send(status, b"", {"X-Error-Code": code, "X-Error-Message": message})

    def _route(self, path: str, body: bytes) -> None:
        if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self._file(*match.groups())
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            return self._json(self._info(match[1], match[2] or "main"))
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)", path):
            return self._json(self._tree(match[1], match[2]))
        if match := re.fullmatch("/lfs/(.+)", path):  # of a store beside the Hub, at addresses that need no token
            self.hub.uploaded[match[1]] = body
            return self._send(200, b"")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise _RefusedError(401, "", "Invalid username or password.")
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            return self._json({"errors": [], "warnings": []})
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/branch/(.+)", path):
            repository = self._repository(match[1])
            repository.branches.setdefault(match[2], repository.branches["main"])
            return self._json({})
        if match := re.fullmatch(r"/api/models/[^/]+/[^/]+/preupload/.+", path):
            modes = [(file["path"], _is_large(file["path"])) for file in json.loads(body)["files"]]
            files = [{"path": name, "uploadMode": "lfs" if large else "regular"} for name, large in modes]
            return self._json({"files": [{**file, "shouldIgnore": False, "oid": None} for file in files]})
        if path.endswith(".git/info/lfs/objects/batch"):
            return self._batch(json.loads(body))
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/(.+)", path):
            return self._commit(match[1], match[2], [json.loads(line) for line in body.splitlines()])
        raise _RefusedError(404, "", f"no route {path}")

    def _repository(self, name: str) -> Repository:
        if (repository := self.hub.repositories.get(name)) is None:
            raise _RefusedError(401, "RepoNotFound", "Repository not found")
        return repository

    def _commit_of(self, name: str, revision: str) -> tuple[str, Files]:
        repository = self._repository(name)
        commit = repository.branches.get(revision, revision)
        if commit not in repository.commits:
            raise _RefusedError(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit, repository.commits[commit]

    def _info(self, name: str, revision: str) -> dict[str, Any]:
        commit, files = self._commit_of(name, revision)
        entries = self._entries(files)
        siblings = [{"rfilename": each["path"], "size": each["size"], "blobId": each["oid"]} for each in entries]
        gated = "manual" if self._repository(name).gated else False
        return {"id": name, "modelId": name, "sha": commit, "siblings": siblings, "private": False, "gated": gated}

    def _tree(self, name: str, revision: str) -> list[dict[str, Any]]:
        return self._entries(self._commit_of(name, revision)[1])

    def _entries(self, files: Files) -> list[dict[str, Any]]:
        """Return the list of files as the Hub's tree has it."""
        entries = []
        for name, data in files.items():
            size = self.hub.sizes.get(name, len(data))
            entry = {"type": "file", "path": name, "size": size, "oid": _blob_id(data)}
            large = {"oid": _sha256(data), "size": size, "pointerSize": 130} if _is_large(name) else None
            entries.append(entry | ({"lfs": large} if large else {}))
        return entries

    def _file(self, name: str, revision: str, file: str) -> None:
        commit, files = self._commit_of(name, revision)
        if self._repository(name).gated:
            raise _RefusedError(403, "GatedRepo", f"Access to model {name} is restricted.")
        if file not in files:
            raise _RefusedError(404, "EntryNotFound", "Entry not found")
        data = files[file]
        etag = _sha256(data) if _is_large(file) else _blob_id(data)
        headers = {"X-Repo-Commit": commit, "ETag": f'"{etag}"', "Accept-Ranges": "bytes"}
        first = 0
        if asked := self.headers.get("Range"):
            first = int(asked.removeprefix("bytes=").partition("-")[0])
            self.hub.ranges.append(asked)
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
        interrupted = self.command == "GET" and self.hub.interruptions.get(file, 0) > 0
        if interrupted:
            self.hub.interruptions[file] -= 1
        self._send(206 if asked else 200, data[first:], headers, interrupted=interrupted)

    def _create(self, asked: dict[str, Any]) -> None:
        name = f"{asked['organization']}/{asked['name']}"
        known = name in self.hub.repositories
        if not known:
            private = asked.get("private") or asked.get("visibility") == "private"
            repository = self.hub.repositories[name] = Repository(private=private)
            repository.commit({".gitattributes": b""}, message="initial commit")
        self._json({"url": f"{self.hub.url}/{name}", "name": name}, 409 if known else 200)

    def _batch(self, asked: dict[str, Any]) -> None:
        objects = [
            {**each, "actions": {"upload": {"href": f"{self.hub.url}/lfs/{each['oid']}"}}} for each in asked["objects"]
        ]
        self._json({"transfer": "basic", "objects": objects})

    def _commit(self, name: str, branch: str, lines: list[dict[str, Any]]) -> None:
        files, message = dict(self._commit_of(name, branch)[1]), ""
        for line in lines:
            value = line["value"]
            match line["key"]:
                case "header":
                    message = value["summary"]
                case "file":
                    files[value["path"]] = b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.hub.uploaded[value["oid"]]
                case "deletedFile":
                    del files[value["path"]]
        commit = self._repository(name).commit(files, branch, message)
        self._json({"success": True, "commitOid": commit, "commitUrl": f"{self.hub.url}/{name}/commit/{commit}"})

    def _json(self, value: Any, status: int = 200) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, *, interrupted: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body[: len(body) // 2] if interrupted else body)
        self.close_connection = self.close_connection or interrupted


def _is_large(name: str) -> bool:
    return name.endswith((".safetensors", ".png"))


def _blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
