#!/bin/sh
# Runs check binaries, JOBS at a time (default: one a processor): tools/run-tests.sh BUILD_FOLDER TEST_SOURCE… Fails when one
# fails, is not there or ran no check at all (a wrong filter would otherwise look like success). What a binary printed is
# shown in one piece when it ends.
set -u

# One binary; its whole output goes to standard output at once, "name checks status" to the ledger.
run_one() {
  name=${1%.c}
  output=$(mktemp "$RUN_TESTS_DIR/XXXXXX")
  begun_s=$(date +%s)
  "$RUN_TESTS_BUILD/$name" >"$output" 2>&1 </dev/null
  status=$?
  # The sum over the closing lines ("100%: Checks: N, Failures: 0, Errors: 0") of the binary's suites.
  checks=$(awk '/^[0-9]+%: Checks: [0-9]+/ { sub(/,/, "", $3); n += $3 } END { print n + 0 }' "$output")
  {
    echo "== $RUN_TESTS_BUILD/$name ($(($(date +%s) - begun_s)) s)"
    cat "$output"
    [ "$checks" -ne 0 ] || echo "run-tests: $name ran 0 checks"
  } >"$output.shown"
  cat "$output.shown"
  echo "$name $checks $status" >>"$RUN_TESTS_DIR/ledger"
}

if [ "$1" = --one ]; then
  run_one "$2"
  exit 0 # the ledger tells what failed; xargs would stop at some statuses
fi

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
RUN_TESTS_BUILD=$build
RUN_TESTS_DIR=$(mktemp -d)
export ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS FITD_BINARY RUN_TESTS_BUILD RUN_TESTS_DIR
trap 'rm -rf "$RUN_TESTS_DIR"' EXIT

if [ $# -eq 0 ]; then
  echo "run-tests: no tests given" >&2
  exit 1
fi

: >"$RUN_TESTS_DIR/ledger"
printf '%s\n' "$@" | xargs -n 1 -P "${JOBS:-$(nproc 2>/dev/null || echo 2)}" "$0" --one

failed=$(awk '$2 == 0 || $3 != 0 { printf " %s", $1 }' "$RUN_TESTS_DIR/ledger")
total=$(awk '{ n += $2 } END { print n + 0 }' "$RUN_TESTS_DIR/ledger")
ran=$(awk 'END { print NR }' "$RUN_TESTS_DIR/ledger")
if [ -n "$failed" ] || [ "$ran" -ne $# ]; then
  echo "run-tests: FAILED in $build ($ran of $# ran):$failed" >&2
  exit 1
fi
echo "== $build: $# test binaries, $total checks, all passed"
