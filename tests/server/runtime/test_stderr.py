"""Standard error of a server's processes: in the format of the log to the
last line, and never in the way.
"""

import json
import os
import signal
import subprocess
import sys

import httpx
import pytest

from tests.support.commands import in_a_process, sentence_of
from tests.support.server.running_server import SCANLINE
from tests.support.waiting import PATIENCE, wait_for

PRINTING = """
import sys, threading, warnings
from scanline.server.runtime import stderr
stderr.install(["--port", "1", "--log-format=json"])
print("printed", "ü", file=sys.stderr)
warnings.warn("warned")
failing = threading.Thread(target=lambda: 1 / 0)
failing.start()
failing.join()
{}["the last"]
"""
WRONG = {
    "no-such-model": ("--model", "no-such-model"),
    "203.0.113.7": ("--host", "203.0.113.7"),
    "--slots": ("--slots", "many"),
    "--no-such": ("--no-such",),
}


def records(text):
    """The lines, of which each must be JSON with the fields that those of the log have."""
    lines = [json.loads(line) for line in text.splitlines()]
    assert all({"event", "level", "logger", "timestamp"} <= line.keys() for line in lines)
    return lines


def test_whatever_is_printed_is_a_line_of_json():
    command = [sys.executable, "-c", PRINTING]
    ran = subprocess.run(command, stderr=subprocess.PIPE, text=True, cwd="/", check=False)
    events = [record["event"] for record in records(ran.stderr)]
    assert events[0] == "printed ü"
    text = "\n".join(events)
    for words in ("UserWarning: warned", "Exception in thread", "ZeroDivisionError"):
        assert words in text
    assert events[-1].startswith("Traceback")
    assert events[-1].endswith("KeyError: 'the last'")


@pytest.mark.parametrize("word", WRONG)
def test_the_last_words_of_a_server_that_cannot_start_are_json(word):
    ran = in_a_process("serve", "--log-format", "json", *WRONG[word])
    assert (ran.status, ran.out) == (2, "")
    assert word in "\n".join(record["event"] for record in records(ran.err))


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_server_starts_and_stops_where_its_log_cannot_be_written(grey_directory, tmp_path, form):
    socket = tmp_path / "socket"
    options = [
        "--model",
        grey_directory,
        "--unix-socket",
        socket,
        "--log-format",
        form,
        "--threads",
        "1",
    ]
    with (
        open("/dev/full", "w") as full,
        httpx.Client(transport=httpx.HTTPTransport(uds=str(socket))) as client,
    ):

        def is_ready():
            assert process.poll() is None
            return socket.exists() and client.get("http://localhost/readyz").status_code == 200

        process = subprocess.Popen(
            [SCANLINE, "serve", *map(str, options)], stdout=full, stderr=full
        )
        try:
            wait_for(is_ready, "a server that is ready")
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(PATIENCE)
    assert status == 0


def test_without_a_temporary_directory_the_reason_is_one_sentence(tmp_path, monkeypatch):
    """Python looks for one at each start; here none of its places can be written."""
    (tmp_path / "tempfile.py").write_text(
        NO_PLACE.format(os.path.join(os.path.dirname(os.__file__), "tempfile.py"))
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said = sentence_of(in_a_process("serve", "--port", "0"))
    assert said.startswith("No usable temporary directory found in [")


NO_PLACE = """
exec(compile(open({0!r}).read(), {0!r}, "exec"))
_candidate_tempdir_list = lambda: ["/proc/none", "/sys/none"]
"""
