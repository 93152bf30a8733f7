#!/bin/sh
# Prints a C file with the bytes of a text file: tools/embed-text.sh api_openapi api/openapi.json > build/gen/openapi.c
# gives api_openapi[] (with a terminator) and api_openapi_length. Bytes instead of a string literal, because literals
# that long exceed what C11 promises.
set -eu
if [ $# -ne 2 ] || [ ! -f "$2" ]; then
  echo "usage: tools/embed-text.sh NAME FILE" >&2
  exit 2
fi
echo "/* Made from $2 by tools/embed-text.sh; change that file instead. */"
echo "#include <stddef.h>"
echo "extern const char $1[];"
echo "extern const size_t $1_length;"
echo "const char $1[] = {"
od -An -v -tu1 "$2" | awk '{ line = ""; for (i = 1; i <= NF; i++) line = line ($i < 128 ? $i : $i - 256) ","; print line }'
echo "0};"
echo "const size_t $1_length = sizeof $1 - 1;"
