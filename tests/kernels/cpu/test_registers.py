"""The compiled library, disassembled: no innermost loop of a product keeps a sum on the stack."""

import re
import shutil
import subprocess

import pytest

from scanline.kernels.cpu.bindings import LIBRARY
from tests.support.kernels.native import NATIVE

pytestmark = [
    NATIVE,
    pytest.mark.skipif(shutil.which("objdump") is None, reason="there is no objdump"),
]
FUNCTION = re.compile(
    r"^[0-9a-f]+ <(?:void )?(\w+::\w+_block<.*?>)\(.*?>:\n((?:.+\n)+)", re.MULTILINE
)
LINE = re.compile(r"^ *([0-9a-f]+):\s+(.+)", re.MULTILINE)
JUMP = re.compile(r"(?:j\w+|b\.\w+|b|cbn?z .*,)\s+([0-9a-f]+)\b")
PRODUCT = re.compile(r"vfmadd|vpdpbusd|vpmadd|mulps|fmla|[su]mull")
ON_THE_STACK = re.compile(
    r"[xyz]mm\d+.*\(%r[sb]p\)|\(%r[sb]p\).*[xyz]mm|\bstr\s+q.*\[sp|\bldr\s+q.*\[sp"
)
# where no instruction multiplies and adds whole numbers in 8 bits,
# smaller blocks are slower (matmul.h)
SPILLED = re.compile(r"(?:avx2|avx512)::int8_block|portable::")


def loops(code):
    """The instructions of each innermost loop that multiplies."""
    lines = LINE.findall(code)
    place = {address: index for index, (address, _) in enumerate(lines)}
    jumps = [
        (place.get(jump[1], i + 1), i)
        for i, (_, text) in enumerate(lines)
        if (jump := JUMP.match(text))
    ]
    back = [(begin, end) for begin, end in jumps if begin <= end]
    inner = [
        (a, b) for a, b in back if not any((a, b) != (c, d) and a <= c and d <= b for c, d in back)
    ]
    found = [[text for _, text in lines[begin : end + 1]] for begin, end in inner]
    return [loop for loop in found if sum(bool(PRODUCT.match(text)) for text in loop) > 1]


def test_sums_stay_in_registers():
    command = ["objdump", "--disassemble", "--demangle", "--no-show-raw-insn", str(LIBRARY)]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    blocks = {name: loops(body) for name, body in FUNCTION.findall(code)}
    assert sum(map(bool, blocks.values())) > 10
    wrong = {
        name: spilled
        for name, inner in blocks.items()
        if not SPILLED.match(name)
        and (spilled := [text for loop in inner for text in loop if ON_THE_STACK.search(text)])
    }
    assert wrong == {}
