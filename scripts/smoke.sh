# Sourced by scripts/smoke_*: builds the classifier of tests/consume from the single header, and runs it on the demo's pictures.
cd "$(dirname "$0")/.."
. scripts/setup.sh
demo=apps/graft/demo
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# prepare NAME PART: installs the toolchain, and lays out the headers that an app would have: graft's one, and stb's.
prepare() {
    echo "== $1: install"
    began=$(date +%s)
    install_missing program "$2"
    echo "   $(($(date +%s) - began)) s"
    mkdir -p "$work/include"
    cp -r single_include/graft "$work/include/"
    for folder in /usr/include/stb /usr/include; do
        if [ -e "$folder/stb_image.h" ]; then cp "$folder/stb_image.h" "$work/include/" && break; fi
    done
}

# compile COMMAND...: the compiler with its own switches
compile() {
    echo "== compile: $*"
    began=$(date +%s)
    "$@" -std=c++17 -O1 -Wall -Wextra -I"$work/include" tests/consume/classify.cpp
    echo "   $(($(date +%s) - began)) s"
}

# check ISA COMMAND...: runs the program; it must name every picture right, with that instruction set.
check() {
    isa=$1
    shift
    echo "== run: $*"
    began=$(date +%s)
    if ! "$@" $demo/model.onnx $demo/pictures/*.png >"$work/printed"; then
        cat "$work/printed"
        echo "the classifier failed" >&2
        exit 1
    fi
    cat "$work/printed"
    echo "   $(($(date +%s) - began)) s"
    grep -q ", $isa: 16 of 16 " "$work/printed" || { echo "expected the instruction set $isa" >&2; exit 1; }
}
