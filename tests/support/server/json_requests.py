"""What many tests of the API send: a picture of the 7 x 5 models with a hole,
and JSON whose answer must be 200.
"""

import numpy as np

from tests.support.pictures import encode, noise, text
from tests.support.server.routes import CLASSIFICATIONS, EDITS, GENERATIONS, LIKELIHOODS  # noqa: F401  # for others

IMAGE = noise(7, 5)
HOLE = np.full((7, 5), 255, np.uint8)  # known bytes before, between and after the bytes to paint
HOLE[2:5, 1:3] = 0
FILES = {"image": encode(IMAGE), "mask": encode(HOLE)}  # of a form
MASKED = {name: text(data) for name, data in FILES.items()}
NOISY = np.full((7, 5), 3, np.uint8)  # a drawing with noise on its ground and its strokes
NOISY[2:4] = 252
CLEAN = np.where(NOISY > 9, 254, 0).astype(np.uint8)


def post(client, url, **fields):
    response = client.post(url, json=fields)
    assert response.status_code == 200, response.text
    return response.json()


def generate(client, **fields):
    return post(client, GENERATIONS, **fields)
