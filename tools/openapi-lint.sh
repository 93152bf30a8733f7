#!/bin/sh
# Lints the API's description with a public linter from the npm registry: tools/openapi-lint.sh FILE. Where npm or the
# network is missing it says so and passes: what the service itself depends on is tested in tests/api/test_openapi.c.
set -eu

linter=@redocly/cli@2.77.0

if ! command -v npm >/dev/null; then
  echo "openapi-lint: skipped, npm is not here"
  exit 0
fi
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
if ! npm exec --yes --package="$linter" -- redocly --version >/dev/null 2>&1; then
  echo "openapi-lint: skipped, npm can not fetch $linter"
  exit 0
fi
npm exec --yes --package="$linter" -- redocly lint --config tools/openapi-lint.yaml "$1"
