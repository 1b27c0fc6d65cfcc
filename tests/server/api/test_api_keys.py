"""API keys from a file: named, re-read when it changes, counted by name; a broken file changes nothing."""

import json
import logging
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from websockets.exceptions import ConnectionClosed

from scanline.server.api.api_keys import MAX_KEYS, ApiKeys, read_keys
from tests.support.commands import refused
from tests.support.server.metrics_reader import wait_for_metrics
from tests.support.server.running_server import Server, serve
from tests.support.server.shared_servers import KEY, bearer
from tests.support.server.websocket_client import connected
from tests.support.waiting import wait_for

ALICE, BOB = "sk-alice-0001", "sk-bob=0002=="
BROKEN = {  # label: the file's content, part of the sentence
    "a line separator in a comment": (f"# \u2028mallory sk-m\nalice {ALICE} x", "line 2 must be a name"),
    "a name alone": (f"alice {ALICE}\nbob\n", "line 2 must be a name"),
    "three words": (f"alice {ALICE} admin", "line 1 must be a name"),
    "a comma in a key": ("alice sk,1", "line 1 must be a name"),
    "a name with a slash": (f"a/b {ALICE}", "line 1 must be a name"),
    "a long name": (f"{'a' * 65} {ALICE}", "line 1 must be a name"),
    "one key, two names": (f"alice {ALICE}\n# more\nbob {ALICE}", "line 3 repeats a key under another name"),
    "not text": (b"\xff\xfe", "this is not a text file"),
    "too many": ("".join(f"a k{number}\n" for number in range(MAX_KEYS + 1)), f"more than {MAX_KEYS} keys"),
    "too large": ("# " + "a" * 1_000_000, "larger than 1000000 bytes"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text(f"# who may paint\nalice {ALICE}\n\nbob\t{BOB}\n")
    path.chmod(0o640)
    return path


def status(server: Server, key: str) -> int:
    return httpx.get(f"{server.url}/v1/models", headers=bearer(key)).status_code


def test_names_are_those_of_the_file_and_keys_of_the_settings_are_numbered(path: Path) -> None:
    keys = ApiKeys([SecretStr(KEY), SecretStr("sk-2")], path)
    assert [keys.name_of(key.encode()) for key in (KEY, "sk-2", ALICE, BOB)] == ["key-1", "key-2", "alice", "bob"]
    assert [keys.name_of(key) for key in (b"", b"alice", ALICE[:-1].encode(), b"\xff" * 30_000)] == [None] * 4
    assert (keys.names, len(keys)) == (["key-1", "key-2", "alice", "bob"], 4)


def test_a_key_is_replaced_by_a_second_one_of_the_same_name(path: Path) -> None:
    path.write_text(f"alice {ALICE}\nalice sk-alice-0002\n")
    keys = ApiKeys([], path)
    assert keys.names == ["alice"]
    assert keys.name_of(b"sk-alice-0002") == keys.name_of(ALICE.encode()) == "alice"


@pytest.mark.parametrize("label", BROKEN)
def test_a_broken_file_is_refused_at_the_start_and_later_changes_nothing(path: Path, label: str) -> None:
    content, said = BROKEN[label]
    keys = ApiKeys([], path)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=said) as caught:
        keys.reload()
    assert ALICE not in str(caught.value)
    assert keys.name_of(ALICE.encode()) == "alice"
    assert said in refused("serve", "--api-keys-file", path)


@pytest.mark.parametrize("content", ["", "# alice sk-1\n\n"])
def test_a_file_without_keys_is_refused_at_the_start_and_later_revokes_its_keys(path: Path, content: str) -> None:
    keys = ApiKeys([SecretStr(KEY)], path)
    path.write_text(content)
    keys.reload()
    assert keys.names == ["key-1"]
    assert "there is no key in this file" in refused("serve", "--api-keys-file", path)


def test_a_missing_file_or_a_directory_is_refused(tmp_path: Path) -> None:
    assert refused("serve", "--api-keys-file", tmp_path) == f"--api-keys-file: there is no file {tmp_path}"
    assert refused("serve", "--api-keys-file", tmp_path / "none").startswith("--api-keys-file: there is no file ")
    with pytest.raises(ValueError, match="this is not a file"):
        read_keys(tmp_path)


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_file_that_everyone_can_read_is_warned_about(
    path: Path, mode: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path.chmod(mode)
    with caplog.at_level(logging.WARNING):
        read_keys(path)
    assert ("everyone on this machine can read the API keys" in caplog.text) == warned


def test_keys_change_without_a_restart_and_are_named_in_log_and_metrics(grey_directory: Path, path: Path) -> None:
    with serve(grey_directory, "--api-keys-file", str(path), "--api-key", KEY, "--log-format", "json") as server:
        assert any("(3 keys set)" in line for line in server.log)
        with httpx.Client(base_url=server.url, headers=bearer(ALICE)) as client:
            assert client.post("/v1/images/generations", json={"n": 3}).status_code == 200
            with connected(server.url, additional_headers=bearer(BOB)) as websocket:
                assert websocket.paint(type="generate", n=2).order[-1] == "done"
                path.write_text(f"alice {ALICE}\n")
                with pytest.raises(ConnectionClosed, match=r"1008.*The API key was revoked"):
                    websocket.receive()
            status(server, "sk-nobody")
            now = wait_for_metrics(client, lambda now: now.of("http_requests_by_key_total", key_name="bob") == 1)
            assert now.of("images_by_key_total", key_name="alice", model_name="grey") == 3
            assert now.of("images_by_key_total", key_name="bob") == 2
            assert now.of("images_by_key_total", key_name="key-1") == 0
            assert {sample.labels.get("key_name") for sample in now.samples} == {None, "alice", "bob", "key-1"}

        # Another key for Alice; an open connection of the old one ends with its next request.
        path.write_text("alice sk-alice-0002\n")
        wait_for(lambda: status(server, "sk-alice-0002") == 200, "the new key")
        assert [status(server, key) for key in (ALICE, BOB, KEY)] == [401, 401, 200]

        # A broken file changes nothing, nor does one that is gone.
        path.write_text("alice\n")
        wait_for(lambda: any("line 1 must be a name" in line for line in server.log), "a line about the file")
        path.unlink()
        wait_for(lambda: any("No such file" in line for line in server.log), "a line about the missing file")
        assert status(server, "sk-alice-0002") == 200
    events = [json.loads(line) for line in server.log]
    requests = [line for line in events if line["event"] == "request" and line.get("path") == "/v1/images/generations"]
    assert [(line["key"], line["client"]) for line in requests] == [("alice", "127.0.0.1")]
    (job,) = [line for line in events if line["event"] == "job"]
    assert job["key"] == "bob"
    assert all("key" not in line for line in events if line.get("status") == 401)
    assert not [key for key in (ALICE, BOB, KEY, "sk-alice-0002", "sk-nobody") if key in "".join(server.log)]
