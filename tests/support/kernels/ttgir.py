"""Readers of a compiled kernel's intermediate code for a GPU (ttgir): its copies and its sums."""

import re


def early(ttgir, chained):
    """Whether an asynchronous copy stands before the wait for the previous kernel (the software
    pipeliner moves copies past a wait in its loop, triton #11905), or the wait stands in a loop."""
    before, wait, _ = ttgir[ttgir.index("tt.func public") :].partition("griddepcontrol.wait")
    assert bool(wait) == chained, (
        "a chained kernel must wait for the previous one, and no other kernel"
    )
    return chained and (
        "async_copy_global_to_local" in before
        or before.count("scf.for") > before.count("scf.yield")
    )


def sums(ttgir):
    """The shape and the layout of what each reduction of a kernel adds, in order."""
    layouts = dict(re.findall(r"^(#\w+) = (.*)$", ttgir, re.MULTILINE))
    found = re.findall(r"\}\) : \(tensor<([\dx]+f32), (#\w+)>\)", ttgir)
    return [(shape, layouts[name]) for shape, name in found]


def products_begin_at_zero(ttgir):
    """Whether each product adds to zeros, to another product or to a sum carried through a
    loop. Where Triton has made another term of a sum the product's start, the order of the sum
    depends on the shape of the program."""
    made_by = dict(re.findall(r"^\s*(%[\w#]+?)(?::\d+)? = (\S+) ", ttgir, re.MULTILINE))
    converted = dict(re.findall(r"(%\w+) = ttg\.convert_layout (%[\w#]+) ", ttgir))
    # Blackwell's products add to memory of their own, into which their
    # start is stored unless they overwrite it
    begun = r"(?:= (?:ttng\.warp_group_dot|tt\.dot) %[\w#]+, %[\w#]+,|ttng\.tmem_(?:store|alloc)) (%[\w#]+)"
    starts = re.findall(begun, ttgir)
    assert starts or "ttng.tc_gen5_mma" in ttgir
    for start in starts:
        source = start
        while source in converted:
            source = converted[source]
        maker = made_by.get(source.partition("#")[0], "an argument of a loop")
        if (
            maker not in ("arith.constant", "an argument of a loop", "scf.for", "ttng.tmem_load")
            and "dot" not in maker
        ):
            return False
    return True
