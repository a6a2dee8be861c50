# Sourced by the other scripts: installs what a build needs, builds, and tells how far it is.

# What is missing, as Debian's package names: install_missing program|tests|clang|fuzz|python|consumers|rust|packages|shells|site|browser|aarch64|mingw|wasm ...
install_missing() {
    missing= optional=
    command -v c++ >/dev/null || missing="$missing g++"
    command -v cmake >/dev/null || missing="$missing cmake"
    # ninja, because it builds what it can at once; make for those who call cmake themselves.
    command -v ninja >/dev/null || command -v make >/dev/null || missing="$missing ninja-build make"
    for part in "$@"; do
        case $part in
        program)
            has_header CLI/CLI.hpp || missing="$missing libcli11-dev"
            has_header nlohmann/json.hpp || missing="$missing nlohmann-json3-dev"
            has_header stb/stb_image.h || has_header stb_image.h || missing="$missing libstb-dev"
            has_header httplib.h || missing="$missing libcpp-httplib-dev"
            has_header jpeglib.h || missing="$missing libjpeg-dev"
            has_header webp/decode.h || optional=libwebp-dev
            ;;
        tests) has_header doctest/doctest.h || missing="$missing doctest-dev" ;;
        clang)
            command -v clang++ >/dev/null || missing="$missing clang"
            command -v clang-format >/dev/null || missing="$missing clang-format"
            command -v clang-tidy >/dev/null || missing="$missing clang-tidy"
            ;;
        fuzz) has_libfuzzer || missing="$missing clang libclang-rt-dev" ;;
        python) python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv" ;;
        consumers)
            command -v make >/dev/null || missing="$missing make"
            command -v meson >/dev/null || missing="$missing meson"
            command -v ninja >/dev/null || missing="$missing ninja-build"
            command -v pkg-config >/dev/null || missing="$missing pkg-config"
            ;;
        rust) command -v cargo >/dev/null || missing="$missing cargo" ;;
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
        mpi)
            command -v mpicxx.openmpi >/dev/null || missing="$missing openmpi-bin libopenmpi-dev"
            command -v mpicxx.mpich >/dev/null || missing="$missing mpich libmpich-dev"
            ;;
        site) command -v doxygen >/dev/null || missing="$missing doxygen" ;;
        packages)
            command -v dpkg-shlibdeps >/dev/null || missing="$missing dpkg-dev"
            command -v patchelf >/dev/null || missing="$missing patchelf"
            command -v lintian >/dev/null || missing="$missing lintian"
            ;;
        shells)
            command -v fish >/dev/null || missing="$missing fish"
            command -v zsh >/dev/null || missing="$missing zsh"
            command -v groff >/dev/null || missing="$missing groff"
            command -v mandoc >/dev/null || missing="$missing mandoc"
            ;;
        browser) command -v chromium >/dev/null || missing="$missing chromium" ;;
        debootstrap) command -v debootstrap >/dev/null || missing="$missing debootstrap" ;;
        esac
    done
    [ -n "$missing" ] || return 0

    command -v apt-get >/dev/null || cannot_install "this system has no apt-get"
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || cannot_install "you are not root and there is no sudo"
        as_root=sudo
        # Here, where the question for a password can be seen and answered.
        sudo true || cannot_install "sudo refused"
    fi
    # What is only nice to have comes along where something is installed at all.
    missing="$missing${optional:+ $optional}"
    echo "Installing:$missing"
    follow "Installing" install_packages || cannot_install "apt-get failed"
}
install_packages() {
    # shellcheck disable=SC2086
    $as_root apt-get update && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
}

cannot_install() {
    echo "These packages are missing and cannot be installed here ($1):$missing" >&2
    echo "On Debian or Ubuntu: sudo apt-get install$missing" >&2
    exit 1
}

has_libfuzzer() { command -v clang++ >/dev/null && [ -e "$(clang++ -print-file-name=libclang_rt.fuzzer-"$(uname -m)".a)" ]; }

has_header() {
    for folder in /usr/include /usr/local/include "/usr/include/$(uname -m)-linux-gnu"; do
        [ -e "$folder/$1" ] && return 0
    done
    return 1
}

# build PRESET TARGET
build() {
    if [ ! -e "build/$1/CMakeCache.txt" ] && command -v ninja >/dev/null; then export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"; fi
    if cmake --list-presets >/dev/null 2>&1; then :; else
        echo "cmake $(cmake --version | sed -n '1s/.* //p') is too old for presets: 3.21 is needed" >&2
        exit 1
    fi
    follow "Configuring" cmake --preset "$1" || exit 1
    follow "Building" cmake --build --preset "$1" --target "$2" --parallel "$(jobs_at_once)" || exit 1
}

# run_tests PRESET: elsewhere than on a terminal ctest's own lines tell enough.
run_tests() {
    CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(jobs_at_once)} && export CTEST_PARALLEL_LEVEL
    if [ -t 1 ]; then follow "Testing" ctest --preset "$1"; else ctest --preset "$1"; fi
}

jobs_at_once() { echo "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"; }

