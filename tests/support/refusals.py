"""What is refused, and with which sentence: one table, which a test of each face goes through.

A row is a task, what is asked of it, the sentence, and its code. The parameter that the error names
is the last of what is asked; one that is None is left out. The model is that of `shapes.GUIDED`,
where none is asked for; `grey` knows no classes. A picture is IMAGE, where none is asked about.
"""

# ruff: noqa: E501

from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from tests.support.pictures import encode, noise
from tests.support.server.json_requests import HOLE, IMAGE

SLOTS = 16  # of the server
MAX_IMAGES = 20  # of a request to it
LOW = noise(6, 5)
ALL = np.full((7, 5), 255, np.uint8)
NONE = np.zeros((7, 5), np.uint8)
GREY = np.full((7, 5), 128, np.uint8)
CUT = encode(IMAGE)[:50]


class Refusal(NamedTuple):
    task: str
    asked: dict[str, Any]
    sentence: str
    code: str = "invalid_value"

    @property
    def param(self):
        return list(self.asked)[-1]

    def __str__(self):
        return f"{self.task} {self.asked}"[:60]


def rows(*table):
    return [Refusal(*row) for row in table]


# fmt: off
# over HTTP in JSON, in a form and on the websocket, in Python and on the command line
EVERYWHERE = rows(
    ("generate", {"temperature": -1e-07}, "temperature must be from 0 to 2, not -1e-07."),
    ("generate", {"temperature": 2.1}, "temperature must be from 0 to 2, not 2.1."),
    ("generate", {"guidance": 2}, "guidance needs a class, or a prompt that names one."),
    ("generate", {"class": "none", "guidance": 2}, "guidance needs a class, or a prompt that names one."),
    ("generate", {"class": ["none", "none"], "guidance": 2}, "guidance needs a class, or a prompt that names one."),
    ("generate", {"class": "star", "guidance": 0.5}, "guidance must be from 1 (none) to 10, not 0.5."),
    ("generate", {"class": "star", "guidance": 11}, "guidance must be from 1 (none) to 10, not 11."),
    ("generate", {"best_of": 2}, "best_of needs a class, or a prompt that names one."),
    ("generate", {"class": ["none", "none"], "best_of": 2}, "best_of needs a class, or a prompt that names one."),
    ("generate", {"class": "star", "best_of": 0}, "best_of must be a whole number from 1 to 8, not 0."),
    ("generate", {"class": "star", "best_of": 9}, "best_of must be a whole number from 1 to 8, not 9."),
    ("generate", {"class": "cat"}, "class must be one of circle, square, star, not 'cat'."),
    ("generate", {"class": 1}, "class must be one of circle, square, star, not '1'."),
    ("generate", {"class": ["star", "cat"]}, "class must be one of circle, square, star, not 'cat'."),
    ("generate", {"class": []}, "class must list at least one class."),
    ("generate", {"class": ["star", "any"]}, 'class "any" cannot be in a list of classes; name each of them.'),
    ("generate", {"class": ["star", "box"], "n": 3}, "n must be 2, the number of classes that are listed, or be left out."),
    ("generate", {"model": "grey", "class": "star"}, "This model knows no classes; leave class out."),
    ("generate", {"model": "grey", "guidance": 2}, "This model cannot be guided: it knows no classes; leave guidance out.", "guidance_not_supported"),
    ("complete", {"keep_rows": 7}, "keep_rows must be a whole number from 0 to 6, so that something is left to paint, not 7."),
    ("complete", {"keep_rows": 3, "class": "any"}, 'class "any" is for images that are painted from nothing; leave class out.'),
    ("complete", {"keep_rows": 3, "class": ["star", "box"]}, "class: a list of classes is for images that are painted from nothing; give one class."),
    ("complete", {"model": "grey", "keep_rows": 3, "class": "star"}, "This model knows no classes; leave class out."),
    ("complete", {"mask": HOLE, "particles": 0}, "particles must be a whole number from 1 to 64, not 0."),
    ("complete", {"mask": HOLE, "particles": 65}, "particles must be a whole number from 1 to 64, not 65."),
    ("complete", {"mask": HOLE, "class": "star", "guidance": 2, "particles": 4}, "guidance and particles cannot be combined; send one of them."),
    ("score", {"class": "any"}, 'class "any" is for images that are painted from nothing; leave class out.'),
    ("score", {"class": "cat"}, "class must be one of circle, square, star, not 'cat'."),
    ("score", {"model": "grey", "class": "star"}, "This model knows no classes; leave class out."),
    ("estimate", {"mask": HOLE, "repeats": 1}, "repeats must be a whole number from 2 to 256, not 1."),
    ("estimate", {"mask": HOLE, "repeats": 257}, "repeats must be a whole number from 2 to 256, not 257."),
    ("estimate", {"keep_rows": 0}, "keep_rows leaves nothing known, so that there is nothing to measure.", "invalid_mask"),
    ("estimate", {"keep_rows": 7}, "keep_rows must be a whole number from 0 to 6, so that something is left to paint, not 7."),
    ("classify", {"model": "grey"}, "This model knows no classes and cannot classify."),
    ("compress", {"class": "cat"}, "class must be one of circle, square, star, not 'cat'."),
    ("compress", {"model": "grey", "class": "star"}, "This model knows no classes; leave class out."),
)

