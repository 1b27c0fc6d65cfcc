"""The official OpenAI client, unchanged but for its base_url; without
retries unless a test sets max_retries.

openai is imported by functions: every worker collects all tests, one runs those
of this client (tests/conftest.py).
"""

import base64

import numpy as np

from tests.support.pictures import decode
from tests.support.server.running_server import PATIENCE


def official(url, **options):
    import openai

    ours = {
        "base_url": f"{url}/v1",
        "api_key": "none is needed",
        "max_retries": 0,
        "timeout": PATIENCE,
    }
    return openai.OpenAI(**{**ours, **options})


def pictures(answer):
    """The images [n, ...] of an answer."""
    return decoded([one.b64_json or "" for one in answer.data])


def decoded(texts):
    """The images [n, ...] of files in base64."""
    return np.stack([decode(base64.b64decode(text)) for text in texts])
