# Sourced by the other scripts: installs what a build needs, and builds.

# What is missing, as Debian's package names: install_missing program|tests|clang|python|consumers|aarch64|mingw|wasm ...
install_missing() {
    missing= optional=
    command -v c++ >/dev/null || missing="$missing g++"
    command -v cmake >/dev/null || missing="$missing cmake"
    command -v make >/dev/null || command -v ninja >/dev/null || missing="$missing make"
    for part in "$@"; do
        case $part in
        program)
            has_header CLI/CLI.hpp || missing="$missing libcli11-dev"
            has_header nlohmann/json.hpp || missing="$missing nlohmann-json3-dev"
            has_header stb/stb_image.h || has_header stb_image.h || missing="$missing libstb-dev"
            has_header jpeglib.h || missing="$missing libjpeg-dev"
            has_header webp/decode.h || optional=libwebp-dev
            ;;
        tests) has_header doctest/doctest.h || missing="$missing doctest-dev" ;;
        clang) command -v clang++ >/dev/null || missing="$missing clang" ;;
        python) python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv" ;;
        consumers)
            command -v meson >/dev/null || missing="$missing meson"
            command -v ninja >/dev/null || missing="$missing ninja-build"
            command -v pkg-config >/dev/null || missing="$missing pkg-config"
            ;;
        aarch64)
            command -v aarch64-linux-gnu-g++ >/dev/null || missing="$missing g++-aarch64-linux-gnu"
            command -v qemu-aarch64 >/dev/null || missing="$missing qemu-user"
            ;;
        mingw)
            command -v x86_64-w64-mingw32-g++-posix >/dev/null || missing="$missing g++-mingw-w64-x86-64-posix"
            [ -x /usr/lib/wine/wine64 ] || missing="$missing wine64"
            ;;
        wasm)
            command -v em++ >/dev/null || missing="$missing emscripten"
            [ -d /usr/share/nodejs/acorn ] || missing="$missing node-acorn"
            ;;
        esac
    done
    [ -n "$missing" ] || return 0

    command -v apt-get >/dev/null || cannot_install "this system has no apt-get"
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || cannot_install "you are not root and there is no sudo"
        as_root=sudo
    fi
    # What is only nice to have comes along where something is installed at all.
    missing="$missing${optional:+ $optional}"
    echo "Installing:$missing"
    log=$(mktemp)
    # shellcheck disable=SC2086
    if ! { $as_root apt-get update && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
        tail -n 15 "$log" >&2
        rm -f "$log"
        cannot_install "apt-get failed"
    fi
    rm -f "$log"
}

cannot_install() {
    echo "These packages are missing and cannot be installed here ($1):$missing" >&2
    echo "On Debian or Ubuntu: sudo apt-get install$missing" >&2
    exit 1
}

has_header() {
    for folder in /usr/include /usr/local/include "/usr/include/$(uname -m)-linux-gnu"; do
        [ -e "$folder/$1" ] && return 0
    done
    return 1
}

# build PRESET TARGET
build() {
    if [ ! -e "build/$1/CMakeCache.txt" ] && command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi
    if cmake --list-presets >/dev/null 2>&1; then :; else
        echo "cmake $(cmake --version | sed -n '1s/.* //p') is too old for presets: 3.21 is needed" >&2
        exit 1
    fi
    echo "Building ($1); the first time takes a minute or two"
    quietly cmake --preset "$1"
    quietly cmake --build --preset "$1" --target "$2" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"
}

# A command's output, only if it fails.
quietly() {
    output=$(mktemp)
    if "$@" >"$output" 2>&1; then rm -f "$output"; else
        cat "$output" >&2
        rm -f "$output"
        exit 1
    fi
}
