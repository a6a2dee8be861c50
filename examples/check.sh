#!/bin/sh
# check.sh PROGRAM SOURCE: runs an example as its first comment says, and compares what it prints with what that comment expects.
set -eu
program=$1
source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n -E 's;^(//|#)   prints  ;;p' "$source" >"$folder/expected"
[ -s "$folder/expected" ] || { echo "$source does not say what it prints"; exit 1; }
root=$(cd "$(dirname "$0")/.." && pwd)
# Files of the project are named from its root; whatever an example writes goes elsewhere.
ln -s "$root/apps" "$folder/apps"
cd "$folder"
# shellcheck disable=SC2046
"$program" $(sed -n -E 's;^(//|#)   run     [^ ]* *;;p' "$source") >printed
diff expected printed && cat printed
