#!/bin/sh
# Line coverage by file and folder from a cov build that has run: tools/coverage.sh BUILD_FOLDER. Below its floor a
# folder fails.
set -eu

build=$1
list=$(mktemp)
trap 'rm -f "$list"' EXIT

for folder in core storage api server; do
  for source in "$folder"/*.c; do
    object=$build/${source%.c}.o
    [ -f "$object" ] || continue
    # "File 'core/x.c'" and "Lines executed:98.00% of 50" follow each other; headers and system files are left out.
    gcov --no-output --object-directory "$build/$folder" "$object" 2>/dev/null | awk -v source="$source" '
      /^File / { mine = $2 == "\047" source "\047" }
      mine && /^No executable lines/ { seen = 1 }
      mine && /^Lines executed/ {
        share = $2
        sub(/.*:/, "", share)
        printf "%s %d %.0f\n", source, $4, $4 * share / 100
        mine = 0
        seen = 1
      }
      END { if (!seen) printf "%s 1 0\n", source }'
  done
done >"$list"

awk '
  BEGIN { floor["core"] = 95; floor["storage"] = 90; floor["api"] = 90; floor["server"] = 0 }
  { folder = $1; sub(/\/.*/, "", folder); lines[folder] += $2; hit[folder] += $3
    printf "  %5.1f %%  %5d lines  %s\n", 100 * $3 / $2, $2, $1 }
  END {
    for (folder in lines) {
      share = 100 * hit[folder] / lines[folder]
      printf "coverage: %-8s %5.1f %% of %d lines (floor %d)\n", folder, share, lines[folder], floor[folder]
      if (share < floor[folder]) failed = 1
    }
    exit failed
  }' "$list"
