#!/usr/bin/env python3
"""Checks docs/invariants.md: each known ID has a test that exists, or a reason why it is left out."""

import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Each letter, its last number, and the numbers that were never given.
KNOWN = {
    "CB": (27, ()),
    "R": (20, (19,)),
    "H": (16, ()),
    "K": (15, (9, 10)),
    "T": (9, ()),
    "F": (10, ()),
    "C": (7, ()),
}


def known_ids():
    for letter, (last, never) in KNOWN.items():
        for number in range(1, last + 1):
            if number not in never:
                yield f"{letter}{number}"


@functools.cache
def tests_of(crate):
    """The names of a crate's tests."""
    folders = [ROOT / "crates" / crate, ROOT / crate]
    files = [file for folder in folders for file in folder.rglob("*.rs")]
    text = "\n".join(file.read_text() for file in files)
    # With whatever stands between the attribute and the function; in `proptest!` there are arguments.
    attribute = r"#\[(?:tokio::)?test(?:\([^\]]*\))?\]\s*(?:#\[[^\]]*\]\s*)*"
    return set(re.findall(attribute + r"(?:async )?fn (\w+)", text)) | in_proptest(text)


def in_proptest(text):
    """Tests that a `proptest!` block makes, with their attribute or without."""
    blocks = re.findall(r"proptest! \{(.*?)\n(?:    )?\}\n", text, re.S)
    return set(re.findall(r"\bfn (\w+)", "\n".join(blocks)))


def carries(test, identifier):
    """Whether the name of a test begins with the ID, alone or among others."""
    letter, number = re.fullmatch(r"([A-Z]+)(\d+)", identifier).groups()
    prefix = re.match(r"(?:[a-z]+\d\d_)*", test).group()
    return f"{letter.lower()}{int(number):02}_" in prefix


def main():
    wrong, mapped = [], set()
    doc = (ROOT / "docs" / "invariants.md").read_text()
    for line in doc.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        identifiers = re.fullmatch(r"[A-Z]+\d+(, [A-Z]+\d+)*", cells[0])
        if not line.startswith("|") or not identifiers:
            continue
        tests = re.findall(r"`([\w-]+)::(\w+)`", cells[-1])
        left_out = cells[-1].startswith("left out:") and len(cells[-1]) > 20
        for crate, test in tests:
            if test not in tests_of(crate):
                wrong.append(f"{cells[0]}: no test {test} in {crate}")
        for identifier in cells[0].split(", "):
            mapped.add(identifier)
            of_its_name = any(carries(test, identifier) for _, test in tests)
            if not (left_out or of_its_name or (tests and identifier in ("C5", "C6"))):
                wrong.append(f"{identifier}: no test of its name, and no reason why it is left out")
    known = set(known_ids())
    wrong += [f"{identifier}: neither mapped nor left out" for identifier in sorted(known - mapped)]
    wrong += [f"{identifier}: no such invariant" for identifier in sorted(mapped - known)]
    if wrong:
        sys.exit("docs/invariants.md:\n" + "\n".join(wrong))
    print(f"{len(mapped)} invariants are mapped")


if __name__ == "__main__":
    main()
