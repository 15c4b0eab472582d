# Sourced by script/test and script/bench: fetches the real servers that they start. Does nothing for what is there. What cannot be
# had here is said, and its tests are skipped; with CI=true they fail.
# Usage: get_services (all), get_packages (those from Debian), get_services_for ARGUMENTS (what those tests need)
KAFKA=org.apache.kafka:kafka_2.13:4.4.0
KAFKA_LOGGING=org.apache.logging.log4j:log4j-slf4j-impl:2.25.5
ETCD_VERSION=v3.7.3 # Debian's is an older one; tests run against both
PACKAGES="redis-server:redis-server prometheus:prometheus etcd:etcd-server etcdctl:etcd-client openssl:openssl" # COMMAND:PACKAGE

get_services() {
    get_packages
    try_kafka
    try_etcd
}

get_services_for() {
    case "$*" in "") get_services; return ;; esac
    get_packages
    case "$*" in *collectors* | *services*) try_kafka ;; esac
    case "$*" in *etcd* | *test_contract* | *datasources | *datasources/ | *"datasources "*) try_etcd ;; esac
}

try_kafka() { get_kafka || say "SKIPPED: without Kafka's jars the tests that need Kafka are left out (they take a JDK of 17 or newer, and mvn)"; }
try_etcd() { get_etcd || say "SKIPPED: without etcd $ETCD_VERSION the tests run against the packaged etcd alone (building it takes Go, and the module proxy)"; }

get_packages() {
    local pair missing=""
    for pair in $PACKAGES; do
        command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair#*:}"
    done
    if [ -n "$missing" ]; then install_packages $missing || say "SKIPPED: without$missing the tests that need them are left out (apt-get install$missing)"; fi
}

install_packages() {
    command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || return 1
    say "Installing $*…"
    local log="$ROOT/.cache/apt.log"
    mkdir -p "$ROOT/.cache"
    apt_install "$@" >"$log" 2>&1 || { timeout 120 apt-get update >>"$log" 2>&1 && apt_install "$@" >>"$log" 2>&1; } || { tail -n 5 "$log" >&2; return 1; }
}

# Starts no service: the tests start their own.
apt_install() { DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 timeout 300 apt-get install -q -y --no-install-recommends "$@"; }

get_kafka() {
    local folder="$ROOT/.cache/kafka" group artifact version coordinates
    [ "$(cat "$folder/.complete" 2>/dev/null)" != "$KAFKA $KAFKA_LOGGING" ] || return 0
    command -v java >/dev/null 2>&1 && command -v mvn >/dev/null 2>&1 || return 1
    say "Fetching $KAFKA…"
    rm -rf "$folder"
    mkdir -p "$folder"
    {
        printf '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        printf '<groupId>tests</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging><dependencies>'
        for coordinates in "$KAFKA" "$KAFKA_LOGGING"; do
            IFS=: read -r group artifact version <<<"$coordinates"
            printf '<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>' "$group" "$artifact" "$version"
        done
        printf '</dependencies></project>\n'
    } >"$folder/pom.xml"
    if ! timeout 300 mvn -q -B -f "$folder/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$folder/lib" >"$folder/mvn.log" 2>&1; then
        tail -n 5 "$folder/mvn.log" >&2
        return 1
    fi
    printf '%s\n' "$KAFKA $KAFKA_LOGGING" >"$folder/.complete"
}

# Builds a server from the published module. `go install` refuses it (its go.mod has replace directives); a main of our own that requires it builds.
get_etcd() {
    local folder="$ROOT/.cache/etcd-$ETCD_VERSION" work
    [ ! -x "$folder/etcd" ] || return 0
    command -v go >/dev/null 2>&1 || return 1
    say "Building etcd $ETCD_VERSION (about two minutes, once)…"
    rm -rf "$ROOT"/.cache/etcd-v*
    mkdir -p "$folder"
    work=$(mktemp -d "$folder/work.XXXXXX")
    printf 'package main\n\nimport (\n\t"os"\n\n\t"go.etcd.io/etcd/server/v3/etcdmain"\n)\n\nfunc main() { etcdmain.Main(os.Args) }\n' >"$work/main.go"
    if ! (
        cd "$work" && go mod init etcd && timeout 200 go get "go.etcd.io/etcd/server/v3@$ETCD_VERSION" && timeout 100 go mod tidy &&
            CGO_ENABLED=0 timeout 500 go build -trimpath -ldflags='-s -w' -o etcd . && mv etcd "$folder/etcd"
    ) >"$folder/build.log" 2>&1; then
        tail -n 5 "$folder/build.log" >&2
        rm -rf "$work"
        return 1
    fi
    rm -rf "$work"
}
