"""How far a request to paint goes through the code before the engine has it."""

from tests.support.server.walk import walks

MOST_FILES = 20


async def test_a_generation_goes_through_few_files():
    walk = (await walks("generate"))["generate"]
    assert walk.files[0] == "server/api/routes/images.py"
    assert walk.files[-1] == "server/engine/pipe.py"
    assert len(walk.files) <= MOST_FILES, "\n".join(map(str, walk.moves))
