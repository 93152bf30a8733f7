#!/bin/sh
# Installs the Debian packages that are missing: tools/deps.sh build [check] [peers]. Says first what it would install; uses sudo
# only when not root; stops with a message where it can not install. This is the only list of packages.
set -eu

build_packages="gcc libc6-dev make pkg-config libmicrohttpd-dev libgnutls28-dev libjansson-dev libsqlite3-dev libcurl4-openssl-dev
  nettle-dev zlib1g-dev check curl tzdata"
# Programs that tests talk to where they are installed. Both are services that start when they are installed, so only CI asks.
peer_packages="prometheus-node-exporter prometheus"
check_packages="clang clang-format clang-tidy cppcheck pmccabe shellcheck"

fail()
{
  echo "deps: $*" >&2
  exit 1
}

wanted=
for set in "$@"; do
  case $set in
  build) wanted="$wanted $build_packages" ;;
  check) wanted="$wanted $check_packages" ;;
  peers) wanted="$wanted $peer_packages" ;;
  *) fail "unknown set '$set'; there are: build check peers" ;;
  esac
done
[ -n "$wanted" ] || fail "say which set: build check peers"

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  if command -v cc >/dev/null && command -v pkg-config >/dev/null &&
    pkg-config --exists libmicrohttpd gnutls jansson sqlite3 libcurl nettle zlib check; then
    exit 0
  fi
  fail "this is not a Debian system; install a C11 compiler, pkg-config and the libraries libmicrohttpd, gnutls, jansson," \
    "sqlite3, libcurl, nettle, zlib and check with your own package manager"
fi

missing=
for package in $wanted; do
  # shellcheck disable=SC2016 # the format is dpkg's, not the shell's
  case $(dpkg-query -W -f '${Status} ${Provides}' "$package" 2>/dev/null || true) in
  "install ok installed"*) ;;
  *) missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0
missing=${missing# }
echo "deps: will install: $missing"

sudo=
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || fail "not root and no sudo; as root run: apt-get install -y $missing"
  sudo=sudo
fi

# Without package lists (fresh container) nothing can be found.
# shellcheck disable=SC2086 # a list of words
if ! apt-get install --simulate --no-install-recommends $missing >/dev/null 2>&1; then
  $sudo apt-get update || fail "apt-get update failed; check the network and the package sources"
fi
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing ||
  fail "could not install: $missing"
