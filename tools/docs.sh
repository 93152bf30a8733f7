#!/bin/sh
# Puts the endpoint table that PROGRAM prints between the markers of FILE: tools/docs.sh [--check] PROGRAM FILE.
# With --check nothing is written, and a difference fails.
set -eu

check=no
if [ "$1" = --check ]; then
  check=yes
  shift
fi
program=$1
file=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$program" >"$work/table"
awk -v table="$work/table" '
  /<!-- endpoints: end -->/ { inside = 0; ends++ }
  !inside { print }
  /<!-- endpoints: begin/ { inside = 1; begins++; while ((getline line < table) > 0) print line }
  END { exit !(begins == 1 && ends == 1) }' "$file" >"$work/new" || {
  echo "docs: $file needs the markers '<!-- endpoints: begin -->' and '<!-- endpoints: end -->' once each" >&2
  exit 1
}
if [ "$check" = no ]; then
  cat "$work/new" >"$file"
elif ! diff -u "$file" "$work/new"; then
  echo "docs: the endpoint table of $file is stale; run 'make docs'" >&2
  exit 1
fi
