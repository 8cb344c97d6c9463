"""The official OpenAI SDK against examples/axum_service, while the primary provider misbehaves.

usage: sdk_openai.py CHAOS_PROVIDER AXUM_SERVICE [CASE ...]

Every case runs streamed and not. The SDK has no retries of its own. A call must be answered
completely, by the secondary where the primary cannot, or fail with a typed error in bounded time
where no other target may be asked. Attempts are counted at the providers.
"""

import json
import re
import subprocess
import sys
import threading
import time
import urllib.request

import openai

KEY = "sk-the-callers-own"
TOKENS = 12
ANSWER = [f"token{i}" for i in range(1, TOKENS + 1)]
# Short limits, so that a hang costs a second and not five.
LIMITS = ["--first-token", "1s", "--answer", "1s", "--idle", "1s", "--deadline", "4s"]
BOUND = 4.5


class Provider:
    def __init__(self, binary, name):
        self.process = subprocess.Popen(
            [binary, "--listen", f"127.0.0.1:0={name}", "--tokens", str(TOKENS)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.base = first_url(self.process)

    def play(self, *phases):
        # A reset arms the old script again, so that one goes first.
        self.post("script", "")
        self.post("reset", "")
        self.post("script", json.dumps({"phase": list(phases)}))

    def log(self):
        with urllib.request.urlopen(f"{self.base}/_chaos/log", timeout=10) as answer:
            return json.load(answer)

    def post(self, what, body):
        request = urllib.request.Request(f"{self.base}/_chaos/{what}", body.encode(), method="POST")
        with urllib.request.urlopen(request, timeout=10) as answer:
            answer.read()


def first_url(process):
    line = process.stdout.readline()
    found = re.search(r"http://[0-9.]+:[0-9]+", line)
    assert found, f"no address in {line!r}"
    return found.group()


class Service:
    """The example, fresh for each case: a rate-limited target rests in it."""

    def __init__(self, binary, targets, options=()):
        args = [binary, "--listen", "127.0.0.1:0", *LIMITS, *options]
        for name, provider in targets:
            args += ["--target", f"{name}={provider.base}/v1"]
        self.process = subprocess.Popen(args, stdout=subprocess.PIPE, text=True)
        self.client = openai.OpenAI(
            base_url=first_url(self.process) + "/v1", api_key=KEY, max_retries=0, timeout=20
        )

    def __enter__(self):
        return self.client

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Outcome:
    """What the caller of the SDK saw."""

    def __init__(self, text, finish, who, attempts, error, seconds):
        self.text, self.finish, self.who, self.attempts = text, finish, who, attempts
        self.error, self.seconds = error, seconds

    @property
    def whole(self):
        return self.error is None and self.text.split() == ANSWER and self.finish == "stop"

    def __repr__(self):
        return (
            f"who={self.who} attempts={self.attempts} finish={self.finish} "
            f"text={self.text[:40]!r} error={self.error!r} {self.seconds:.2f} s"
        )


def ask(client, stream, model="chaos-1"):
    begin = time.monotonic()
    text, finish, headers, error = "", None, {}, None
    try:
        raw = client.chat.completions.with_raw_response.create(
            model=model,
            messages=[{"role": "user", "content": "Count."}],
            stream=stream,
            extra_body={"a_field_nobody_knows": {"kept": True}},
        )
        headers = raw.headers
        answer = raw.parse()
        if stream:
            for chunk in answer:
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    finish = choice.finish_reason or finish
        else:
            text = answer.choices[0].message.content or ""
            finish = answer.choices[0].finish_reason
    except openai.APIError as caught:
        error = caught
    return Outcome(
        text,
        finish,
        headers.get("x-llm-provider"),
        headers.get("x-llm-attempts"),
        error,
        time.monotonic() - begin,
    )


def phase(fault, **more):
    return {"fault": fault, **more}


# What the primary does for ever, and how often it is called for one request: what waiting may help is
# retried twice, what is a matter of luck once, and a silent or spent target is left at once.
RESCUED = {
    "answers 503": (phase("error_503"), 3),
    "answers 500": (phase("error_500"), 2),
    "answers 529": (phase("error_529"), 3),
    "answers 401": (phase("error_401"), 1),
    "spent its quota": (phase("insufficient_quota"), 1),
    "hangs": (phase("no_response"), 1),
    # Once, so that the next connection, which asks for the log, is read.
    "never reads": (phase("never_read", times=1), 1),
    "sends headers, then nothing": (phase("headers_then_silence"), 1),
    "sends keep-alives only": (phase("keep_alive_only", gap="100ms"), 1),
    "resets": (phase("reset"), 3),
    "closes": (phase("close"), 3),
    "sends 429 with a hint": (phase("rate_limit", retry_after="30s"), 1),
    "sends 429 without a hint": (phase("rate_limit", retry_after="0s"), 3),
    "puts an error event first": (phase("error_event_first"), 2),
    "is slow to the first token": (phase("slow_first_token", delay="5s"), 1),
    "answers HTML": (phase("html_200"), 2),
    "answers nothing": (phase("empty_200"), 2),
    "puts an error in a 200": (phase("error_200"), 2),
    "sends half of the JSON": (phase("truncated_json"), 2),
    "finishes without content": (phase("finish_without_content"), 2),
    # Its status is known and its reason is not when the time limit of these cases is up; so is, at the
    # same moment on a busy machine, the time in which its reason is waited for, and it is asked again.
    "never ends its error": (phase("endless_error"), None),
}
# What the primary does once: it is asked again and answers itself.
RIDDEN_OUT = {
    "answers 500 once": phase("error_500", times=1),
    "answers 503 once": phase("error_503", times=1),
    "resets once": phase("reset", times=1),
}
# What the primary sends is whole, odd as it may be.
WHOLE = {
    "is well": None,
    "splits its events": phase("split_events"),
    "drips": phase("slow_drip", bytes=64, gap="1ms"),
    "leaves the end marker out": phase("no_end_marker"),
    "leaves the last chunk out": phase("missing_final_chunk"),
}
# No other target may be asked.
FINAL = {
    "refuses a wrong parameter": (phase("error_400"), openai.BadRequestError),
    "filters the prompt": (phase("content_filter"), openai.BadRequestError),
}
# The caller has seen tokens: the failure must be said, never hidden.
CUT = {
    "cuts the stream": phase("cut", after_tokens=5),
    "resets the stream": phase("cut_reset", after_tokens=5),
    "stops within a chunk": phase("half_chunk", after_tokens=5),
    "ends without a finish": phase("silent_end", after_tokens=5),
    "stalls": phase("stall", after_tokens=5, delay="30s"),
    "puts an error in the middle": phase("error_event_mid", after_tokens=5),
}


class Checks:
    def __init__(self):
        self.passed, self.failed = 0, 0

    def check(self, name, *expectations):
        wrong = [text for true, text in expectations if not true]
        if wrong:
            self.failed += 1
            print(f"FAILED {name}: {'; '.join(wrong)}", flush=True)
        else:
            self.passed += 1
            print(f"ok     {name}", flush=True)


class Flap(threading.Thread):
    """A primary that is down for 60 s of 80 s, on real time, while the other cases run: twenty
    requests, one every four seconds."""

    NAME = "primary is down for 60 of 80 s"
    DOWN, EVERY, REQUESTS = 60, 4, 20

    def __init__(self, chaos, service):
        super().__init__(daemon=True)
        self.binaries = chaos, service
        self.seen = []

    def run(self):
        chaos, service = self.binaries
        primary, secondary = Provider(chaos, "primary"), Provider(chaos, "secondary")
        try:
            primary.play(phase("error_503", to=f"{self.DOWN}s"))
            begin = time.monotonic()
            with Service(service, [("a", primary), ("b", secondary)]) as client:
                for number in range(self.REQUESTS):
                    time.sleep(max(0, begin + number * self.EVERY - time.monotonic()))
                    at = time.monotonic() - begin
                    self.seen.append((at, ask(client, stream=True)))
            log = primary.log()
            self.calls = sum(call["status"] == 503 for call in log), len(log)
        finally:
            for provider in (primary, secondary):
                provider.process.kill()

    def check(self, checks):
        self.join()
        down = [outcome for at, outcome in self.seen if at < self.DOWN]
        back = [at for at, outcome in self.seen if at >= self.DOWN and outcome.who == "a"]
        failed, calls = self.calls
        print(
            f"       {self.NAME}: {failed} calls of {len(down)} requests to it meanwhile, "
            f"back {back[0] - self.DOWN if back else float('nan'):.0f} s after its recovery"
        )
        checks.check(
            self.NAME,
            (len(self.seen) == self.REQUESTS, f"only {len(self.seen)} requests"),
            (all(outcome.whole for _, outcome in self.seen), f"not all answered: {self.seen}"),
            (failed <= len(down), f"{failed} calls of {len(down)} requests to a dead target"),
            (bool(back) and back[0] - self.DOWN <= 15, f"back on the primary at {back[:1]}"),
            (calls > failed, "the primary never answered"),
        )


def main():
    chaos, service, *only = sys.argv[1:]
    primary, secondary = Provider(chaos, "primary"), Provider(chaos, "secondary")
    both = [("a", primary), ("b", secondary)]
    checks = Checks()

    def run(name, stream, *phases, options=()):
        primary.play(*phases)
        secondary.play()
        with Service(service, both, options) as client:
            outcome = ask(client, stream)
        return outcome, primary.log(), secondary.log()

    def wanted(name):
        return not only or any(word in name for word in only)

    flap = Flap(chaos, service) if wanted(Flap.NAME) else None
    try:
        if flap:
            flap.start()
        for name, fault in WHOLE.items():
            for stream in (True,) if name == "leaves the end marker out" else (False, True):
                label = f"primary {name}, {'streamed' if stream else 'whole'}"
                if wanted(label):
                    seen, first, second = run(name, stream, *([fault] if fault else []))
                    checks.check(
                        label,
                        (seen.whole, f"not answered in full: {seen}"),
                        (seen.who == "a", f"answered by {seen.who}"),
                        ((len(first), len(second)) == (1, 0), f"calls {len(first)}, {len(second)}"),
                        (first[0]["authorization"] == f"Bearer {KEY}", "the key was not passed on"),
                    )
        for name, (fault, expected) in RESCUED.items():
            for stream in (False, True):
                label = f"primary {name}, {'streamed' if stream else 'whole'}"
                if wanted(label):
                    seen, first, second = run(name, stream, fault)
                    calls = expected or min(max(len(first), 1), 2)
                    checks.check(
                        label,
                        (seen.whole, f"not answered in full: {seen}"),
                        (seen.who == "b", f"answered by {seen.who}"),
                        (seen.attempts == str(calls + 1), f"attempts said {seen.attempts}"),
                        (
                            (len(first), len(second)) == (calls, 1),
                            f"calls {len(first)}, {len(second)}",
                        ),
                        (seen.seconds < BOUND, f"took {seen.seconds:.2f} s"),
                    )
        for name, fault in RIDDEN_OUT.items():
            for stream in (False, True):
                label = f"primary {name}, {'streamed' if stream else 'whole'}"
                if wanted(label):
                    seen, first, second = run(name, stream, fault)
                    checks.check(
                        label,
                        (seen.whole, f"not answered in full: {seen}"),
                        (seen.who == "a", f"answered by {seen.who}"),
                        (seen.attempts == "2", f"attempts said {seen.attempts}"),
                        ((len(first), len(second)) == (2, 0), f"calls {len(first)}, {len(second)}"),
                        (seen.seconds < 1.5, f"took {seen.seconds:.2f} s"),
                    )
        for hint, who, calls in (("2s", "a", (2, 0)), ("60s", "b", (1, 1))):
            for stream in (False, True):
                label = f"primary is rate limited for {hint}, {'streamed' if stream else 'whole'}"
                if wanted(label):
                    fault = phase("rate_limit", retry_after=hint, times=1)
                    # With time enough to wait: a target waits within its share of the deadline.
                    seen, first, second = run(label, stream, fault, options=["--deadline", "10s"])
                    waited = seen.seconds >= 2
                    checks.check(
                        label,
                        (seen.whole, f"not answered in full: {seen}"),
                        (seen.who == who, f"answered by {seen.who}"),
                        ((len(first), len(second)) == calls, f"calls {len(first)}, {len(second)}"),
                        (waited == (who == "a"), f"took {seen.seconds:.2f} s"),
                        (seen.seconds < 4, f"took {seen.seconds:.2f} s"),
                    )
        for name, (fault, error) in FINAL.items():
            for stream in (False, True):
                label = f"primary {name}, {'streamed' if stream else 'whole'}"
                if wanted(label):
                    seen, first, second = run(name, stream, fault)
                    checks.check(
                        label,
                        (type(seen.error) is error, f"{seen}"),
                        ((len(first), len(second)) == (1, 0), f"calls {len(first)}, {len(second)}"),
                        (seen.seconds < 1, f"took {seen.seconds:.2f} s"),
                    )
        for name, fault in CUT.items():
            label = f"primary {name}, streamed"
            if wanted(label):
                seen, first, second = run(name, True, fault)
                checks.check(
                    label,
                    (isinstance(seen.error, openai.APIError), f"the cut was hidden: {seen}"),
                    (seen.text.split() == ANSWER[:5], f"tokens lost or invented: {seen.text!r}"),
                    ((len(first), len(second)) == (1, 0), f"calls {len(first)}, {len(second)}"),
                    (seen.seconds < BOUND, f"took {seen.seconds:.2f} s"),
                )
        for stream in (False, True):
            label = f"both down, {'streamed' if stream else 'whole'}"
            if wanted(label):
                primary.play(phase("error_503"))
                secondary.play(phase("no_response"))
                with Service(service, both) as client:
                    seen = ask(client, stream)
                headers = seen.error.response.headers if seen.error else {}
                checks.check(
                    label,
                    (isinstance(seen.error, openai.InternalServerError), f"{seen}"),
                    (headers.get("x-should-retry") == "false", "x-should-retry is not false"),
                    (len(primary.log()) == 3 and len(secondary.log()) in (2, 3), "calls"),
                    (seen.seconds < BOUND, f"took {seen.seconds:.2f} s"),
                )
            label = f"both rate limited, {'streamed' if stream else 'whole'}"
            if wanted(label):
                primary.play(phase("rate_limit", retry_after="30s"))
                secondary.play(phase("rate_limit", retry_after="20s"))
                with Service(service, both) as client:
                    seen, again = ask(client, stream), ask(client, stream)
                    calls = len(primary.log()), len(secondary.log())
                hint = again.error.response.headers.get("retry-after") if again.error else None
                checks.check(
                    label,
                    (isinstance(seen.error, openai.RateLimitError), f"{seen}"),
                    (isinstance(again.error, openai.APIStatusError), f"{again}"),
                    (hint in ("19", "20"), f"retry-after said {hint}"),
                    (calls == (1, 1), f"calls {calls}: a resting target was called"),
                )
        if flap:
            flap.check(checks)
    finally:
        primary.process.kill()
        secondary.process.kill()
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(1 if checks.failed or not checks.passed else 0)


main()
