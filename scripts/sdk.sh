#!/usr/bin/env bash
# Drives examples/axum_service with the unmodified official OpenAI SDK for Python, while the
# primary provider misbehaves in each of the ways that the script below lists.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build -q -p llm-chaos --bin chaos-provider
cargo build -q -p examples --example axum_service
bin=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json,sys; print(json.load(sys.stdin)["target_directory"])')/debug

venv=target/sdk-venv
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv" || { apt-get update -qq && apt-get install -y -qq python3-venv && python3 -m venv "$venv"; }
fi
"$venv/bin/pip" install -q --disable-pip-version-check 'openai>=3.57,<4'
exec "$venv/bin/python" scripts/sdk_openai.py "$bin/chaos-provider" "$bin/examples/axum_service" "$@"