# in JSON, in a form and on the websocket
SERVED = rows(
    ("generate", {"n": 0}, "n must be at least 1."),
    ("generate", {"n": MAX_IMAGES + 1}, "n: 21 images exceed the limit of 20 per request."),
    ("generate", {"n": "4"}, "n must be a whole number."),
    ("generate", {"seed": -2}, "seed must be at least -1."),
    ("generate", {"seed": 2**63}, "seed must be at most 9223372036854775807."),
    ("generate", {"temperature": float("nan")}, "temperature must be a finite number."),
    ("generate", {"class": "star", "guidance": float("inf")}, "guidance must be a finite number."),
    ("generate", {"class": "star", "guidance": "2"}, "guidance must be a number."),
    ("generate", {"class": "star", "n": 11, "guidance": 2}, "guidance: 11 images take 22 slots, two each unless it is 1, above the limit of 20 per request."),
    ("generate", {"class": "star", "n": 3, "best_of": 7}, "best_of: 3 images take 21 slots, 7 each, above the limit of 20 per request."),
    ("generate", {"class": True}, "class must be a name of at most 256 characters, or a list of at most 1,024 such names."),
    ("generate", {"class": ["star", None]}, "class must be a name of at most 256 characters, or a list of at most 1,024 such names."),
    ("generate", {"class": ["star"] * 1025}, "class must be a name of at most 256 characters, or a list of at most 1,024 such names."),
    ("generate", {"class": ["star"] * 21}, "class: 21 images exceed the limit of 20 per request."),
    ("generate", {"class_": "star"}, "class_ is not a field of this request.", "unknown_parameter"),
    ("generate", {"prompt": "a star", "class": "square"}, "class and prompt name different classes; send one of them."),
    ("generate", {"prompt": "a cat"}, "prompt names no class of this model, which knows circle, square, star.", "prompt_not_supported"),
    ("generate", {"model": "grey", "prompt": "a cat"}, "This model knows no classes; leave prompt out or empty.", "prompt_not_supported"),
    ("generate", {"model": "white"}, "The model 'white' does not exist; GET /v1/models lists those that do.", "model_not_found"),
    ("generate", {"model": ""}, "The model '' does not exist; GET /v1/models lists those that do.", "model_not_found"),
    ("generate", {"model": "../grey"}, "The model '../grey' does not exist; GET /v1/models lists those that do.", "model_not_found"),
    ("generate", {"model": "GREY"}, "The model 'GREY' does not exist; GET /v1/models lists those that do.", "model_not_found"),
    ("generate", {"model": "grey "}, "The model 'grey ' does not exist; GET /v1/models lists those that do.", "model_not_found"),
    ("generate", {"prompt": "a star", "class": ["star"]}, "class and prompt exclude each other where one is a list; send one."),
    ("generate", {"temprature": 0.9}, "temprature is not a field of this request.", "unknown_parameter"),
    ("generate", {"keep_rows": 4}, "keep_rows is not a field of this request.", "unknown_parameter"),
    ("generate", {"particles": 4}, "particles is not a field of this request.", "unknown_parameter"),
    ("generate", {"image": IMAGE}, "image is not a field of this request.", "unknown_parameter"),
    ("generate", {"stream": False, "partial_images": 2}, "partial_images needs stream: true."),
    ("generate", {"response_format": "bytes"}, "response_format must be 'b64_json' or 'url'."),
    ("generate", {"output_format": "jpeg"}, "output_format must be 'png', 'webp', 'gif' or 'apng'."),
    ("generate", {"background": "transparent"}, "background 'transparent' is not supported; leave it out or send auto or opaque.", "unsupported_parameter"),
    ("complete", {"keep_rows": "half"}, "keep_rows must be a whole number."),
    ("complete", {"keep_rows": 3, "temperature": "0,5"}, "temperature must be a number."),
    ("complete", {"keep_rows": 3, "class": "star", "guidance": "strong"}, "guidance must be a number."),
    ("complete", {"keep_rows": 3, "stream": "2"}, "stream must be true or false."),
    ("complete", {"keep_row": 3}, "keep_row is not a field of this request.", "unknown_parameter"),
    ("complete", {"keep_rows": 3, "class": "star", "best_of": 2}, "best_of is not a field of this request.", "unknown_parameter"),
    ("complete", {"keep_rows": 3, "per_pixel": True}, "per_pixel is not a field of this request.", "unknown_parameter"),
    ("complete", {"mask": HOLE, "particles": "many"}, "particles must be a whole number from 1 to 64, not 'many'."),
    ("complete", {"mask": HOLE, "particles": 1.5}, "particles must be a whole number from 1 to 64, not 1.5."),
    ("complete", {"mask": HOLE, "particles": SLOTS + 1}, "This server has 16 slots, and an image of 17 particles needs one for each."),
    ("complete", {"mask": HOLE, "n": 2, "particles": SLOTS}, "particles: 2 images take 32 slots above the limit of 20 per request."),
    ("complete", {"image": [IMAGE] * 3, "keep_rows": 3, "n": 7}, "n: 21 images exceed the limit of 20 per request."),
    ("complete", {"mask": HOLE, "keep_rows": 3}, "mask and keep_rows exclude each other; send one of them."),
    ("complete", {"particles": 4, "mask": None}, "Send mask or keep_rows, or an image whose alpha is 0 where it is to be painted.", "missing_parameter"),
    ("complete", {"mask": LOW}, "mask is 5x6; the model needs exactly 5x7.", "wrong_size"),
    ("complete", {"mask": ALL}, "mask leaves nothing to paint: no pixel has grey 0.", "invalid_mask"),
    ("complete", {"mask": GREY}, "mask has grey values between 0 (paint here) and 255 (keep).", "invalid_mask"),
    ("complete", {"mask": CUT}, "mask is not a readable PNG, WebP, JPEG or BMP picture.", "invalid_image"),
    ("complete", {"keep_rows": 3, "image": LOW}, "image is 5x6; the model needs exactly 5x7.", "wrong_size"),
    ("complete", {"image": np.dstack((IMAGE, ALL))}, "image leaves nothing to paint: no pixel has alpha 0.", "invalid_mask"),
    ("complete", {"keep_rows": 3, "image": [IMAGE, CUT]}, "Picture 2 of 2: image is not a readable PNG, WebP, JPEG or BMP picture.", "invalid_image"),
    ("score", {"image": [IMAGE, LOW]}, "Picture 2 of 2: image is 5x6; the model needs exactly 5x7.", "wrong_size"),
    ("score", {"particles": 16}, "particles needs a mask or keep_rows."),
    ("score", {"temperature": 0.9}, "temperature is not a field of this request.", "unknown_parameter"),
    ("estimate", {"mask": HOLE, "particles": SLOTS + 1}, "This server has 16 slots, and an image of 17 particles needs one for each."),
    ("estimate", {"mask": HOLE, "per_pixel": True}, "per_pixel and a mask exclude each other; leave one of them out."),
    ("estimate", {"mask": HOLE, "keep_rows": 3}, "mask and keep_rows exclude each other; send one of them."),
    ("estimate", {"mask": NONE}, "mask leaves nothing known, so that there is nothing to measure.", "invalid_mask"),
    ("classify", {"class": "star"}, "class is not a field of this request.", "unknown_parameter"),
    ("classify", {"mask": HOLE}, "mask is not a field of this request.", "unknown_parameter"),
    ("classify", {"image": LOW}, "image is 5x6; the model needs exactly 5x7.", "wrong_size"),
    ("compress", {"output_format": "png"}, "output_format must be 'json' or 'file'."),
    ("compress", {"images_a_code": 0}, "images_a_code must be a whole number from 1 to 4096, not 0."),
    ("compress", {"keep_rows": 3}, "keep_rows is not a field of this request.", "unknown_parameter"),
    ("decompress", {"images": "3,7"}, "images: 7 is not among the images 0 to 6."),
    ("decompress", {"images": "3-2"}, "images: 3-2 is not among the images 0 to 6."),
    ("decompress", {"images": "1,0-2"}, "images: name each image once."),
    ("decompress", {"images": "all"}, "images must be numbers and ranges, such as 3,17-20, not 'all'."),
    ("decompress", {"seed": 4}, "seed is not a field of this request.", "unknown_parameter"),
    ("decompress", {"partial_images": 2}, "partial_images needs stream: true."),
)

