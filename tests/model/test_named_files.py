"""Files that a user names: links are followed, devices and pipes are written to, modes are kept."""

import os
import stat
from pathlib import Path
from threading import Thread

from scanline.model.named_files import is_stream, write_output


def test_the_target_of_a_link_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to("target")
    write_output(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_output(pipe, b"new")
    reader.join()
    assert read == [b"new"]
    assert is_stream(pipe)


def test_a_new_file_has_the_mode_of_any_and_a_long_name(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    new = tmp_path / ("n" * 255)
    write_output(new, b"new")
    assert new.read_bytes() == b"new"
    assert new.stat().st_mode == (tmp_path / "other").stat().st_mode
