#!/usr/bin/env python3
"""Measures what the layers cost and writes it down: bench_table.py [--quick]

Runs the tables of all benches and puts them between the marker comments: a short one, aims beside
what was measured, into README.md, all of them into benches/README.md. `--quick` measures a
twentieth as often, for a first look. Nothing is written unless everything could be measured.
Takes about a quarter of an hour; two CPUs must be free now and then, or `contention` gives up.
"""

import datetime
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- bench -->", "<!-- /bench -->"
# In the order in which they are shown, with what a reader wants to know.
BENCHES = {
    "overhead": "What a layer adds",
    "stream": "What a stream costs",
    "peers": "The same work by others",
    "contention": "Tasks on two threads",
    "growth": "As work grows",
    "memory": "What is held",
}


def fail(message):
    sys.exit(f"bench_table: {message}; nothing was written")


def output(*command):
    try:
        done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    except OSError as error:
        fail(f"`{' '.join(command)}` cannot be run: {error}")
    if done.returncode != 0:
        fail(f"`{' '.join(command)}` failed:\n{done.stderr[-2000:]}")
    return done.stdout


class Table:
    """A Markdown table, its caption before it."""

    def __init__(self, caption, lines):
        self.caption, self.lines = caption, lines
        header, _, *rows = [[cell.strip() for cell in line[2:-2].split(" | ")] for line in lines]
        self.columns = header
        self.rows = {row[0]: row for row in rows}

    def cell(self, row, column):
        return self.rows[row][self.columns.index(column)]

    def number(self, row, column):
        return float(self.cell(row, column))


def tables(text):
    """The tables in what a bench has printed."""
    found, caption, lines = [], "", []
    for line in [*text.splitlines(), ""]:
        if line.startswith("| "):
            lines.append(line)
            continue
        if lines:
            found.append(Table(caption, lines))
            lines = []
        if line.strip():
            caption = line.strip()
    return found


class Measured:
    """What the benches have said."""

    def __init__(self, options):
        self.tables = {}
        for bench in BENCHES:
            print(f"measuring: {bench}", file=sys.stderr)
            command = ["cargo", "bench", "-q", "-p", "benches", "--bench", bench, "--"]
            self.tables[bench] = tables(output(*command, "--table", *options))
            if not self.tables[bench]:
                fail(f"bench {bench} printed no table")

    def find(self, bench, row, column, caption=""):
        for table in self.tables[bench]:
            if table.caption.startswith(caption) and row in table.rows and column in table.columns:
                return table
        fail(f"bench {bench} has no row `{row}` with a column `{column}`: rename it here too")

    def number(self, bench, row, column, caption=""):
        return self.find(bench, row, column, caption).number(row, column)


WHOLE, STREAM = "An answer", "A stream"


def added(measured, row):
    return measured.number("overhead", row, "adds ns", WHOLE)


