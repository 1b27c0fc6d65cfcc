"""The tables of README.md and docs/performance.md, made from recorded measurements: no figure is
typed into a page.

    python -m benchmarks.tables                              write the tables from docs/figures and evaluation.json
    python -m benchmarks.tables --measure cpu                measure this machine first; --models a,b: these alone
    python -m benchmarks.tables --record http LOAD.txt       take over the last line of benchmarks.serving.load
    python -m benchmarks.tables --record gpu RESULTS.json    take over the results of benchmarks.gpu

A table stands between `<!-- table NAME -->` and `<!-- end -->`; its caption says machine, date and
commit.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scanline.model import zoo
from scanline.model.evaluation.metrics import way_words

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs/figures"
PAGES = (ROOT / "README.md", ROOT / "docs/performance.md")
TABLE = re.compile(r"<!-- table (\w+) -->\n.*?<!-- end -->", re.DOTALL)
FACTS = ("date", "machine", "commit", "torch", "others_share_of_cpu")
NOISE = 0.05  # of the processors' time that other programs may take without a word in the caption

# name in the data: name on the page, and the arguments of `scanline bench` and benchmarks.baselines
MODELS = {
    "mnist-small": ("`mnist-small`", ("--model", "mnist-small")),
    "cifar10-small": ("`cifar10-small`", ("--model", "cifar10-small")),
    "mnist": ("the paper's MNIST size", ("--random", "mnist")),
    "cifar10": ("the paper's CIFAR-10 size", ("--random", "cifar10")),
}
# of the paper's models, its tables 1 and 2
PAPER_BITS = {"mnist-small": 0.644, "cifar10-small": 3.40}
Data = dict[str, Any]


def rendered(page: str) -> str:
    """Return the text of a page with every table made anew."""

    def made_anew(table: re.Match[str]) -> str:
        name = table[1]
        return f"<!-- table {name} -->\n{TABLES[name]()}\n<!-- end -->"

    return TABLE.sub(made_anew, page)


def cpu() -> str:
    """Return the table of painting on a processor: seconds of one image and images/s with 64 in
    flight."""
    data = _figures("cpu")
    rows = []
    for name, measured in data["models"].items():
        ways = [measured[way] for way in ("exact", "int8", "authors")]
        one = [way["one"] for way in ways]
        of_64 = [way["of_64"] for way in ways]
        seconds = [f"{_number(value)} s" for value in one]
        rates = [_number(value) for value in of_64]
        rows.append([f"{MODELS[name][0]}, one image", *seconds, f"{one[2] / one[0]:.0f}x"])
        rows.append(["images/s, 64 in flight", *rates, f"{of_64[0] / of_64[2]:.1f}x"])
    return _table(("", "ours", "ours, int8", "authors", "ours / authors"), rows, _where(data))


def ceilings() -> str:
    """Return the table of rates with 64 in flight against torch doing only the model's products."""
    data = _figures("cpu")
    rows = []
    for name, measured in data["models"].items():
        shares = [_share(measured[way]["of_products"]) for way in ("exact", "int8")]
        rows.append([MODELS[name][0], *shares])
    return _table(("", "ours", "ours, int8"), rows, _where(data))


def http() -> str:
    """Return the table of serving: a row a case of benchmarks.serving.load."""
    data = _figures("http")
    rows = []
    for case, result in data["cases"].items():
        row = [case, f"{result['images_per_second']:.0f}", f"{result['served_over_offline']:.2f}"]
        for seconds in result["request_seconds"] + result["first_pixel_seconds"]:
            row.append(f"{seconds:.2g} s")
        rows.append(row)
    names = ("", "images/s", "of offline", "request p50", "p99", "first pixel p50", "p99")
    return _table(names, rows, _where(data))


def gpu() -> str:
    """Return the table of painting and scoring on a GPU."""
    data = _figures("gpu")
    findings = data["findings"]
    counts = {int(name.split("/")[3]) for name in findings if name.startswith("rates/")}
    lines = []  # what it is, and the finding of a model
    for count in sorted(counts, reverse=True):
        place = f"rates/{{}}/float32/{count}/images_per_second"
        lines.append((f"{count:,} in flight", place))
    lines += [
        ("one image, ms", "one_image/{}"),
        ("likelihoods, 512 images in a call", "likelihoods/{}"),
        ("one image classified, ms", "likelihoods/{}/one_image"),
        ("the authors' library, 4,096", "authors/{}/4096/images_per_second"),
    ]
    rows = []
    for what, place in lines:
        values = [findings.get(place.format(name)) for name in MODELS]
        if values != [None] * len(MODELS):
            rows.append([what, *map(_number, values)])
    names = [page for page, _ in MODELS.values()]
    return _table(["images/s", *names], rows, _where(data))


def quality() -> str:
    """Return the table of test results of the shipped models of published sets, from
    evaluation.json."""
    evaluations = [_evaluation(name) for name in PAPER_BITS]
    lines: tuple[tuple[str, Callable[[Data], str]], ...] = (
        ("test bits/dim", _bits),
        ("given the true class", lambda e: _bits(e["classes"]["true_class"])),
        ("where the class is drawn", lambda e: _bits(e["classes"]["any_class"])),
        (
            "classified rightly by the class head",
            lambda e: _share(e["classes"]["by_head"]["accuracy"]),
        ),
        (
            "classified rightly by bits",
            lambda e: _share(e["classes"]["classification"]["accuracy"]),
        ),
        (
            "by default: recognisable samples",
            lambda e: _share(e["quality"]["default"]["recognisable"]),
        ),
        (
            "by default: Frechet distance",
            lambda e: f"{e['quality']['default']['frechet_distance']:.1f}",
        ),
        (
            "copies of training images",
            lambda e: str(e["quality"]["nearest_training_image"]["copies"]),
        ),
    )
    bits = [f"{bits:.3f}" for bits in PAPER_BITS.values()]
    rows = [["the paper's model, bits/dim", *bits]]
    for what, value in lines:
        rows.append([what, *map(value, evaluations)])
    return _table(["", *(MODELS[name][0] for name in PAPER_BITS)], rows)


