#!/usr/bin/env bash
# Drives examples/axum_service with the unmodified official SDKs: OpenAI's and Anthropic's, for Python
# and JavaScript, before targets of each dialect, and OpenAI's for Python while the primary provider
# misbehaves in each of the ways that the second script lists.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build -q -p llm-chaos --bin chaos-provider
cargo build -q -p examples --example axum_service
bin=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json,sys; print(json.load(sys.stdin)["target_directory"])')/debug

venv=target/sdk-venv
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv" || { apt-get update -qq && apt-get install -y -qq python3-venv && python3 -m venv "$venv"; }
fi
"$venv/bin/pip" install -q --disable-pip-version-check 'openai>=3.57,<4' 'anthropic>=2.14,<3'
node=$PWD/target/sdk-node
command -v npm >/dev/null || { apt-get update -qq && apt-get install -y -qq npm; }
mkdir -p "$node"
cp scripts/sdk_node/* scripts/sdk_node/.npmrc "$node"
(cd "$node" && npm ci --silent --no-audit --no-fund)
"$venv/bin/python" scripts/sdk_dialects.py "$bin/examples/axum_service" "$node"
exec "$venv/bin/python" scripts/sdk_openai.py "$bin/chaos-provider" "$bin/examples/axum_service" "$@"
