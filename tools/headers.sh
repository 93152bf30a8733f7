#!/bin/sh
# Compiles every header on its own, with each compiler that is here: tools/headers.sh 'FLAGS' HEADER…
set -eu

flags=$1
shift
compilers=
for compiler in gcc clang; do
  if command -v "$compiler" >/dev/null; then
    compilers="$compilers $compiler"
  else
    echo "headers: no $compiler here, not tried with it"
  fi
done
[ -n "$compilers" ] || exit 1

for compiler in $compilers; do
  for header in "$@"; do
    own=$flags
    # clang refuses some of gcc's warnings; the headers' own code still has to be silent under the shared ones.
    [ "$compiler" = clang ] && own="$flags -Wno-unknown-warning-option -Wno-unused-command-line-argument"
    # shellcheck disable=SC2086 # flags are words
    printf '#include "%s"\ntypedef int headers_check;\n' "$header" |
      "$compiler" $own -Werror -fsyntax-only -x c - || {
      echo "headers: $header does not compile alone with $compiler" >&2
      exit 1
    }
  done
done
echo "headers: $# headers compile alone with$compilers"
