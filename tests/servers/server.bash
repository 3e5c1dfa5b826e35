# What the servers in this directory have in common; each of them sets NAME, HOME_OF_SERVER and WHAT, defines
# install_server and command_line, and ends with: run "$@"
set -euo pipefail

CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/kurma-test"

usage() {
    sed -n '2,/^$/{/^#/!q;s/^# \{0,1\}//p}' "$0" >&2
    exit 2
}

# A virtual environment with these packages, in HOME_OF_SERVER.
python_packages() {
    rm -rf "$HOME_OF_SERVER"
    python3 -m venv "$HOME_OF_SERVER"
    "$HOME_OF_SERVER/bin/pip" install --quiet --disable-pip-version-check "$@"
}

is_installed() { [ -e "$HOME_OF_SERVER/complete" ]; }

# Several tests may come at once; the first installs, the others wait.
ensure_installed() {
    mkdir -p "$CACHE"
    exec 9>"$CACHE/$NAME.lock"
    flock 9
    if ! is_installed; then
        install_server
        mkdir -p "$HOME_OF_SERVER"
        touch "$HOME_OF_SERVER/complete"
    fi
    exec 9>&-
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Starts a process of the server, which has to answer on the port.
launch() {
    local what=$1 port=$2 dir=$3
    shift 3
    if answers "$port"; then
        echo "$what: port $port is taken" >&2
        exit 1
    fi
    setsid "$@" </dev/null >"$dir/$what.log" 2>&1 &
    local pid=$!
    echo "$pid" >>"$dir/$NAME.pid"
    for _ in $(seq 600); do
        if answers "$port"; then
            return 0
        fi
        if ! kill -0 "$pid" 2>/dev/null; then
            echo "$what: the server ended at once:" >&2
            tail -n 20 "$dir/$what.log" >&2
            exit 1
        fi
        sleep 0.1
    done
    echo "$what: no answer on port $port after 60 s; see $dir/$what.log" >&2
    stop "$dir"
    exit 1
}

start() {
    mkdir -p "$2"
    ensure_installed
    command_line "$1" "$2"
}

# A process and all that come from it: some are sessions of their own.
with_children() {
    local child
    echo "$1"
    for child in $(ps -o pid= --ppid "$1"); do
        with_children "$child"
    done
}

# Ends what was started with a directory, with a signal.
end() {
    local file="$2/$NAME.pid" pid all=()
    [ -e "$file" ] || return 0
    while read -r pid; do
        mapfile -t -O "${#all[@]}" all < <(with_children "$pid")
    done <"$file"
    kill "-$1" "${all[@]}" 2>/dev/null || true
    for pid in "${all[@]}"; do
        while kill -0 "$pid" 2>/dev/null && ! ps -o stat= -p "$pid" | grep -q '^Z'; do
            sleep 0.02
        done
    done
    rm -f "$file"
}

stop() { end TERM "$1"; }

run() {
    case "${1:-} $#" in
        "start 3") start "$2" "$3" ;;
        "stop 2") stop "$2" ;;
        "kill 2") end KILL "$2" ;;
        "installed 1") is_installed ;;
        "install 1") ensure_installed ;;
        "what 1") echo "$WHAT" ;;
        *) usage ;;
    esac
}
