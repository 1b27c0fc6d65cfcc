"""A TCP proxy between the browser and a server, whose connections a test can cut and restore."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Proxy:
    """Listens on a free port and forwards every connection to `port`."""

    def __init__(self, port: int) -> None:
        self.port, self.is_cut, self.ends = port, False, set[socket.socket]()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.threads = [threading.Thread(target=self._accept)]
        self.threads[0].start()

    def cut(self) -> None:
        """Closes every connection, and each new one until `restore`."""
        self.is_cut = True
        for end in list(self.ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def restore(self) -> None:
        self.is_cut = False

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.cut()
        for thread in self.threads:
            thread.join()
        for end in (self.listener, *self.ends):
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:  # closed
                return
            if self.is_cut:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self.port))
            self.ends |= {near, far}
            for ends in ((near, far), (far, near)):
                self.threads.append(threading.Thread(target=_forward, args=ends))
                self.threads[-1].start()


def _forward(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_to(url: str) -> Iterator[Proxy]:
    proxy = Proxy(int(url.rsplit(":", 1)[1]))
    try:
        yield proxy
    finally:
        proxy.close()
