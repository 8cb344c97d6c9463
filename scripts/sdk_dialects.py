"""The official SDKs of OpenAI and Anthropic, for Python and for JavaScript, against
examples/axum_service, whose target speaks another dialect than they do.

usage: sdk_dialects.py AXUM_SERVICE SDK_NODE [CASE ...]

Each SDK, streamed and not, gets the same answer from a target of each dialect: the same text, calls of
tools, usage and reasons, with the types of its own dialect, and the same kinds of errors. What reaches
the target is looked at too. A target here is a server that plays what a provider sends.
"""

import json
import re
import subprocess
import sys
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anthropic
import openai

# An SDK warns where an answer is not what it expects.
warnings.simplefilter("error", UserWarning)

DIALECTS = ["openai", "anthropic", "gemini"]
TEXT = ["Hel", "lo 🦀", " wor\u2028ld"]
CALLS = [("look", {"at": 1, "ünï": ["x\n", {}]}), ("ask", {})]
SCHEMA = {
    "type": "object",
    "properties": {"at": {"$ref": "#/$defs/n"}},
    "required": ["at"],
    "$defs": {"n": {"type": "integer"}},
    "additionalProperties": False,
}
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Target(BaseHTTPRequestHandler):
    """Plays one answer in the dialect of the path."""

    protocol_version = "HTTP/1.1"
    play = None
    seen = None

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Target.seen = (self.path, dict(self.headers), body)
        if "/chat/completions" in self.path:
            dialect, streamed = "openai", body.get("stream")
        elif "/messages" in self.path:
            dialect, streamed = "anthropic", body.get("stream")
        else:
            dialect, streamed = "gemini", "stream" in self.path
        play = Target.play
        if play.get("status"):
            return self.say(play["status"], "application/json", json.dumps(ERRORS[dialect](play)))
        if not streamed:
            return self.say(200, "application/json", json.dumps(whole(dialect, play)))
        text = "".join(events(dialect, play))
        if play.get("cut"):
            text = text[: text.index(TEXT[2].replace("\u2028", "\\u2028")) - 40]
        self.say(200, "text/event-stream", text)

    def say(self, status, media, text):
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def gemini_status(status):
    return {429: "RESOURCE_EXHAUSTED", 400: "INVALID_ARGUMENT", 503: "UNAVAILABLE"}[status]


ERRORS = {
    "openai": lambda play: {"error": {"message": "Oops.", "type": "x", "param": None, "code": None}},
    "anthropic": lambda play: {
        "type": "error",
        "error": {
            "type": {429: "rate_limit_error", 400: "invalid_request_error", 503: "overloaded_error"}[
                play["status"]
            ],
            "message": "Oops.",
        },
    },
    "gemini": lambda play: {
        "error": {"code": play["status"], "message": "Oops.", "status": gemini_status(play["status"])}
    },
}


