"""What somebody has put where a file is written, a link or a
pipe, is replaced and never followed.
"""

import os

import pytest

from scanline.model.base.atomic import make_folder, write_file
from scanline.model.base.named_files import write_output
from scanline.model.images.saving import save_images
from tests.support.pictures import noise


def _link(path, secret):
    path.symlink_to(secret)


def _hard_link(path, secret):
    path.hardlink_to(secret)


def _dangling(path, secret):
    path.symlink_to(secret.with_name("made"))


def _chain(path, secret):
    path.with_name("next").symlink_to(secret)
    path.symlink_to("next")


def _pipe(path, secret):
    os.mkfifo(path)


PLANTS = [_link, _hard_link, _dangling, _chain, _pipe]


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "home/secret"
    path.parent.mkdir()
    path.write_text("secret")
    path.chmod(0o600)
    return path


def _is_kept(secret):
    (alone,) = secret.parent.iterdir()
    return alone.read_text() == "secret"


@pytest.mark.parametrize("plant", PLANTS)
def test_pictures_of_a_folder_replace_what_is_there(tmp_path, secret, plant):
    out = tmp_path / "out"
    out.mkdir()
    plant(out / "1.png", secret)
    save_images(noise(3, 4, 4), out)
    assert (out / "1.png").read_bytes().startswith(b"\x89PNG")
    assert _is_kept(secret)


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("durable", [True, False])
def test_a_file_replaces_what_is_there(tmp_path, secret, plant, durable):
    path = tmp_path / "loss.csv"
    plant(path, secret)
    write_file(path, "new", durable=durable)
    assert path.read_text() == "new"
    assert not path.is_symlink()
    assert _is_kept(secret)


def test_a_folder_of_ours_is_no_link(tmp_path, secret):
    make_folder(tmp_path / "plateau")
    (tmp_path / "planted").symlink_to(secret.parent)
    with pytest.raises(OSError, match="it is a link, which may lead anywhere"):
        make_folder(tmp_path / "planted")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes another user's links")
def test_another_users_link_is_not_followed_where_an_output_is_named(tmp_path, secret):
    path = tmp_path / "sheet.png"
    path.symlink_to(secret)
    os.lchown(path, 4711, 4711)
    write_output(path, b"new")
    assert path.read_bytes() == b"new"
    assert _is_kept(secret)


def test_a_file_that_cannot_be_made_is_named_as_the_user_named_it(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        write_file(tmp_path / "gone" / "a.png", b"")
    assert raised.value.filename == str(tmp_path / "gone" / "a.png")
