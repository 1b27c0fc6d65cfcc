"""Large messages and uploads: the event loop stays free, and memory a few times their size."""

import base64
import json
import random

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from tests.support.server.error_answers import ONE_SENTENCE
from tests.support.server.json_requests import FILES
from tests.support.server.loop_lag import assert_loop_is_free, peak, reset_peak
from tests.support.server.routes import EDITS, GENERATIONS, LIKELIHOODS
from tests.support.server.running_server import PATIENCE
from tests.support.server.websocket_client import connected

PICTURE = FILES["image"]
LARGEST = 4_000_000  # bytes
MESSAGE_BYTES = 700_000  # that a websocket accepts at least, of the tiny models
ANY = settings(suppress_health_check=list(HealthCheck))
BASE = 20_000_000  # bytes of memory that any request may take, however small it is
FACTOR = 6
JSON = "application/json"
FORM = "multipart/form-data; boundary=x"

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
nonsense = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)
names = st.sampled_from(
    [
        "n",
        "seed",
        "image",
        "mask",
        "user",
        "prompt",
        "model",
        "size",
        "quality",
        "per_pixel",
        "type",
    ]
)
sizes = st.sampled_from([1_000, 60_000, 300_000, LARGEST])


def repeated(unit, size):
    return unit * max(1, size // len(unit))


def many_names(size, seed):
    letters = random.Random(seed)
    return b",".join(b'"%x":%d' % (letters.getrandbits(40), i) for i in range(size // 20))


def document(form, name, unit, size):
    """A document of that form with a name, and a unit many times."""
    return form % (name.encode(), repeated(unit.encode(), size))


def pictures(count, size):
    return json.dumps(
        {"image": [base64.b64encode(PICTURE + bytes(size)).decode()] * count}
    ).encode()


texts = st.text(
    st.characters(exclude_characters='"\\', exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5
)
units = st.sampled_from(
    [
        "[],",
        "{},",
        "[",
        '{"a":',
        "1,",
        '"a":1,',
        "1e9,",
        r"\u00e9",
        r"\/",
        " ",
        "9",
        "A",
        "/",
        "null,",
    ]
)
in_text = texts | units.filter(lambda unit: '"' not in unit)
openings = st.sampled_from(["[", '{"a":', "[{"])
numbers = st.sampled_from(
    [b'{"%s": ' + start + b"%s}" for start in (b"", b"-", b"0.", b"1e", b"1e-")]
)
DOCUMENTS = st.one_of(
    st.builds(lambda size, seed: b"{%s}" % many_names(size, seed), sizes, st.integers(0, 9)),
    st.builds(document, st.just(b'{"%s": [%s0]}'), names, units, sizes),
    st.builds(document, st.just(b'{"%s": "%s"}'), names, in_text, sizes),
    st.builds(document, st.just(b'{"%s": %s'), names, openings, sizes),
    st.builds(document, numbers, names, st.just("7"), sizes),
    st.builds(
        lambda fields: json.dumps(fields).encode(),
        st.dictionaries(names | st.text(), nonsense, max_size=90),
    ),
    st.builds(pictures, st.integers(1, 2100), st.sampled_from([0, 1000])),
)


def assert_refused_or_done(status, body):
    """The answer is one error that does not repeat what was sent, or no error."""
    __tracebackhide__ = True
    if status != 200:
        assert status in (400, 404, 413, 429), body
        assert ONE_SENTENCE.fullmatch(body["error"]["message"]), body
        assert len(json.dumps(body)) < 1000


def send(client, route, content, content_type):
    """Post a body, which must be refused in one sentence or done."""
    response = client.post(route, content=content, headers={"content-type": content_type})
    assert_refused_or_done(response.status_code, response.json())


@ANY
@given(content=DOCUMENTS, route=st.sampled_from([EDITS, LIKELIHOODS]))
def test_a_json_body(client, content, route):
    assert_loop_is_free(client, lambda: send(client, route, content, JSON))


@ANY
@given(content=DOCUMENTS, kind=st.sampled_from(["generate", "complete"]))
def test_a_websocket_message(client, server, content, kind):
    text = content.decode().replace("{", f'{{"type": "{kind}", ', 1)

    def act():
        with connected(server.url) as websocket:
            try:
                websocket.socket.send(text)
                message = json.loads(websocket.socket.recv(timeout=PATIENCE))
            except ConnectionClosed:
                message = {"type": "closed"}  # it is larger than a message may be
                assert len(text) > MESSAGE_BYTES
            if message["type"] == "error":
                assert_refused_or_done(400, message)

    assert_loop_is_free(client, act)


def part(name, header, content):
    return b'--x\r\ncontent-disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % (
        name.encode(),
        header,
        content,
    )


headers = st.sampled_from(
    [b"", b'; filename="a"', b'; filename="a"' + b"\r\na: b" * 7, b"\r\na: b" * 2000]
)
contents = st.builds(
    repeated,
    st.sampled_from([PICTURE, b"\r\n--y", b"\r\n", b"a", b"\xff", b"1"]),
    st.sampled_from([1, 5_000, 300_000]),
)
parts = st.builds(
    lambda name, header, content, count: (
        part(name, header, content) * max(1, min(count, LARGEST // len(content)))
    ),
    names | st.just("image[]"),
    headers,
    contents,
    st.sampled_from([1, 2, 60, 1000, 3000]),
)
charsets = st.sampled_from(
    ["", "; charset=utf-8", "; charset=punycode", "; charset=idna", "; charset=utf-7"]
)


@ANY
@given(form=st.lists(parts, min_size=1, max_size=3), charset=charsets, is_whole=st.booleans())
def test_a_form(client, form, charset, is_whole):
    body = b"".join(form) + (b"--x--\r\n" if is_whole else b"")
    assert_loop_is_free(client, lambda: send(client, EDITS, body, FORM + charset))


HOSTILE = {
    "nonsense keys": lambda: (JSON, b"{%s}" % many_names(LARGEST, 0)),
    "a face in a long text": lambda: (JSON, '{"user": "😀'.encode() + b"a" * LARGEST + b'"}'),
    "a long text": lambda: (JSON, b'{"image": "' + b"A" * LARGEST + b'"}'),
    "headers of a part": lambda: (FORM, part("a", b"\r\na: b" * (LARGEST // 6), b"")),
    "files": lambda: (FORM, part("image", b'; filename="a"', b"") * (LARGEST // 80)),
    "a file": lambda: (FORM, part("image", b'; filename="a"', b"a" * LARGEST)),
}


@pytest.mark.parametrize("label", HOSTILE)
def test_memory_is_a_few_times_what_was_sent(client, server, label):
    content_type, body = HOSTILE[label]()
    before = reset_peak(server)
    send(client, EDITS, body, content_type)
    assert peak(server) - before < FACTOR * len(body) + BASE


def test_memory_of_a_message_is_a_few_times_what_was_sent(server):
    message = f'{{"type": "generate", {many_names(500_000, 0).decode()}}}'
    before = reset_peak(server)
    with connected(server.url) as websocket:
        for _ in range(20):
            websocket.socket.send(message)
            assert websocket.receive().last == "error"
    assert peak(server) - before < FACTOR * len(message) + BASE


@pytest.fixture(scope="module", autouse=True)
def paints_afterwards(server):
    """The server has not been harmed."""
    yield
    assert (
        len(
            httpx.post(
                f"{server.url}{GENERATIONS}", json={"n": 4, "seed": 7}, timeout=PATIENCE
            ).json()["data"]
        )
        == 4
    )
    log = server.log_text
    assert "request failed" not in log, log[log.index("request failed") :][:5000]