def guidance() -> str:
    """Return the table of samples by guidance, from evaluation.json."""
    names = ("", "guidance", "as asked for", "recognisable", "Frechet distance")
    rows = []
    for name in PAPER_BITS:
        for row in _evaluation(name)["guidance"]["rows"]:
            # the row of the model's defaults, which the table of quality has
            if row.get("temperature", 1) != 1:
                continue
            shares = (_share(row["as_asked"]), _share(row["recognisable"]))
            distance = f"{row['frechet_distance']:.1f}"
            way = way_words(row).removeprefix("guidance ")
            rows.append([MODELS[name][0], way, *shares, distance])
    return _table(names, rows)


TABLES = {made.__name__: made for made in (cpu, ceilings, http, gpu, quality, guidance)}


def measure(names: Sequence[str]) -> None:
    """Run `scanline bench` and benchmarks.baselines for these models and write
    docs/figures/cpu.json after each."""
    path = FIGURES / "cpu.json"
    data = json.loads(path.read_text()) if path.exists() else {"models": {}}
    for name in names:
        ours = ("bench", "--json", "--batches", "64", "--skip", "reading")
        exact = _bench("scanline", name, *ours)
        int8 = _bench("scanline", name, *ours, "--precision", "int8")
        turns = _bench("benchmarks.baselines", name, "--batches", "1,64")
        one, of_64 = turns["rows"]
        data |= {fact: exact.get(fact) for fact in FACTS}
        data["models"][name] = {
            "exact": _rates(exact) | {"of_64": of_64["ours"]["images_per_second"]},
            "int8": _rates(int8),
            "authors": {
                "one": 1 / one["authors"]["images_per_second"],
                "of_64": of_64["authors"]["images_per_second"],
            },
        }
        path.write_text(json.dumps(data, indent=1) + "\n")


def record(kind: str, source: Path) -> None:
    """Write docs/figures/{http,gpu}.json from a measurement's output."""
    text = source.read_text()
    if kind == "http":
        measured = json.loads(text.splitlines()[-1])
        figures = {fact: measured.get(fact) for fact in (*FACTS, "configuration", "cases")}
        del figures["others_share_of_cpu"]  # the server's own share is in it
    else:
        measured = json.loads(text)
        figures = {fact: measured.get(fact) for fact in (*FACTS, "gpu", "triton")}
        figures["findings"] = {}
        for part in measured["parts"].values():
            for finding in part["findings"]:
                figures["findings"][finding["name"]] = finding["value"]
    (FIGURES / f"{kind}.json").write_text(json.dumps(figures, indent=1) + "\n")


def _bench(module: str, name: str, *arguments: str) -> Data:
    """Return the JSON object of the last line that a program prints of a model."""
    command = (sys.executable, "-m", module, *arguments, *MODELS[name][1])
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: Data = json.loads(done.stdout.splitlines()[-1])
    return result


def _rates(result: Data) -> dict[str, float]:
    last = result["bulk"][-1]
    one = result["one_image"]["seconds_median"]
    return {"one": one, "of_64": last["images_per_second"], "of_products": last["of_matrix_rate"]}


def _figures(name: str) -> Data:
    data: Data = json.loads((FIGURES / f"{name}.json").read_text())
    return data


def _evaluation(name: str) -> Data:
    data: Data = json.loads((zoo.find(name) / "evaluation.json").read_text())
    return data


def _bits(evaluation: Data) -> str:
    return f"{evaluation['bits_per_dim']:.4f} ± {evaluation['standard_error']:.4f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def _number(value: float | None) -> str:
    """Return a number with three digits that count."""
    return "" if value is None else f"{float(f'{value:.3g}'):,.10g}"


def _where(data: Data) -> str:
    machine = data["machine"]
    on = f"{machine['threads']} threads of {machine['cpu']} ({machine['isa']})"
    if "gpu" in data:
        on = data["gpu"]["name"]
    others = data.get("others_share_of_cpu") or 0.0
    shared = f"; other programs used {_share(others)} of the processors" if others > NOISE else ""
    return f"{on}, torch {data['torch']}, {data['date'][:10]}, commit {data['commit']}{shared}."


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    lines = [f"| {' | '.join(row)} |" for row in (names, ["---"] * len(names), *rows)]
    if caption:
        lines += ["", caption]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure or record what is asked for, and write the pages."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tables", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--measure", choices=("cpu",))
    parser.add_argument(
        "--models", default=",".join(MODELS), help="of --measure, separated by commas"
    )
    parser.add_argument("--record", nargs=2, metavar=("KIND", "FILE"))
    options = parser.parse_args(arguments)
    if options.measure:
        measure(options.models.split(","))
    if options.record:
        record(options.record[0], Path(options.record[1]))
    for page in PAGES:
        page.write_text(rendered(page.read_text()))


if __name__ == "__main__":
    main()
