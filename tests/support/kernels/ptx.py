"""The float operations of a kernel as PTX has them, of which a kernel with the bits of the CPU
kernel may have none but those of IEEE 754, rounded to nearest, that keep subnormal numbers.
"""

import re

FLOATS = re.compile(r"\.(f16|f16x2|bf16|bf16x2|tf32|f32|f32x2|f64)\b")
INSTRUCTION = re.compile(r"(?:@%?!?\w+ )?([a-z][a-z0-9_.:]*)")
COPIES = re.compile(r"(ld|st|mov|selp|shfl|neg|abs)\.")
# `.rn` must be said: what has no rounding mode may be contracted by the assembler
EXACT = re.compile(
    r"(fma|add|sub|mul|div|sqrt)\.rn\.(f32|f64|f32x2)"
    r"|cvt\.rn\.(f32|f64)\.[su](8|16|32|64)|cvt\.rzi\.[su](8|16|32|64)\.f32|cvt\.f64\.f32"
    r"|cvt\.rn\.f32\.f64|(min|max|setp\.[\w.]+|testp\.\w+)\.(f32|f64)|redux\.sync\.max\.f32"
)


def inexact(ptx):
    """The other operations, each once."""
    found = set()
    for line in ptx.splitlines():
        instruction = INSTRUCTION.match(line.split("//")[0].strip())
        if instruction is None:
            continue
        name = instruction[1]
        if FLOATS.search(name) and not COPIES.match(name) and not EXACT.fullmatch(name):
            found.add(name)
    return sorted(found)
