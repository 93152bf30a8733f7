#!/bin/sh
# Prints a C file with the documents of a catalogue folder: tools/embed-seed.sh deploy/catalog > build/gen/seed.c
# Every document becomes an array of bytes, because string literals that long exceed what C11 promises. Tables are
# sorted by name and end with a NULL name.
set -eu
LC_ALL=C
export LC_ALL

if [ $# -ne 1 ] || [ ! -d "$1" ]; then
  echo "usage: tools/embed-seed.sh CATALOGUE_FOLDER (with profiles/ and models/)" >&2
  exit 2
fi

# names FOLDER: the documents there without their suffix, one a line, in the order of the table.
names()
{
  for file in "$1"/*.json; do
    [ -f "$file" ] && basename "$file" .json
  done | sort
}

# arrays FOLDER PREFIX: one byte array for each name read from standard input.
arrays()
{
  awk -v folder="$1" -v prefix="$2" '
    BEGIN {
      for (i = 1; i < 256; i++)
        code[sprintf("%c", i)] = i < 128 ? i "" : sprintf("'"'"'\\%03o'"'"'", i)
    }
    {
      file = folder "/" $0 ".json"
      printf "\nstatic const char %s_%d[] = { /* %s */\n", prefix, NR, $0
      while ((status = (getline line < file)) > 0) {
        n = length(line)
        for (i = 1; i <= n; i++)
          printf "%s,", code[substr(line, i, 1)]
        print "10,"
      }
      close(file)
      if (status < 0) {
        print "embed-seed: cannot read " file | "cat >&2"
        exit 1
      }
      print "0};"
    }'
}

# table NAME PREFIX: the index over the arrays, in the same order.
table()
{
  awk -v name="$1" -v prefix="$2" '
    BEGIN { printf "\nconst struct catalogue_seed %s[] = {\n", name }
    { printf "  {\"%s\", %s_%d},\n", $0, prefix, NR }
    END { print "  {NULL, NULL}};" }'
}

echo "/* Generated from $1 by tools/embed-seed.sh; edit the documents there. */"
echo '#include "api/catalogue.h"'
for kind in profiles models; do
  list=$(names "$1/$kind")
  if [ -z "$list" ]; then
    echo "embed-seed: no documents in $1/$kind" >&2
    exit 1
  fi
  prefix=${kind%s}
  printf '%s\n' "$list" | arrays "$1/$kind" "$prefix"
  printf '%s\n' "$list" | table "catalogue_seed_$kind" "$prefix"
done
