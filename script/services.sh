# Sourced by script/test and script/bench: fetches the real servers that they start. Does nothing for what is there. What cannot be
# had here is said, and its tests are skipped; with CI=true they fail.
# Usage: get_services (all), get_packages (those from Debian)
KAFKA=org.apache.kafka:kafka_2.13:4.4.0
KAFKA_LOGGING=org.apache.logging.log4j:log4j-slf4j-impl:2.25.5
PACKAGES="redis-server:redis-server prometheus:prometheus etcd:etcd-server etcdctl:etcd-client openssl:openssl" # COMMAND:PACKAGE

get_services() {
    get_packages
    get_kafka || say "SKIPPED: without Kafka's jars the tests that need Kafka are left out (they take a JDK of 17 or newer, and mvn)"
}

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