def whole(dialect, play):
    calls = CALLS if play.get("calls") else []
    text = "".join(TEXT) if play.get("text") else None
    thought = "Hm. Well." if play.get("thought") else None
    if dialect == "openai":
        message = {"role": "assistant", "content": text, "refusal": None}
        if thought:
            message["reasoning_content"] = thought
        if calls:
            message["tool_calls"] = [
                {
                    "id": f"c{i}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(given)},
                }
                for i, (name, given) in enumerate(calls)
            ]
        reason = play.get("length") and "length" or (calls and "tool_calls" or "stop")
        return {
            "id": "id1",
            "object": "chat.completion",
            "created": 1,
            "model": "served",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {
                "prompt_tokens": 7,
                "completion_tokens": 4,
                "total_tokens": 11,
                "prompt_tokens_details": {"cached_tokens": 2},
            },
        }
    if dialect == "anthropic":
        content = []
        if thought:
            content.append({"type": "thinking", "thinking": thought, "signature": "s"})
        if text:
            content.append({"type": "text", "text": text})
        content += [
            {"type": "tool_use", "id": f"c{i}", "name": name, "input": given}
            for i, (name, given) in enumerate(calls)
        ]
        reason = play.get("length") and "max_tokens" or (calls and "tool_use" or "end_turn")
        return {
            "id": "id1",
            "type": "message",
            "role": "assistant",
            "model": "served",
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {
                "input_tokens": 5,
                "cache_read_input_tokens": 2,
                "cache_creation_input_tokens": 0,
                "output_tokens": 4,
            },
        }
    parts = [{"text": thought, "thought": True}] if thought else []
    parts += [{"text": text}] if text else []
    parts += [{"functionCall": {"name": name, "args": given}} for name, given in calls]
    return {
        "candidates": [
            {
                "content": {"role": "model", "parts": parts},
                "finishReason": "MAX_TOKENS" if play.get("length") else "STOP",
                "index": 0,
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 7,
            "cachedContentTokenCount": 2,
            "candidatesTokenCount": 4,
            "totalTokenCount": 11,
        },
        "modelVersion": "served",
        "responseId": "id1",
    }


def events(dialect, play):
    calls = CALLS if play.get("calls") else []
    text = TEXT if play.get("text") else []
    thought = ["Hm. ", "Well."] if play.get("thought") else []
    end = whole(dialect, play)
    if dialect == "openai":

        def chunk(delta, reason=None, **more):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            base = {"id": "id1", "object": "chat.completion.chunk", "created": 1, "model": "served"}
            return "data: " + json.dumps({**base, "choices": [choice], **more}) + "\n\n"

        yield chunk({"role": "assistant", "content": ""})
        for piece in thought:
            yield chunk({"reasoning_content": piece})
        for piece in text:
            yield chunk({"content": piece})
        for i, (name, given) in enumerate(calls):
            call = {"index": i, "id": f"c{i}", "type": "function"}
            yield chunk({"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]})
        for i, (_, given) in enumerate(calls):
            given = json.dumps(given)
            for piece in [given[:4], given[4:]]:
                yield chunk({"tool_calls": [{"index": i, "function": {"arguments": piece}}]})
        if play.get("failed"):
            yield "data: " + json.dumps({"error": {"message": "Oops.", "type": "server_error"}}) + "\n\n"
            yield "data: [DONE]\n\n"
            return
        yield chunk({}, end["choices"][0]["finish_reason"])
        yield chunk({}, usage=end["usage"]).replace(
            '"choices": [{"index": 0, "delta": {}, "finish_reason": null}]', '"choices": []'
        )
        yield "data: [DONE]\n\n"
    elif dialect == "anthropic":

        def event(kind, **more):
            return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"

        start = {**end, "content": [], "stop_reason": None}
        start["usage"] = {**end["usage"], "output_tokens": 1}
        yield event("message_start", message=start)
        yield event("ping")
        at = 0

        def block(kind, begin, deltas):
            nonlocal at
            yield event("content_block_start", index=at, content_block={"type": kind, **begin})
            for delta in deltas:
                yield event("content_block_delta", index=at, delta=delta)
            yield event("content_block_stop", index=at)
            at += 1

        if thought:
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in thought]
            deltas.append({"type": "signature_delta", "signature": "s"})
            yield from block("thinking", {"thinking": "", "signature": ""}, deltas)
        if text:
            deltas = [{"type": "text_delta", "text": piece} for piece in text]
            yield from block("text", {"text": ""}, deltas)
        for i, (name, given) in enumerate(calls):
            given = json.dumps(given)
            pieces = [given[:4], given[4:]] if given != "{}" else []
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
            yield from block("tool_use", {"id": f"c{i}", "name": name, "input": {}}, deltas)
        if play.get("failed"):
            yield event("error", error={"type": "api_error", "message": "Oops."})
            return
        delta = {"stop_reason": end["stop_reason"], "stop_sequence": None}
        yield event("message_delta", delta=delta, usage={"output_tokens": 4})
        yield event("message_stop")
    else:

        def part(part, **more):
            candidate = {"content": {"role": "model", "parts": [part]}, "index": 0}
            base = {"candidates": [candidate], "modelVersion": "served", "responseId": "id1"}
            return "data: " + json.dumps({**base, **more}) + "\r\n\r\n"

        for piece in thought:
            yield part({"text": piece, "thought": True})
        for piece in text:
            yield part({"text": piece})
        for name, given in calls:
            yield part({"functionCall": {"name": name, "args": given}})
        if play.get("failed"):
            error = {"code": 500, "message": "Oops.", "status": "INTERNAL"}
            yield "data: " + json.dumps({"error": error}) + "\r\n\r\n"
            return
        end["candidates"][0]["content"]["parts"] = [{"text": ""}]
        yield "data: " + json.dumps(end) + "\r\n\r\n"


TOOLS = [("look", "Looks.", SCHEMA), ("ask", "", {"type": "object", "properties": {}})]
TOOLS += [(f"tool_{i}", "One of many.", SCHEMA) for i in range(98)]


class Answer:
    """What any SDK made of an answer."""

    def __init__(self, text, calls, reason, usage, model, thought):
        self.text, self.calls, self.reason = text, calls, reason
        self.usage, self.model, self.thought = usage, model, thought


class OpenAi:
    name = "openai"
    reasons = {"stop": "stop", "calls": "tool_calls", "length": "length"}

    def __init__(self, base):
        self.client = openai.OpenAI(base_url=f"{base}/v1", api_key="k", max_retries=0, timeout=10)

    @staticmethod
    def request(tools=False, image=False, schema=False, think=False):
        content = [{"type": "text", "text": "What is this? ☃"}]
        if image:
            url = f"data:image/png;base64,{PNG}"
            content.append({"type": "image_url", "image_url": {"url": url}})
        more = {}
        if tools:
            more["tools"] = [
                {
                    "type": "function",
                    "function": {"name": name, "description": told, "parameters": schema},
                }
                for name, told, schema in TOOLS
            ]
        if schema:
            format = {"name": "fish", "schema": SCHEMA, "strict": True}
            more["response_format"] = {"type": "json_schema", "json_schema": format}
        if think:
            more["reasoning_effort"] = "low"
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": content}]
        if tools:
            calls = [
                {"id": f"b{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
                for i, (name, given) in enumerate(CALLS)
            ]
            messages.append({"role": "assistant", "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": f"b{i}", "content": "done"} for i in range(2)]
        return dict(model="asked", messages=messages, max_completion_tokens=99, **more)

    def ask(self, streamed, **options):
        ask = self.request(**options)
        create = self.client.chat.completions.create
        if not streamed:
            got = create(**ask)
            message = got.choices[0].message
            calls = [
                (call.function.name, json.loads(call.function.arguments))
                for call in message.tool_calls or []
            ]
            text, reason, usage, model = message.content, got.choices[0].finish_reason, got.usage, got.model
            thought = getattr(message, "reasoning_content", None)
        else:
            text, thought, calls, reason, usage, model = "", "", {}, None, None, None
            for chunk in create(stream=True, stream_options={"include_usage": True}, **ask):
                model, usage = chunk.model, chunk.usage or usage
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    thought += getattr(choice.delta, "reasoning_content", None) or ""
                    reason = choice.finish_reason or reason
                    for call in choice.delta.tool_calls or []:
                        known = calls.setdefault(call.index, ["", ""])
                        known[0] += call.function.name or ""
                        known[1] += call.function.arguments or ""
            assert reason, "the stream ended without a reason"
            calls = [(name, json.loads(given)) for _, (name, given) in sorted(calls.items())]
        counts = usage and (
            usage.prompt_tokens - usage.prompt_tokens_details.cached_tokens,
            usage.prompt_tokens_details.cached_tokens,
            usage.completion_tokens,
        )
        return Answer(text or None, calls, reason, counts, model, thought or None)


class Anthropic:
    name = "anthropic"
    reasons = {"stop": "end_turn", "calls": "tool_use", "length": "max_tokens"}

    def __init__(self, base):
        self.client = anthropic.Anthropic(base_url=base, api_key="k", max_retries=0, timeout=10)

    @staticmethod
    def request(tools=False, image=False, schema=False, think=False):
        content = [{"type": "text", "text": "What is this? ☃"}]
        if image:
            source = {"type": "base64", "media_type": "image/png", "data": PNG}
            content.append({"type": "image", "source": source})
        more = {}
        if tools:
            more["tools"] = [
                {"name": name, "description": told, "input_schema": schema}
                for name, told, schema in TOOLS
            ]
        if schema:
            more["output_config"] = {"format": {"type": "json_schema", "schema": SCHEMA}}
        if think:
            more["thinking"] = {"type": "enabled", "budget_tokens": 1024}
        messages = [{"role": "user", "content": content}]
        if tools:
            calls = [
                {"type": "tool_use", "id": f"b{i}", "name": name, "input": given}
                for i, (name, given) in enumerate(CALLS)
            ]
            results = [{"type": "tool_result", "tool_use_id": f"b{i}", "content": "done"} for i in range(2)]
            messages.append({"role": "assistant", "content": calls})
            messages.append({"role": "user", "content": results})
        return dict(model="asked", max_tokens=2048, system="Be brief.", messages=messages, **more)

    def ask(self, streamed, **options):
        ask = self.request(**options)
        if not streamed:
            got = self.client.messages.create(**ask)
        else:
            with self.client.messages.stream(**ask) as stream:
                got = stream.get_final_message()
        of = lambda kind, what: "".join(getattr(b, what) for b in got.content if b.type == kind) or None
        calls = [(block.name, block.input) for block in got.content if block.type == "tool_use"]
        usage = got.usage
        counts = (usage.input_tokens, usage.cache_read_input_tokens or 0, usage.output_tokens)
        return Answer(
            of("text", "text"), calls, got.stop_reason, counts, got.model, of("thinking", "thinking")
        )


class Failed(Exception):
    """The error of an SDK that runs elsewhere."""

    def __init__(self, name, message):
        super().__init__(message)
        self.name = name


def in_javascript(of):
    """The same SDK for JavaScript: one process for each call."""

    class Node:
        name = f"{of.name}.js"
        reasons = of.reasons

        def __init__(self, base):
            self.base = base

        def ask(self, streamed, **options):
            ask = {"sdk": of.name, "base": self.base, "streamed": streamed, "ask": of.request(**options)}
            got = subprocess.run(
                [NODE, "ask.mjs"], input=json.dumps(ask), capture_output=True, text=True, cwd=WHERE
            )
            assert got.returncode == 0, got.stderr
            got = json.loads(got.stdout)
            if "error" in got:
                raise Failed(got["error"], got["message"])
            got["calls"] = [tuple(call) for call in got["calls"]]
            return Answer(usage=tuple(got.pop("usage")), **got)

    return Node


failures = []


def check(case, is_so, what):
    if not is_so:
        failures.append(case)
        print(f"FAIL {case}: {what}")


def alike(case, sdk, got, play):
    text = "".join(TEXT) if play.get("text") else None
    check(case, got.text == text, f"text {got.text!r}")
    calls = CALLS if play.get("calls") else []
    check(case, got.calls == calls, f"calls {got.calls}")
    kind = "length" if play.get("length") else "calls" if calls else "stop"
    check(case, got.reason == sdk.reasons[kind], f"reason {got.reason}")
    check(case, got.usage == (5, 2, 4), f"usage {got.usage}")
    check(case, got.model == "served", f"model {got.model}")
    thought = "Hm. Well." if play.get("thought") else None
    check(case, got.thought == thought, f"thought {got.thought!r}")


def asked(case, sdk, dialect, options):
    """What the target got, whoever asked."""
    path, headers, body = Target.seen
    text = json.dumps(body, ensure_ascii=False)
    check(case, "Be brief." in text and "What is this? ☃" in text, "the words are not all there")
    if options.get("image"):
        check(case, PNG in text, "the image is missing")
    if options.get("tools"):
        check(case, text.count("$defs") == 99 * 2, f"schemas: {text.count('$defs')}")
        check(case, text.count('"done"') >= 2, "the results are missing")
    if options.get("schema"):
        check(case, '"$defs"' in text, "the schema is missing")
    if dialect == "anthropic":
        # The SDK's own passes, if it speaks the same dialect.
        is_own = sdk.name.startswith("anthropic") or headers.get("anthropic-version") == "2023-06-01"
        check(case, is_own and "anthropic-version" in headers, "no version")
        check(case, isinstance(body.get("max_tokens"), int), "no limit")


CASES = {
    "text": ({}, {"text": True}),
    "length": ({}, {"text": True, "length": True}),
    "tools": ({"tools": True}, {"text": True, "calls": True}),
    "only_tools": ({"tools": True}, {"calls": True}),
    "image": ({"image": True}, {"text": True}),
    "schema": ({"schema": True}, {"text": True}),
    "thought": ({"think": True}, {"text": True, "thought": True}),
}


def run(sdk, dialect, only):
    for name, (options, play) in CASES.items():
        for streamed in [False, True]:
            case = f"{name} {sdk.name}->{dialect} {'streamed' if streamed else 'whole'}"
            if only and not any(word in case for word in only):
                continue
            Target.play = play
            try:
                got = sdk.ask(streamed, **options)
            except Exception as error:
                check(case, False, f"{type(error).__name__}: {error}")
                continue
            alike(case, sdk, got, play)
            asked(case, sdk, dialect, options)
            print(f"ok   {case}")
    for status, kind in [(429, "RateLimitError"), (400, "BadRequestError"), (503, None)]:
        case = f"{status} {sdk.name}->{dialect}"
        if only and not any(word in case for word in only):
            continue
        Target.play = {"status": status}
        try:
            sdk.ask(False)
            check(case, False, "no error")
        except (Failed, openai.APIError, anthropic.APIError) as error:
            name = error.name if isinstance(error, Failed) else type(error).__name__
            names = {kind} if kind else {"InternalServerError", "OverloadedError", "ServiceUnavailableError"}
            check(case, name in names, f"{name}: {error}")
            check(case, "Oops." in str(error), str(error))
            print(f"ok   {case}")
    for play in [{"failed": True}, {"cut": True}]:
        case = f"{next(iter(play))} {sdk.name}->{dialect}"
        if only and not any(word in case for word in only):
            continue
        Target.play = {"text": True, **play}
        try:
            got = sdk.ask(True)
            check(case, False, f"it ended well: {got.text}")
        except (Failed, openai.APIError, anthropic.APIError) as error:
            check(case, "failed" not in play or "Oops." in str(error), str(error))
            print(f"ok   {case}")


def first_url(process):
    line = process.stdout.readline()
    found = re.search(r"http://[0-9.]+:[0-9]+", line)
    assert found, f"no address in {line!r}"
    return found.group()


def main():
    global NODE, WHERE
    binary, WHERE, *only = sys.argv[1:]
    NODE = f"{WHERE}/node_modules/.bin/node"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Target)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_address[1]}"
    roots = {"openai": "/v1", "anthropic": "", "gemini": "/v1beta"}
    for dialect in DIALECTS:
        for sdk in [OpenAi, Anthropic, in_javascript(OpenAi), in_javascript(Anthropic)]:
            # Fresh, since targets that fail rest, and circuits open.
            target = f"t={base}{roots[dialect]},dialect={dialect},model=m"
            options = ["--retries", "0", "--hedge", "0"]
            service = subprocess.Popen(
                [binary, "--listen", "127.0.0.1:0", "--target", target, *options],
                stdout=subprocess.PIPE,
                text=True,
            )
            try:
                run(sdk(first_url(service)), dialect, only)
            finally:
                service.kill()
                service.wait()
    if failures:
        sys.exit(f"{len(set(failures))} cases failed")
    print("all the same in every dialect")


main()
