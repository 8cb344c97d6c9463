#!/usr/bin/env python3
"""Checks what the outage drill wrote: check_drill.py FILE.json FILE.svg

cargo run --release --example outage_drill -- --seconds 20 --json drill.json --svg drill.svg
python3 scripts/check_drill.py drill.json drill.svg
"""

import json
import sys
import xml.etree.ElementTree as ElementTree

ARM_KEYS = {
    "name", "requests", "answered", "failed", "first_token_p50_ms", "first_token_p99_ms",
    "upstream_calls", "seconds_to_switch", "seconds_to_return", "failures", "served_by",
    "circuit",
}
LIMIT_KEYS = {
    "connect_ms", "first_token_ms", "idle_ms", "stall_ms", "stream_ms", "deadline_ms",
    "backoff_ms", "open_ms", "ramp_ms", "bare_total_ms",
}


def check(condition, message):
    if not condition:
        sys.exit(f"check_drill: {message}")


def check_arm(arm):
    name = arm["name"]
    check(ARM_KEYS <= arm.keys(), f"{name}: no {ARM_KEYS - arm.keys()}")
    check(arm["requests"] > 0, f"{name}: nothing was sent")
    check(arm["answered"] + arm["failed"] == arm["requests"], f"{name}: requests are missing")
    check(sum(arm["failures"].values()) == arm["failed"], f"{name}: failures do not add up")
    check(sum(arm["served_by"].values()) == arm["answered"], f"{name}: servers do not add up")
    check(arm["upstream_calls"] >= arm["answered"], f"{name}: answers that nobody was asked for")
    check(arm["first_token_p50_ms"] <= arm["first_token_p99_ms"], f"{name}: percentiles")


def check_circuit(drill, stack):
    states = ["closed"] + [change["to"] for change in stack["circuit"]]
    times = [change["at"] for change in stack["circuit"]]
    check(times == sorted(times), "the circuit's changes are out of order")
    arrows = {"closed": ["open"], "open": ["half-open"], "half-open": ["open", "closed"]}
    for before, after in zip(states, states[1:]):
        check(after in arrows[before], f"the circuit went from {before} to {after}")
    outage = next(phase for phase in drill["phases"] if phase["name"] == "outage")
    opened = [at for at, to in zip(times, states[1:]) if to == "open" and at >= outage["from"]]
    check(opened and opened[0] < outage["to"], "the circuit did not open in the outage")
    check(states[-1] == "closed", f"the circuit ended {states[-1]}")
    # What is left of its open time, then trials to the end of their answers.
    at_most = 2 * drill["limits"]["open_ms"] / 1000
    check(stack["seconds_to_return"] <= at_most, f"back only after {stack['seconds_to_return']} s")


def check_figures(drill):
    check(LIMIT_KEYS <= drill["limits"].keys(), "limits are missing")
    check(drill["limits"]["first_token_ms"] >= 200, "the first-token limit measures noise")
    arms = {arm["name"]: arm for arm in drill["arms"]}
    check(arms.keys() == {"bare", "stack"}, f"arms are {list(arms)}")
    for arm in arms.values():
        check_arm(arm)
    bare, stack = arms["bare"], arms["stack"]
    check(bare["requests"] == stack["requests"], "the arms got different requests")
    share = stack["answered"] / stack["requests"]
    check(share >= 0.995, f"the stack answered {share:.2%}: {stack['failures']}")
    calls = stack["upstream_calls"] / stack["requests"]
    check(calls <= 1.2, f"the stack made {calls:.2f} upstream calls per request")
    check(stack["seconds_to_switch"] is not None, "the stack never switched")
    check(stack["seconds_to_return"] is not None, "the stack never came back")
    check(bare["seconds_to_switch"] is None, "the bare client has no secondary")

    outages = [phase for phase in drill["phases"] if phase["name"] == "outage"]
    check(outages, "there was no outage")
    sent = sum(phase["arms"]["bare"]["requests"] for phase in outages)
    answered = sum(phase["arms"]["bare"]["answered"] for phase in outages)
    check(answered < 0.5 * sent, f"the bare client answered {answered} of {sent} in the outage")
    for name, arm in arms.items():
        total = sum(phase["arms"][name]["requests"] for phase in drill["phases"])
        check(total == arm["requests"], f"{name}: the phases do not add up")
    check_circuit(drill, stack)
    check(bare["circuit"] is None, "the bare client has no circuit")
    return f"stack {share:.2%} with {calls:.2f} calls each, bare {answered}/{sent} in the outage"


def check_image(path):
    root = ElementTree.parse(path).getroot()
    check(root.tag == "{http://www.w3.org/2000/svg}svg", f"{path} is no SVG")
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    for text in ("Bare client", "With the stack", "First token", "failed", "circuit", "half-open"):
        check(text in texts, f"{path} does not say {text!r}")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: check_drill.py FILE.json FILE.svg")
    with open(sys.argv[1], encoding="utf-8") as file:
        summary = check_figures(json.load(file))
    check_image(sys.argv[2])
    print(f"check_drill: {summary}; the SVG is well-formed")


if __name__ == "__main__":
    main()