def aims(measured):
    """What is measured, the aim, what came out, and whether that is met."""

    def at_most(what, limit, value, unit):
        shown = f"{value:.0f}" if value >= 10 else f"{value:.1f}"
        return what, f"at most {limit} {unit}", f"{shown} {unit}", value <= limit

    def part_of(what, limit, value, peer):
        return what, f"at most {limit} of {peer}", f"{value:.2f}", value <= limit

    def beside(ours, theirs):
        return added(measured, ours) / added(measured, theirs)

    yield at_most("Peek beyond reading the JSON", 250, added(measured, "Peek"), "ns")
    yield at_most("closed breaker", 90, added(measured, "Breaker > Peek"), "ns")
    yield part_of(
        "closed breaker", 0.33, beside("Breaker > Peek", "tower-resilience Breaker"),
        "tower-resilience's",
    )
    yield at_most("bulkhead, a permit free", 60, added(measured, "Bulkhead > Peek"), "ns")
    yield part_of(
        "bulkhead, a permit free", 0.25, beside("Bulkhead > Peek", "tower-resilience Bulkhead"),
        "tower-resilience's",
    )
    yield at_most(
        "hedge that is not due, beyond a clone", 30, added(measured, "Hedge that is not due > Peek"),
        "ns",
    )
    yield at_most(
        "breaker, bulkhead, timeout and Peek beyond reading the JSON", 450,
        added(measured, "Breaker > Bulkhead > Timeout > Peek"), "ns",
    )
    yield part_of("timeout", 1.0, beside("Timeout > Peek", "tower Timeout"), "tower's")
    yield at_most("retry, nothing to retry, beyond a clone", 30, added(measured, "Retry > Peek"), "ns")
    yield at_most(
        "retry that cannot retry", 15, added(measured, "Retry that cannot retry > Peek"), "ns"
    )
    yield at_most(
        "failover, the first target answers, beyond a clone", 50,
        added(measured, "Failover (2 targets) > Peek"), "ns",
    )

    def event(row, column="adds ns"):
        return measured.number("stream", row, column, "An event")

    yield at_most("an event of 200 bytes: Peek", 90, event("Peek"), "ns")
    yield at_most("an event: a breaker more", 5, event("Breaker > Peek"), "ns")
    yield at_most("an event: a retry more", 5, event("Retry > Breaker > Peek"), "ns")
    yield at_most(
        "an event: a timeout more", 5, event("Retry > Breaker > Timeout > Peek"), "ns"
    )
    speed = measured.number("stream", "Scanner, 100 bytes", "GB/s")
    yield "scanner on events of 100 bytes", "at least 3 GB/s", f"{speed:.1f} GB/s", speed >= 3
    for what, row in {"circuit": "Breaker, one target", "pool": "Bulkhead, one pool"}.items():
        gain = measured.number("contention", row, "throughput of 2 to 1")
        what = f"throughput of two threads on one {what}"
        yield what, "at least that of one", f"{gain:.2f}", gain >= 1
    held = measured.number("memory", "the whole stack", "while it waits")
    held -= measured.number("memory", "no layer", "while it waits")
    yield at_most("an open stream in the whole stack", 1024, held, "bytes")
    curves = [
        (row, *cells[-2:])
        for table in measured.tables["growth"]
        for row, cells in table.rows.items()
        if not row.endswith(": no layer")
    ]
    steep = [f"{row} {ratio}" for row, ratio, flat in curves if flat != "yes"]
    shown = f"{len(curves) - len(steep)} of {len(curves)}"
    if steep:
        shown += f" (not: {'; '.join(steep)})"
    what = "layers whose call costs less than twice as much among 10,000 targets, tenants or streams"
    yield what, "all", shown, not steep


def machine(options):
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        fail("no /proc/cpuinfo: it says which machine this is")
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE)
    compiler = output("rustc", "--version").split()[1]
    command = " ".join(["python3 scripts/bench_table.py", *options])
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return (
        f"{today}, {model[1] if model else 'a CPU without a name'}, {os.cpu_count()} CPUs,"
        f" Rust {compiler}, thin LTO; `{command}`"
    )


def short(measured, options):
    lines = [machine(options) + ".", "", "| what | aim | measured | |", "| --- | --- | ---: | --- |"]
    for what, aim, value, met in aims(measured):
        lines.append(f"| {what} | {aim} | {value} | {'' if met else '**missed**'} |")
    return "\n".join(lines)


def long(measured, options):
    parts = [machine(options) + "."]
    for bench, title in BENCHES.items():
        parts.append(f"### {title}")
        for table in measured.tables[bench]:
            parts += [table.caption, "\n".join(table.lines)]
    return "\n\n".join(parts)


def rewritten(path, text):
    """The file with `text` between its markers."""
    old = path.read_text()
    if old.count(BEGIN) != 1 or old.count(END) != 1 or old.index(BEGIN) > old.index(END):
        fail(f"{path.relative_to(ROOT)} must have one {BEGIN} and after it one {END}")
    before, after = old[: old.index(BEGIN)], old[old.index(END) :]
    return f"{before}{BEGIN}\n{text}\n{after}"


def main():
    options = sys.argv[1:]
    if options not in ([], ["--quick"]):
        sys.exit(__doc__)
    readme, long_readme = ROOT / "README.md", ROOT / "benches" / "README.md"
    for path in (readme, long_readme):
        rewritten(path, "")
    measured = Measured(options)
    texts = {
        readme: rewritten(readme, short(measured, options)),
        long_readme: rewritten(long_readme, long(measured, options)),
    }
    for path, text in texts.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
