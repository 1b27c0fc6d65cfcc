"""Findings of a run, in one JSON file that is written again after every finding: nothing is lost if
a run ends early.

schema, date, machine, commit, torch, python, gpu {name, capability, ...}, triton, configuration {dry, minutes}
parts           {name: {status, seconds, reason, findings: [{name, value, unit, note}]}}; status is done, failed or
                skipped; reason is null where the part is done; findings of a
                failed part are those before the failure
"""

import json
import os
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

SCHEMA = 2


@dataclass(frozen=True)
class Finding:
    """One number, or the reason why there is none."""

    name: str  # words separated by slashes
    value: float | None  # None where it could not be measured
    unit: str = ""
    note: str = ""  # what a reader of the number must know; the reason where there is none

    def __str__(self) -> str:
        value = "-" if self.value is None else f"{self.value:,.4g} {self.unit}".rstrip()
        note = f" ({self.note})" if self.note else ""
        return f"{self.name}: {value}{note}"


class ResultsFile:
    """The results of one run, on disk."""

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self.path = path
        self.content: dict[str, Any] = {**header, "parts": {}}
        self._write()

    def status(self, part: str) -> str:
        """Return done, failed or skipped; a part that was never reached was skipped."""
        return str(self.content["parts"].get(part, {}).get("status", "skipped"))

    def findings(self, part: str) -> list[dict[str, Any]]:
        """Return what a part has found so far."""
        return list(self.content["parts"].get(part, {}).get("findings", []))

    def begin(self, part: str) -> None:
        """Record a part that has begun."""
        self._record(part, "failed", "the run ended before this part did")

    def add(self, part: str, finding: Finding) -> None:
        """Record a finding; one that is no number is recorded as none, which JSON has."""
        if finding.value is not None and not isfinite(finding.value):
            finding = replace(finding, value=None, note=f"{finding.value} {finding.note}".rstrip())
        self.content["parts"][part]["findings"].append(asdict(finding))
        self._write()

    def end(self, part: str, seconds: float, failure: str | None) -> None:
        status = "done" if failure is None else "failed"
        self.content["parts"][part].update(status=status, seconds=round(seconds, 1), reason=failure)
        self._write()

    def skip(self, part: str, reason: str) -> None:
        """Record why a part was not begun."""
        self._record(part, "skipped", reason)

    def _record(self, part: str, status: str, reason: str) -> None:
        """Record a part without findings."""
        record = {"status": status, "seconds": 0.0, "reason": reason, "findings": []}
        self.content["parts"][part] = record
        self._write()

    def _write(self) -> None:
        """Replace the file as a whole: a run that is killed while it writes leaves the file
        before."""
        temporary = self.path.with_name(self.path.name + ".new")
        temporary.write_text(json.dumps(self.content, indent=1) + "\n")
        os.replace(temporary, self.path)
