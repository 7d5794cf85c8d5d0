#!/usr/bin/env bash
# Builds Penstock and runs its tests: the command for contributors and CI. Stops at the first part that fails.
#
#   scripts/test.sh         every test that needs no GPU, the parsers under ASan and UBSan, and a minute of each fuzzer
#   scripts/test.sh --all   adds clang-tidy, all those tests under ASan, UBSan and TSan, and half an hour of each fuzzer
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$root"

case "${1:-}" in
  "") level=--test fuzz_seconds=60 ;;
  --all) level=--all fuzz_seconds=1800 ;;
  *) sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

n_passed=0
part() {
  if ! section "$@"; then
    printf '\n%s failed after %s\nparts: %d passed, 1 failed\n' "$1" "$(duration $SECONDS)" "$n_passed"
    exit 1
  fi
  n_passed=$((n_passed + 1))
}

# One build serves these tests and the fuzzers: what CI waits for is compiling.
sanitized_parsers() {
  build fuzz parsers && ctest --preset fuzz
}

everything_under() {
  build "$1" && ctest --preset "$1"
}

models=build/api/models

# smollm2_packs PRESET: SmolLM2 packed, and as a mixture of experts.
smollm2_packs() {
  local penstock=build/$1/src/penstock
  gguf=$(scripts/fetch_smollm2.sh) && mkdir -p $models || return 1
  $penstock pack "$gguf" -o $models/smollm2.pack --force > /dev/null || return 1
  $penstock pack "$gguf" -o $models/smollm2-8x2.pack --upcycle 8 --top-k 2 --force > /dev/null
}

# The whole grid of tiers, pin budgets and slots on a model that says something.
tiers_of_a_real_model() {
  smollm2_packs "$1" || return 1
  PENSTOCK_TIERS_MODEL=$models/smollm2-8x2.pack build/$1/src/model_test --gtest_brief=1 --gtest_filter='*TiersTest*'
}

# api_tests PRESET: the openai package against the built server, with SmolLM2 as it comes, packed, and as a mixture of experts.
api_tests() {
  local venv=build/api/venv
  [ -x $venv/bin/pip ] || python3 -m venv $venv || return 1
  $venv/bin/pip install --quiet --disable-pip-version-check -r tests/api/requirements.txt || return 1
  smollm2_packs "$1" || return 1
  export PENSTOCK_BIN=build/$1/src/penstock
  PENSTOCK_TEST_MODEL=$gguf $venv/bin/python -m pytest -q tests/api &&
    PENSTOCK_TEST_MODEL=$models/smollm2.pack $venv/bin/python -m pytest -q tests/api/test_answers.py &&
    PENSTOCK_TEST_MODEL=$models/smollm2-8x2.pack $venv/bin/python -m pytest -q tests/api/test_answers.py
}

# The same, slowly; most servers of these tests are killed, so what TSan sees counts by its reports.
api_tests_under_tsan() {
  local reports=$root/build/tsan/api_reports
  rm -rf "$reports" && mkdir -p "$reports" || return 1
  PENSTOCK_TEST_PATIENCE=20 TSAN_OPTIONS="log_path=$reports/report" api_tests tsan || return 1
  if [ -n "$(ls "$reports")" ]; then
    cat "$reports"/*
    return 1
  fi
}

part "packages" scripts/setup.sh $level
part "build" build dev
part "tests" ctest --preset dev -j 2
part "API tests" api_tests dev
part "tiers of a real model" tiers_of_a_real_model dev
part "parsers under ASan and UBSan" sanitized_parsers
part "fuzzers, $fuzz_seconds s each" scripts/fuzz.sh "$fuzz_seconds"
if [ $level = --all ]; then
  part "clang-tidy" build tidy
  part "everything under ASan and UBSan" everything_under asan
  part "everything under TSan" everything_under tsan
  part "API tests under TSan" api_tests_under_tsan
fi
printf '\neverything passed in %s\nparts: %d passed, 0 failed\n' "$(duration $SECONDS)" "$n_passed"
