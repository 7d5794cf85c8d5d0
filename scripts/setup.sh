#!/usr/bin/env bash
# Installs the packages of scripts/packages.txt that are missing on this Debian 12 machine; quiet when none is.
#
#   scripts/setup.sh          what the build and the demo need
#   scripts/setup.sh --test   adds what scripts/test.sh needs
#   scripts/setup.sh --all    adds what scripts/test.sh --all needs
set -euo pipefail
. "$(dirname "$0")/common.sh"

case "${1:-}" in
  "") sections=" base " ;;
  --test) sections=" base test " ;;
  --all) sections=" base test all " ;;
  *) sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

# The names under the wanted sections of packages.txt.
wanted=()
section=base
while read -r line; do
  case "$line" in
    "" | "#"*) ;;
    "["*"]") section=${line:1:-1} ;;
    *) [[ $sections == *" $section "* ]] && wanted+=("$line") ;;
  esac
done < "$root/scripts/packages.txt"

command -v dpkg-query > /dev/null || die "this is no Debian: install the equivalents of ${wanted[*]} yourself"
missing=()
for package in "${wanted[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo > /dev/null || die "not root and no sudo: have someone run apt-get install ${missing[*]}"
  as_root=(sudo)
fi
echo "installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q "$@" > "$log" 2>&1 || { cat "$log" >&2; die "apt-get $1 failed"; }; }
apt update
apt install --no-install-recommends "${missing[@]}"
