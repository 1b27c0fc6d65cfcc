"""Where an HTTP message can end: the parser is never given a byte of the next one with it."""

import httptools
from hypothesis import given
from hypothesis import strategies as st

from scanline.server.api.transport.message_ends import MessageEnds

PIECES = st.sampled_from([b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"x"])
BODIES = st.lists(PIECES, max_size=6).map(b"".join)


def get() -> bytes:
    return b"GET /a HTTP/1.1\r\nhost: [::1]\r\n\r\n"


def with_length(body: bytes) -> bytes:
    return b"POST /b HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def chunked(body: bytes) -> bytes:
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return b"POST /c HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + chunk + b"0\r\na: b\r\n\r\n"


MESSAGES = st.one_of(st.builds(get), st.builds(with_length, BODIES), st.builds(chunked, BODIES))


class Reader:
    """Reads messages as the protocol does; keeps where each of them ended."""

    def __init__(self) -> None:
        self.parser, self.finder = httptools.HttpRequestParser(self), MessageEnds()
        self.in_message, self.read = False, 0
        self.ends: list[int] = []
        self.completed = 0  # by the current slice
        self.headers: dict[bytes, bytes] = {}

    def on_message_begin(self) -> None:
        self.in_message, self.headers = True, {}

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name] = value

    def on_headers_complete(self) -> None:
        self.finder.body_left = int(self.headers.get(b"content-length", 0))

    def on_message_complete(self) -> None:
        self.in_message = False
        self.completed += 1

    def feed(self, data: bytes) -> None:
        start = 0
        while start < len(data):
            self.completed = 0
            end = self.finder.next(data, start, self.in_message)
            assert end > start
            self.parser.feed_data(data[start:end])
            self.read += end - start
            start = end
            assert self.completed <= 1
            if self.completed:
                self.ends.append(self.read)


@given(st.lists(st.tuples(st.sampled_from([b"", b"\r\n", b"\r\n\r\n"]), MESSAGES), max_size=6), st.data())
def test_each_message_ends_a_slice_however_it_arrives(messages: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    sent, ends = b"", []
    for blank, message in messages:
        sent += blank + message
        ends.append(len(sent))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(sent)), max_size=20)))
    reader = Reader()
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        reader.feed(sent[start:end])
    assert reader.ends == ends
