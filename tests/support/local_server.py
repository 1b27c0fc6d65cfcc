"""An HTTP server in a thread, whose answers a test writes."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Exchange(BaseHTTPRequestHandler):
    """A request, and what can be sent back."""

    protocol_version = "HTTP/1.1"

    def body(self):
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def begin(self, length=0, status=200, **headers):
        """Send a head; `_` in the names of headers stands for `-`."""
        self.send_response(status)
        for name, value in {**headers, "content-length": str(length)}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, *_):
        pass


@contextmanager
def answering(respond):
    """The port of a server at 127.0.0.1 that answers so, for as long as the context lasts."""
    methods = dict.fromkeys(("do_GET", "do_HEAD", "do_POST", "do_PUT"), lambda self: respond(self))
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Exchange,), methods)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
