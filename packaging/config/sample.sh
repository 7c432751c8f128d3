#!/bin/sh
# A sample configuration: each key of `gpuscope COMMAND --print-config` with its default, commented out, so that what a site
# leaves so stays at the default of the version that is installed.
#
# usage: sample.sh GPUSCOPE agent|head
set -eu

echo "# Every key is commented out, with its default. To set one, remove the # in front of it and of its section."
"$1" "$2" --print-config | sed 's/^\( *[^# ]\)/#\1/'
