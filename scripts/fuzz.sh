#!/usr/bin/env bash
# Builds the fuzz targets with clang 19 and runs each, two at a time, over its corpus in tests/fuzz/corpus/.
#
#   scripts/fuzz.sh [SECONDS [TARGET...]]   60 seconds and all targets unless said otherwise
#
# Inputs that reach new code are kept in build/fuzz/corpus/, inputs that fail in build/fuzz/findings/.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$root"
seconds=${1:-60}
shift || true

build fuzz fuzzers
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  mapfile -t targets < <(find src -name '*_fuzz.cc' -exec basename {} .cc \; | sort)
fi
[ ${#targets[@]} -gt 0 ] || { echo "no fuzz target yet"; exit 0; }

# One target: quiet unless it finds something.
fuzz_one() {
  local target=$1 log=build/fuzz/$1.log
  mkdir -p "build/fuzz/corpus/$target" build/fuzz/findings
  if "build/fuzz/src/$target" -max_total_time="$2" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/findings/$target-" "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" > "$log" 2>&1; then
    echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, nothing found"
  else
    echo "$target: FAILED"
    tail -n 60 "$log"
    return 1
  fi
}
export -f fuzz_one
printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -c 'fuzz_one "$1" "$2"' _ {} "$seconds"