# of types that forms do not have, or of what the websocket does not do
IN_JSON = rows(
    ("generate", {"stream": True, "partial_images": 4}, "partial_images must be at most 3."),
    ("generate", {"size": "28x28"}, "size must be auto or 5x7, the model's own, not '28x28'; size_policy: resize answers with another size."),
    ("generate", {"size_policy": "resize", "size": "0x5"}, "size must be auto or WIDTHxHEIGHT, each from 1 to 2048, not '0x5'."),
    ("generate", {"size_policy": "resize", "size": "2049x5"}, "size must be auto or WIDTHxHEIGHT, each from 1 to 2048, not '2049x5'."),
    ("generate", {"n": 5, "size_policy": "resize", "size": "2048x2048"}, "size: ask for at most 4 images of 2048x2048 in one request."),
    ("complete", {"mask": HOLE, "particles": [4]}, "particles must be a whole number from 1 to 64, not [4]."),
    ("complete", {"mask": HOLE, "particles": True}, "particles must be a whole number from 1 to 64, not True."),
    ("complete", {"keep_rows": 3, "n": 10**4300 - 1}, "n must be at most 2147483647."),
    ("complete", {"keep_rows": 3, "image": None}, "image is missing.", "missing_parameter"),
    ("complete", {"keep_rows": 3, "image": []}, "image must be a list of at least 1."),
    ("complete", {"keep_rows": 3, "image": 7}, "image must be base64 text."),
    ("complete", {"keep_rows": 3, "image": "seven!"}, "image is not valid base64.", "invalid_base64"),
    ("classify", {"image": None}, "image is missing.", "missing_parameter"),
    ("classify", {"by_bits": "no?"}, "by_bits must be true or false."),
    ("compress", {"class": ["star", "box"]}, "class must be text."),
    ("score", {"image": [""] * 21}, "image: a request may have at most 20 pictures."),
    ("decompress", {"code": []}, "code must be a list of at least 1."),
    ("decompress", {"code": 7}, "code must be base64 text."),
    ("decompress", {"code": "seven!"}, "code is not valid base64.", "invalid_base64"),
    ("decompress", {"code": [""] * 21}, "code: a request may have at most 20 codes."),
    ("inspect", {"layer": 1}, "layer: this model has layers 0 to 0 and heads 0 to 1."),
    ("inspect", {"head": 2}, "head: this model has layers 0 to 0 and heads 0 to 1."),
    ("inspect", {"first": 35}, "first: this model has steps 0 to 34."),
    ("inspect", {"steps": 65}, "steps must be a whole number from 1 to 64, not 65."),
    ("inspect", {"image": [IMAGE] * 2}, "image must be one picture."),
)

