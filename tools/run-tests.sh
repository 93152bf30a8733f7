#!/bin/sh
# Runs check binaries one after the other: tools/run-tests.sh BUILD_FOLDER TEST_SOURCE… Fails when one fails, is not there
# or ran no check at all (a wrong filter would otherwise look like success).
set -u

build=$1
shift
case $build in
*asan | *tsan | *cov)
  # Instrumented code is several times slower.
  CK_TIMEOUT_MULTIPLIER=${CK_TIMEOUT_MULTIPLIER:-10}
  export CK_TIMEOUT_MULTIPLIER
  ;;
esac
ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=0:detect_stack_use_after_return=1:strict_string_checks=1}
UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}
FITD_BINARY=$build/fitd # for the tests that start the daemon
export ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS FITD_BINARY

if [ $# -eq 0 ]; then
  echo "run-tests: no tests given" >&2
  exit 1
fi

output=$(mktemp)
trap 'rm -f "$output"' EXIT
failed=
total=0
for source in "$@"; do
  name=${source%.c}
  echo "== $build/$name"
  "$build/$name" >"$output" 2>&1 </dev/null
  status=$?
  cat "$output"
  # The sum over the closing lines ("100%: Checks: N, Failures: 0, Errors: 0") of the binary's suites.
  checks=$(awk '/^[0-9]+%: Checks: [0-9]+/ { sub(/,/, "", $3); n += $3 } END { print n + 0 }' "$output")
  total=$((total + checks))
  if [ "$checks" -eq 0 ]; then
    echo "run-tests: $name ran 0 checks" >&2
    failed="$failed $name"
  elif [ "$status" -ne 0 ]; then
    failed="$failed $name"
  fi
done

if [ -n "$failed" ]; then
  echo "run-tests: FAILED in $build:$failed" >&2
  exit 1
fi
echo "== $build: $# test binaries, $total checks, all passed"
