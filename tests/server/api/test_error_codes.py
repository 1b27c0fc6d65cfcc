"""Every error that is raised has a code with a status and a meaning, and every such code is raised."""

import ast
import re
from pathlib import Path

from scanline.server.api.base import error_codes

ROOT = Path(__file__).parents[3]
PLACES = {"ApiError": 0, "InvalidInput": 2, "QueueFullError": 1, "ReloadError": 1}  # of the code


def test_the_codes_of_errors_are_those_that_the_sources_raise():
    raised = set()
    nginx = ROOT / "deploy/kubernetes/ray/nginx.conf"
    strings = set(re.findall(r'"code":"(\w+)"', nginx.read_text()))
    for file in [*ROOT.glob("model/**/*.py"), *ROOT.glob("server/**/*.py")]:
        text = file.read_text()
        if file != Path(error_codes.__file__).resolve():
            strings.update(re.findall(r'"(\w+)"', text))
        for call in ast.walk(ast.parse(text)):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                place = PLACES.get(call.func.id, len(call.args))
                codes = [*call.args[place : place + 1]]
                codes += [word.value for word in call.keywords if word.arg == "code"]
                raised.update(code.value for code in codes if isinstance(code, ast.Constant))
    assert "engine_failed" in raised
    assert raised <= error_codes.STATUSES.keys()
    assert error_codes.STATUSES.keys() <= strings
