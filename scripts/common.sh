# Sourced by the other scripts: the repository's root, section headings with durations, and one way to give up.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/penstock

die() {
  echo "error: $*" >&2
  exit 1
}

# duration SECONDS: "48 s", "3 min 05 s"
duration() {
  if [ "$1" -lt 60 ]; then echo "$1 s"; else printf '%d min %02d s\n' $(($1 / 60)) $(($1 % 60)); fi
}

# section NAME COMMAND...: a heading, the command, and how long it took. Returns the command's status.
section() {
  local name=$1 began=$SECONDS status=0
  shift
  printf '\n=== %s\n' "$name"
  "$@" || status=$?
  printf -- '--- %s: %s in %s\n' "$name" "$([ $status = 0 ] && echo done || echo "FAILED (exit $status)")" \
    "$(duration $((SECONDS - began)))"
  return $status
}

# build PRESET [TARGET...]: configures and builds; cmake's own lines only when something is wrong.
build() {
  local preset=$1 log
  shift
  log=$(mktemp)
  if ! (cd "$root" && cmake --preset "$preset") >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  grep 'GPU code' "$log" || true
  rm -f "$log"
  (cd "$root" && cmake --build --preset "$preset" ${1:+--target "$@"})
}
