# Shared by script/run and script/test: makes .venv with everything installed, and does nothing when it is up to date.
# Usage: set_up run|test
ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
VENV="$ROOT/.venv"

step() { say ""; say "== $1"; }
say() { printf '%s\n' "$*" >&2; }
die() { say "error: $1"; [ $# -lt 2 ] || say "       $2"; exit "${3:-69}"; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        command -v "$candidate" >/dev/null 2>&1 || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    die "no Python 3.11 or newer found" "Install one (apt-get install python3 python3-venv), or name it: PYTHON=/path/to/python3.12 $0"
}

can_compile() {
    [ -z "${SENTINEL_PURE:-}" ] || return 1
    command -v "${CC:-cc}" >/dev/null 2>&1 || return 1
    "$VENV/bin/python" -c 'import sysconfig, pathlib, sys
sys.exit(not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists())'
}

# What an installation depends on, and what the compiled modules depend on: a change of any of it means doing it again.
installation() {
    {
        printf '%s\n' "$1"
        "$VENV/bin/python" -VV
        cat "$ROOT/pyproject.toml" "$ROOT/constraints.txt" "$ROOT/script/build-requirements.txt"
    } | sha256sum | cut -d' ' -f1
}

compilation() {
    {
        "$VENV/bin/python" -VV
        cat "$ROOT/setup.py" "$ROOT/constraints.txt" "$ROOT/hot_modules.txt"
        grep -v '^#' "$ROOT/hot_modules.txt" | while read -r module; do [ -z "$module" ] || cat "$ROOT/$module"; done
    } | sha256sum | cut -d' ' -f1
}

holds() { [ "$(cat "$VENV/.$1" 2>/dev/null)" = "$2" ]; }

set_up() {
    local what=$1 python extras=""
    command -v git >/dev/null 2>&1 || die "git is not installed" "apt-get install git"
    if ! "$VENV/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        python=$(find_python)
        say "Creating .venv with $("$python" -V)…"
        rm -rf "$VENV"
        "$python" -m venv "$VENV" >&2 || {
            rm -rf "$VENV"
            die "$python cannot make a virtual environment" "On Debian and Ubuntu: apt-get install python3-venv"
        }
    fi
    # What the tests need holds all that running needs.
    if ! holds installed "$(installation test)" && ! { [ "$what" = run ] && holds installed "$(installation run)"; }; then
        say "Installing into .venv…"
        if [ "$what" = test ]; then extras="[dev]"; fi
        rm -f "$VENV/.installed"
        install_quietly -r "$ROOT/script/build-requirements.txt"
        SENTINEL_PURE=1 install_quietly --no-build-isolation -e "$ROOT$extras"
        installation "$what" >"$VENV/.installed"
    fi
    if can_compile; then
        if ! holds compiled "$(compilation)"; then compile; fi
    elif [ -n "$(find "$ROOT/sentinel_core" -name '*.so' -print -quit)" ] || ! holds compiled pure; then
        say "The engine runs interpreted: no C compiler with Python headers here, or SENTINEL_PURE is set."
        find "$ROOT/sentinel_core" -name '*.so' -delete
        echo pure >"$VENV/.compiled"
    fi
}

# Servers for the tests. What cannot be installed is left to the tests, which skip loudly (and fail with CI=true).
# Usage: want_servers COMMAND:PACKAGE...
want_servers() {
    local pair packages=() log="$VENV/servers.log"
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null 2>&1 || packages+=("${pair#*:}")
    done
    if [ ${#packages[@]} -eq 0 ]; then return; fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        say "SKIPPED: tests with real servers; install them with: apt-get install ${packages[*]}"
        return
    fi
    say "Installing servers for the tests: ${packages[*]}…"
    if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
        tail -n 5 "$log" >&2
        say "SKIPPED: tests with these servers, which could not be installed (see $log)."
    fi
}

compile() {
    local log="$VENV/compile.log"
    say "Compiling the hot modules of the engine (one to two minutes, once)…"
    find "$ROOT/sentinel_core" -name '*.so' -delete
    if ! (cd "$ROOT" && "$VENV/bin/python" setup.py --quiet build_ext --inplace) >"$log" 2>&1; then
        find "$ROOT/sentinel_core" -name '*.so' -delete
        tail -n 15 "$log" >&2
        say "warning: compiling failed (see $log); the engine runs interpreted. To try again: rm -r .venv"
    fi
    compilation >"$VENV/.compiled"
}

install_quietly() {
    local log
    log=$(mktemp)
    if ! "$VENV/bin/python" -m pip install --disable-pip-version-check --no-input -q -c "$ROOT/constraints.txt" "$@" >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        rm -f "$log"
        die "pip could not install $*" "Is the package index reachable? pip's own settings (PIP_INDEX_URL, pip.conf) are used."
    fi
    rm -f "$log"
}
