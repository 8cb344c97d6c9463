// One call through an official SDK for JavaScript: what it is asked comes as JSON on stdin, and what
// became of it goes as JSON to stdout.
import { readFileSync } from "node:fs";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const { sdk, base, streamed, ask } = JSON.parse(readFileSync(0, "utf8"));
process.on("warning", (warning) => {
  throw warning;
});

async function openai() {
  const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: "k", maxRetries: 0, timeout: 10_000 });
  if (!streamed) return of_completion(await client.chat.completions.create(ask));
  const stream = client.chat.completions.stream({ ...ask, stream_options: { include_usage: true } });
  let thought = "";
  stream.on("chunk", (chunk) => {
    thought += chunk.choices[0]?.delta.reasoning_content ?? "";
  });
  const got = of_completion(await stream.finalChatCompletion());
  return { ...got, thought: thought || null };
}

function of_completion(got) {
  const [{ message, finish_reason }] = got.choices;
  const { usage } = got;
  const cached = usage?.prompt_tokens_details?.cached_tokens;
  return {
    text: message.content || null,
    calls: (message.tool_calls ?? []).map((call) => [
      call.function.name,
      JSON.parse(call.function.arguments),
    ]),
    reason: finish_reason,
    usage: [usage?.prompt_tokens - cached, cached, usage?.completion_tokens],
    model: got.model,
    thought: message.reasoning_content ?? null,
  };
}

async function anthropic() {
  const client = new Anthropic({ baseURL: base, apiKey: "k", maxRetries: 0, timeout: 10_000 });
  const got = streamed
    ? await client.messages.stream(ask).finalMessage()
    : await client.messages.create(ask);
  const all = (type, what) =>
    got.content
      .filter((block) => block.type === type)
      .map((block) => block[what])
      .join("") || null;
  return {
    text: all("text", "text"),
    calls: got.content.filter((block) => block.type === "tool_use").map((b) => [b.name, b.input]),
    reason: got.stop_reason,
    usage: [got.usage.input_tokens, got.usage.cache_read_input_tokens ?? 0, got.usage.output_tokens],
    model: got.model,
    thought: all("thinking", "thinking"),
  };
}

const { APIError } = sdk === "openai" ? OpenAI : Anthropic;
let result;
try {
  result = await (sdk === "openai" ? openai() : anthropic());
} catch (error) {
  if (!(error instanceof APIError)) throw error;
  result = { error: error.constructor.name, message: String(error.message) };
}
console.log(JSON.stringify(result));