# follow WHAT COMMAND...: runs a command that may take minutes and tells how far it is: on a terminal in one line that is drawn anew,
# elsewhere in a line now and then. What else it says is shown where it fails. Gives back the command's exit status.
follow() {
    what=$1
    shift
    {
        # A line a second, so that the clock goes on while nothing ends. Its sleep ends with it: what runs on would hold the folder that this is done in.
        {
            pause=
            trap 'kill $pause 2>/dev/null; exit' TERM
            while :; do
                sleep 1 &
                pause=$!
                wait "$pause"
                echo "follow: tick"
            done
        } &
        ticker=$!
        "$@" 2>&1 </dev/null && code=0 || code=$?
        kill "$ticker"
        wait "$ticker" || true
        echo "follow: ended $code"
    } | show_progress "$what"
}

# What builds, ctest and apt-get say, as a number of so many and what was last.
show_progress() {
    what=$1 began=$(date +%s) count='' last='' running='' aloud='' ticks=0 kept=$(mktemp)
    look_at_terminal
    exec 3>"$kept"
    while IFS= read -r line; do
        case $line in
        "follow: tick")
            ticks=$((ticks + 1))
            if [ -n "$columns" ]; then draw_line; elif [ $((ticks % 15)) -eq 0 ]; then echo "$what: $(so_far)${last:+, $last}"; fi
            ;;
        "follow: ended "*)
            exec 3>&-
            clear_line
            code=${line##* }
            if [ "$code" -ne 0 ]; then cat "$kept" >&2; elif [ "$ticks" -gt 0 ] && [ -z "$aloud" ]; then echo "$what: done in $(clock)"; fi
            rm -f "$kept"
            return "$code"
            ;;
        *"globbed directories"*) ;;  # a build of its own, of two steps
        "["*"] "*)  # "[12/34] Building CXX object folder/CMakeFiles/target.dir/file.cpp.o", "[ 35%] Building ..."
            count=${line#[} && count=${count%%]*} && last=$(plain_name "${line#*] }")
            ;;
        *" Start "*": "*)  # "      Start 12: name"
            running="$running ${line##*: }" last=${running# }
            ;;
        *" Test "*"#"*": "*)  # " 3/51 Test #12: name .......   Passed    0.31 sec"
            count=${line%% Test *} && name=${line#*: } && name=${name%% *}
            running=$(without "$name" $running) && last=${running# }
            case $line in *" Passed "*) ;; *) clear_line && echo "$line" ;; esac
            ;;
        Get:* | Unpacking* | "Setting up"*) last=${line%%(*} ;;
        "Test project "*) aloud=yes ;;  # what ctest says is for people
        -- | "-- "*) ;;
        *) if [ -n "$aloud" ]; then clear_line && echo "$line"; else echo "$line" >&3; fi ;;
        esac
    done
}

# "57 of 224, 1:23", or the time alone.
so_far() {
    case $count in
    */*) echo "$((${count%/*})) of ${count#*/}, $(clock)" ;;
    *%) echo "$((${count%\%})) %, $(clock)" ;;
    *) clock ;;
    esac
}
clock() {
    seconds=$(($(date +%s) - began))
    printf '%d:%02d\n' $((seconds / 60)) $((seconds % 60))
}
plain_name() {
    case $1 in
    *CMakeFiles/*.dir/*)
        folder=${1%%CMakeFiles/*} && file=${1#*.dir/}
        echo "${folder##* }${file%.o}"
        ;;
    *) echo "${1##* }" ;;
    esac
}
# without WORD WORD...: the others
without() {
    for word in "$@"; do [ "$word" = "$1" ] || printf ' %s' "$word"; done
}

look_at_terminal() {
    columns=
    if [ ! -t 1 ] || [ "${TERM:-dumb}" = dumb ]; then return; fi
    columns=$(stty size 2>/dev/null </dev/tty | cut -d ' ' -f 2)
    if [ "${columns:-0}" -le 0 ]; then columns=80; fi
    full='#' empty='-' bold='' dim='' plain=''
    case ${LC_ALL:-${LC_CTYPE:-${LANG:-}}} in *[Uu][Tt][Ff]8* | *[Uu][Tt][Ff]-8*) full='━' empty='━' ;; esac
    if [ -z "${NO_COLOR:-}" ]; then bold=$(printf '\033[32m') dim=$(printf '\033[2m') plain=$(printf '\033[0m'); elif [ "$full" = '━' ]; then empty='─'; fi
}
clear_line() { if [ -n "$columns" ]; then printf '\r\033[K'; fi; }
draw_line() {
    done_of=0 all=1 width=24 bar="$bold"
    case $count in
    */*) done_of=$((${count%/*})) all=${count#*/} ;;
    *%) done_of=$((${count%\%})) all=100 ;;
    esac
    text="$(so_far)  $last"
    room=$((columns - ${#what} - width - 3))
    if [ "$room" -lt 10 ]; then width=0 room=$((columns - ${#what} - 3)); fi
    i=0
    while [ $i -lt $width ]; do
        if [ $i -eq $((done_of * width / all)) ]; then bar="$bar$plain$dim"; fi
        if [ $i -lt $((done_of * width / all)) ]; then bar="$bar$full"; else bar="$bar$empty"; fi
        i=$((i + 1))
    done
    clear_line
    printf '%s %s%s %.*s' "$what" "$bar" "$plain" "$room" "$text"
}
