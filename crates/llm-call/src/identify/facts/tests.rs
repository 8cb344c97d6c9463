use super::*;

fn read(path: &str, body: &str) -> Facts {
    facts(path, &HeaderMap::new(), body.as_bytes())
}

/// The facts as one line: dialect, model, capability, streamed, and the flags that are set.
fn line(facts: &Facts) -> String {
    let mut line = format!(
        "{} {} {} {}",
        facts.dialect.map_or("-", Dialect::as_str),
        facts.model.as_deref().unwrap_or("-"),
        facts.capability.map_or("-", Capability::as_str),
        match facts.streamed {
            Some(true) => "streamed",
            Some(false) => "whole",
            None => "-",
        }
    );
    for (set, name) in [
        (facts.thinking, "thinking"),
        (facts.tools, "tools"),
        (facts.json, "json"),
        (facts.images, "images"),
    ] {
        if set {
            line += " ";
            line += name;
        }
    }
    if let Some(max) = facts.max_tokens {
        line += &format!(" max={max}");
    }
    line
}

#[test]
fn the_facts_of_each_dialect() {
    const CHAT: &str = "/v1/chat/completions";
    const RESPONSES: &str = "/v1/responses";
    const MESSAGES: &str = "/v1/messages";
    const GEMINI: &str = "/v1beta/models/gemini-2.5-pro:generateContent";
    const GEMINI_STREAM: &str = "/v1beta/models/gemini-2.5-pro:streamGenerateContent";
    for (path, body, expected) in [
        (
            CHAT,
            r#"{"model":"gpt","messages":[]}"#,
            "openai_chat gpt chat whole",
        ),
        (
            CHAT,
            r#"{"model":"gpt","stream":true}"#,
            "openai_chat gpt streaming streamed",
        ),
        (
            CHAT,
            r#"{"stream":false,"max_tokens":5}"#,
            "openai_chat - chat whole max=5",
        ),
        (
            CHAT,
            r#"{"max_completion_tokens":7}"#,
            "openai_chat - chat whole max=7",
        ),
        (
            CHAT,
            r#"{"reasoning_effort":"high"}"#,
            "openai_chat - chat whole thinking",
        ),
        (
            CHAT,
            r#"{"reasoning_effort":"minimal"}"#,
            "openai_chat - chat whole",
        ),
        (
            CHAT,
            r#"{"reasoning_effort":"none"}"#,
            "openai_chat - chat whole",
        ),
        (
            CHAT,
            r#"{"reasoning_effort":null}"#,
            "openai_chat - chat whole",
        ),
        (
            CHAT,
            r#"{"reasoning":{"max_tokens":2000}}"#,
            "openai_chat - chat whole thinking",
        ),
        (
            CHAT,
            r#"{"tools":[{"type":"function"}]}"#,
            "openai_chat - chat whole tools",
        ),
        (CHAT, r#"{"tools":[]}"#, "openai_chat - chat whole"),
        (
            CHAT,
            r#"{"response_format":{"type":"json_schema"}}"#,
            "openai_chat - chat whole json",
        ),
        (
            CHAT,
            r#"{"response_format":{"type":"text"}}"#,
            "openai_chat - chat whole",
        ),
        (
            CHAT,
            r#"{"messages":[{"role":"user","content":[{"type":"text"},{"type":"image_url","image_url":{"url":"x"}}]}]}"#,
            "openai_chat - chat whole images",
        ),
        // Only keys count, and only where they mean it.
        (
            CHAT,
            r#"{"messages":[{"role":"user","content":"\"stream\":true, \"model\":\"x\""}],"metadata":{"stream":true,"model":"y"}}"#,
            "openai_chat - chat whole",
        ),
        (
            "/openai/deployments/my-gpt/chat/completions",
            "{}",
            "openai_chat my-gpt chat whole",
        ),
        (
            RESPONSES,
            r#"{"model":"o","stream":true,"reasoning":{"effort":"low"},"max_output_tokens":9}"#,
            "openai_responses o streaming streamed thinking max=9",
        ),
        (
            RESPONSES,
            r#"{"text":{"format":{"type":"json_object"}}}"#,
            "openai_responses - chat whole json",
        ),
        (
            RESPONSES,
            r#"{"input":[{"role":"user","content":[{"type":"input_image"}]}]}"#,
            "openai_responses - chat whole images",
        ),
        (
            MESSAGES,
            r#"{"model":"c","max_tokens":3,"stream":true}"#,
            "anthropic c streaming streamed max=3",
        ),
        (
            MESSAGES,
            r#"{"thinking":{"type":"enabled","budget_tokens":2048}}"#,
            "anthropic - chat whole thinking",
        ),
        (
            MESSAGES,
            r#"{"thinking":{"type":"adaptive"}}"#,
            "anthropic - chat whole thinking",
        ),
        (
            MESSAGES,
            r#"{"thinking":{"type":"disabled"}}"#,
            "anthropic - chat whole",
        ),
        (
            MESSAGES,
            r#"{"output_config":{"format":{"type":"json_schema"}},"tools":[{"name":"t"}]}"#,
            "anthropic - chat whole tools json",
        ),
        (
            MESSAGES,
            r#"{"messages":[{"content":[{"type":"tool_result","content":[{"type":"image"}]}]}]}"#,
            "anthropic - chat whole images",
        ),
        (
            GEMINI,
            r#"{"contents":[]}"#,
            "gemini gemini-2.5-pro chat whole",
        ),
        (
            GEMINI_STREAM,
            "{}",
            "gemini gemini-2.5-pro streaming streamed",
        ),
        (
            GEMINI,
            r#"{"generationConfig":{"maxOutputTokens":4,"responseMimeType":"application/json"}}"#,
            "gemini gemini-2.5-pro chat whole json max=4",
        ),
        (
            GEMINI,
            r#"{"generationConfig":{"thinkingConfig":{"thinkingBudget":1024}}}"#,
            "gemini gemini-2.5-pro chat whole thinking",
        ),
        (
            GEMINI,
            r#"{"generationConfig":{"thinkingConfig":{"thinkingBudget" : -1}}}"#,
            "gemini gemini-2.5-pro chat whole thinking",
        ),
        (
            GEMINI,
            r#"{"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}}"#,
            "gemini gemini-2.5-pro chat whole",
        ),
        (
            GEMINI,
            r#"{"labels":{"thinkingBudget":-1},"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}}"#,
            "gemini gemini-2.5-pro chat whole",
        ),
        (
            GEMINI,
            r#"{"generationConfig":{"thinkingConfig":{"thinkingLevel":"HIGH"}}}"#,
            "gemini gemini-2.5-pro chat whole thinking",
        ),
        (
            GEMINI,
            r#"{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"x"}}]}],"tools":[{"functionDeclarations":[]}]}"#,
            "gemini gemini-2.5-pro chat whole tools images",
        ),
        (
            "/v1/projects/p/locations/l/publishers/google/models/g-2:streamGenerateContent",
            "{}",
            "gemini g-2 streaming streamed",
        ),
        (
            "/api/chat",
            r#"{"model":"llama3.1:8b"}"#,
            "ollama llama3.1:8b streaming streamed",
        ),
        (
            "/api/chat",
            r#"{"stream":false,"think":true}"#,
            "ollama - chat whole thinking",
        ),
        (
            "/api/chat",
            r#"{"stream":false,"think":"low","format":"json"}"#,
            "ollama - chat whole thinking json",
        ),
        (
            "/api/generate",
            r#"{"stream":false,"format":{"type":"object"},"images":["x"],"options":{"num_predict":8}}"#,
            "ollama - chat whole json images max=8",
        ),
        (
            "/api/chat",
            r#"{"stream":false,"options":{"num_predict":-1}}"#,
            "ollama - chat whole",
        ),
        (
            "/v2/chat",
            r#"{"model":"command","stream":true,"thinking":{"type":"enabled"}}"#,
            "cohere command streaming streamed thinking",
        ),
        (
            "/v1/embeddings",
            r#"{"model":"e","input":["a"]}"#,
            "- e embeddings whole",
        ),
        (
            "/v1beta/models/e-1:embedContent",
            "{}",
            "- e-1 embeddings whole",
        ),
        ("/api/embed", r#"{"model":"e"}"#, "- e embeddings whole"),
        ("/v1/moderations", "{}", "- - moderation whole"),
        ("/v1/images/generations", r#"{"model":"i"}"#, "- i images -"),
        ("/v1/audio/speech", r#"{"model":"s"}"#, "- s audio -"),
        // A path that tells nothing.
        ("/anything", r#"{"model":"m","prompt":"x"}"#, "- m - -"),
        (
            "/anything",
            r#"{"model":"m","stream":true}"#,
            "- m streaming streamed",
        ),
        ("/anything", r#"[1,2,{"x":null}]"#, "- - - -"),
        // Broken, cut, with something after it, or no JSON at all.
        (CHAT, r#"{"model":"gpt","stream":true"#, "openai_chat - - -"),
        (
            CHAT,
            r#"{"model":"gpt","stream":true}{"#,
            "openai_chat - - -",
        ),
        (CHAT, "", "openai_chat - - -"),
        ("/v1/audio/transcriptions", "--boundary\r\n", "- - audio -"),
    ] {
        assert_eq!(line(&read(path, body)), expected, "{path} {body}");
    }
}

#[test]
fn the_size_and_the_callers_own_retries_are_read() {
    let mut headers = HeaderMap::new();
    headers.insert("x-stainless-retry-count", "2".parse().unwrap());
    let facts = facts("/v1/messages", &headers, &[b' '; 401]);
    assert_eq!((facts.input_tokens, facts.caller_retries), (100, 2));
    headers.insert("x-stainless-retry-count", "many".parse().unwrap());
    assert_eq!(super::facts("/", &headers, b"").caller_retries, 0);
}

#[test]
fn a_name_too_long_for_a_model_is_none() {
    let body = format!(r#"{{"model":"{}"}}"#, "m".repeat(257));
    assert_eq!(read("/v1/chat/completions", &body).model, None);
}
