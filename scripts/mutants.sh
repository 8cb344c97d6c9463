#!/usr/bin/env bash
# Changes the pure cores in small ways, one at a time, and runs the tests of the crate over each: what
# survives is either the same behaviour or a test that is missing. Takes an hour or two, so it runs on
# request. docs/invariants.md explains those that survive.
#
#   bash scripts/mutants.sh                 # all cores
#   bash scripts/mutants.sh llm-breaker     # those of one crate
#   bash scripts/mutants.sh llm-call -F hint  # what follows goes to cargo-mutants
set -euo pipefail
cd "$(dirname "$0")/.."
command -v cargo-mutants >/dev/null || cargo install -q --locked cargo-mutants
export CARGO_INCREMENTAL=0

declare -A cores=(
    [llm-breaker]="core.rs core/*.rs window.rs"
    [llm-retry]="share.rs shares.rs rules.rs budget.rs"
    [llm-hedge]="budget.rs latency.rs recent.rs"
    [llm-bulkhead]="core.rs core/*.rs"
    [llm-failover]="rest.rs"
    [llm-call]="hint.rs classify.rs classify/*.rs"
)
case ${1-} in
    llm-*) crates=("$1"); shift ;;
    *) crates=("${!cores[@]}") ;;
esac
out=target/mutants
mkdir -p "$out"
failed=0
for crate in "${crates[@]}"; do
    [ -n "${cores[$crate]-}" ] || { echo "$crate has no core in the list of this script"; exit 2; }
    files=()
    for file in ${cores[$crate]}; do files+=(-f "crates/$crate/src/$file"); done
    # Exit code 2: some survived.
    mkdir -p "$out/$crate"
    cargo mutants -o "$out/$crate" -p "$crate" --timeout 90 "${files[@]}" "$@" || failed=$?
done
exit "$failed"
