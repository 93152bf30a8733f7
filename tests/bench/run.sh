#!/bin/sh
# Runs every benchmark that was built: tests/bench/run.sh BUILD_DIRECTORY. Fails when one misses a stated goal.
set -eu
status=0
for bench in "$1"/tests/bench/bench_*; do
  case $bench in *.o | *.d) continue ;; esac
  echo "== ${bench##*/}"
  "$bench" || status=1
done
exit "$status"