ON_THE_WEBSOCKET = rows(
    ("generate", {"stream": True}, "stream applies to POST requests only; a websocket always streams, leave it out.", "stream_not_supported"),
    ("generate", {"size": "28x28", "size_policy": "resize"}, "size_policy must be exact: a websocket sends the model's own pixels."),
    ("generate", {"state": [0, -1]}, "state must be [layer, head], two whole numbers from 0."),
    ("generate", {"state": [0, 0, 0]}, "state must be [layer, head], two whole numbers from 0."),
    ("generate", {"state": [0, True]}, "state must be [layer, head], two whole numbers from 0."),
    ("generate", {"state": [1, 0]}, "state: this model has layers 0 to 0 and heads 0 to 1."),
    ("generate", {"state": [0, 2]}, "state: this model has layers 0 to 0 and heads 0 to 1."),
)

IN_PYTHON = rows(
    ("generate", {"n": 0}, "n must be a whole number of at least 1, not 0."),
    ("generate", {"seed": -2}, "seed must be a whole number from 0 to 2^63 - 1, not -2."),
    ("stream", {"particles": 4}, "particles is for completions; leave it out."),
    ("stream", {"image": IMAGE, "keep_rows": 3, "best_of": 2}, "best_of is for images painted from nothing; leave it out."),
    ("complete", {"mask": None}, "Give keep_rows or mask.", "missing_parameter"),
    ("complete", {"mask": HOLE, "keep_rows": 3}, "mask and keep_rows exclude each other; give one."),
    ("complete", {"mask": ALL}, "mask leaves nothing to paint: every pixel is kept.", "invalid_mask"),
    ("complete", {"mask": HOLE[0] > 0}, "mask must be bool [7, 5], or uint8 of 0 and 255, not bool [5].", "invalid_mask"),
    ("complete", {"mask": GREY}, "mask must be bool [7, 5], or uint8 of 0 and 255, not uint8 [7, 5].", "invalid_mask"),
    ("complete", {"keep_rows": 1, "image": IMAGE[:3]}, "image must be uint8 [7, 5], not uint8 [3, 5]."),
    ("complete", {"keep_rows": 1, "image": [IMAGE, IMAGE]}, "image must be uint8 [7, 5], not uint8 [2, 7, 5]."),
    ("score", {"image": IMAGE / 100}, "images must be whole numbers from 0 to 255, or floats that are such numbers divided by 255."),
    ("score", {"image": []}, "images must be uint8 [n, 7, 5], not float64 [0]."),
    ("score", {"image": Image.new("L", (9, 9))}, "images is 9x9; the model needs exactly 5x7.", "wrong_size"),
    ("estimate", {"mask": None}, "Give keep_rows or mask.", "missing_parameter"),
    ("classify", {"image": IMAGE[:3]}, "images must be uint8 [n, 7, 5], not uint8 [3, 5]."),
    ("classify", {"by_bits": "no"}, "by_bits must be True or False, not 'no'."),
    ("compress", {"images_a_code": 0}, "images_a_code must be a whole number from 1 to 4,096, not 0."),
    ("compress", {"images_a_code": 4097}, "images_a_code must be a whole number from 1 to 4,096, not 4097."),
    ("compress", {"class": ["star", "box"]}, "class_name names 2 classes for 1 images; give one, or one for each."),
)
# fmt: on
