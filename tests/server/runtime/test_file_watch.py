"""Watched files: each change is read once, whether a signal or
the watch itself notices it first.
"""

from scanline.server.runtime.file_watch import FileWatch


def test_what_a_signal_has_read_is_no_change_for_the_watch(tmp_path):
    path = tmp_path / "keys"
    path.write_text("first")
    watch = FileWatch([path], lambda: None)
    path.write_text("the second")
    assert watch.signature() != watch.seen
    watch.reload_or_log()
    assert watch.signature() == watch.seen
