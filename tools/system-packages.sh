#!/bin/sh
# The libraries that headless rendering needs, and the programs named as arguments (the package has the same name):
# installed when run as root with apt, else named in one line.
set -eu
wanted=""
for library in libEGL.so.1:libegl1 libGL.so.1:libgl1; do
  { ldconfig -p 2>/dev/null || /sbin/ldconfig -p; } | grep -q "${library%%:*}" || wanted="$wanted ${library##*:}"
done
for program in "$@"; do
  command -v "$program" >/dev/null 2>&1 || wanted="$wanted $program"
done
[ -z "$wanted" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing system packages:$wanted"
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $wanted >/dev/null
else
  echo "missing system packages:$wanted (Debian: sudo apt-get install$wanted); what needs them will not work"
fi
