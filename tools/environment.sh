# shellcheck shell=sh
# Sourced by ./trunkline and ./check, which set $root. An environment holds copies of the
# lock file and of pyproject.toml, written last: if they match, it is complete and current.

# ensure_environment FOLDER LOCK: after this, $root/FOLDER/bin/python has what
# requirements/LOCK.txt names, and the project itself.
ensure_environment() {
    if [ -x "$root/$1/bin/python" ] &&
        cmp -s "$root/requirements/$2.txt" "$root/$1/installed/lock.txt" &&
        cmp -s "$root/pyproject.toml" "$root/$1/installed/pyproject.toml"; then
        return 0
    fi
    python=$(find_python) || exit $?
    # -I: a PYTHONPATH meant for the user's agents has no say in how the environment is made.
    "$python" -I "$root/tools/bootstrap.py" "$(basename -- "$0")" "$1" "$2" || exit $?
}

# Prints the first Python that is new enough, preferring one that can make environments.
# PYTHON=... in the environment overrules the search.
find_python() {
    second_best=
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python; do
        if "$candidate" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            if "$candidate" -I -c 'import ensurepip, ssl, venv' >/dev/null 2>&1; then
                echo "$candidate"
                return 0
            fi
            second_best=${second_best:-$candidate}
        fi
        # A named interpreter that will not do is reported, not silently replaced.
        [ "$candidate" != "${PYTHON:-}" ] || break
    done
    if [ -n "$second_best" ]; then
        echo "$second_best"
        return 0
    fi
    {
        echo "$(basename -- "$0"): needs Python 3.11 or newer, found none${PYTHON:+ at $PYTHON}."
        echo "  Install it (Debian/Ubuntu: apt install python3 python3-venv; macOS: brew install python;"
        echo "  any system: uv python install), or name one: PYTHON=/path/to/python3.12 $0"
    } >&2
    return 1
}
