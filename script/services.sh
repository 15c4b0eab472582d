# Sourced by script/test and script/bench: fetches the real servers that they start. Does nothing for what is there. What cannot be
# had here is said, and its tests are skipped; with CI=true they fail.
# Usage: get_services (all), get_packages (those from Debian), get_services_for ARGUMENTS (what those tests need)
KAFKA=org.apache.kafka:kafka_2.13:4.4.0
KAFKA_LOGGING=org.apache.logging.log4j:log4j-slf4j-impl:2.25.5
NACOS_3=3.1.0-bugfix # third-party republications of Nacos, which has no jars of its servers on Maven Central
NACOS_2=2.2.4-OEM
SENTINEL=1.8.9 # the Java one, which reads and enforces what is published here
NACOS_CLIENT=2.5.1 # its own, 1.4.2, does not speak to Nacos 3
OPENSEARCH=2.19.6 # the last that runs on Java 17
ETCD_VERSION=v3.7.3 # Debian's is an older one; tests run against both
PACKAGES="redis-server:redis-server prometheus:prometheus etcd:etcd-server etcdctl:etcd-client openssl:openssl zsh:zsh fish:fish" # COMMAND:PACKAGE

get_services() {
    get_packages
    get_kafka
    get_opensearch
    get_nacos
    get_sentinel
    get_etcd
}

get_services_for() {
    case "$*" in "" | *services*) get_services; return ;; esac
    get_packages
    case "$*" in *collectors* | *audit* | *benchmarks*) get_kafka ;; esac
    case "$*" in *audit* | *opensearch* | *cli*) get_opensearch ;; esac
    case "$*" in *datasources* | *cli* | *nacos* | *interop*) get_nacos ;; esac
    case "$*" in *interop*) get_sentinel ;; esac
    case "$*" in *etcd* | *test_contract* | *datasources | *datasources/ | *"datasources "*) get_etcd ;; esac
}

get_etcd() { build_etcd || say "SKIPPED: without etcd $ETCD_VERSION the tests run against the packaged etcd alone (building it takes Go, and the module proxy)"; }

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
    get_jars kafka "$KAFKA $KAFKA_LOGGING" "$(dependency "$KAFKA")$(dependency "$KAFKA_LOGGING")" || without Kafka
}

get_opensearch() {
    local group=org.opensearch wanted each
    wanted=$(dependency "$group:opensearch:$OPENSEARCH")$(dependency org.apache.logging.log4j:log4j-core:2.25.5)
    for each in transport-netty4-client lang-painless analysis-common reindex-client mapper-extras-client; do wanted+=$(dependency "$group.plugin:$each:$OPENSEARCH"); done
    get_jars opensearch "$OPENSEARCH" "$wanted" && compile_launcher opensearch opensearch2 OpenSearchLauncher || without OpenSearch
}

get_nacos() {
    local group=io.github.pig-mesh.nacos boot=org.springframework.boot wanted each
    wanted=$(dependency "$group:nacos-server:$NACOS_3")
    get_jars nacos-3 "$NACOS_3" "$wanted" && compile_launcher nacos-3 nacos3 NacosLauncher || without "Nacos 3"
    wanted=$(dependency "$boot:spring-boot-starter-security:2.6.14")
    for each in config naming istio prometheus plugin-default-impl; do wanted+=$(dependency "io.springboot.nacos:nacos-$each:$NACOS_2"); done
    for each in api impl jackson; do wanted+=$(dependency "io.jsonwebtoken:jjwt-$each:0.11.2"); done
    get_jars nacos-2 "$NACOS_2" "$wanted" "$(dependency $boot:spring-boot-dependencies:2.6.14 '<type>pom</type><scope>import</scope>')" &&
        compile_launcher nacos-2 nacos2 NacosLauncher || without "Nacos 2"
}

get_sentinel() {
    local group=com.alibaba.csp wanted
    wanted=$(dependency "$group:sentinel-datasource-nacos:$SENTINEL")$(dependency "$group:sentinel-parameter-flow-control:$SENTINEL")
    wanted+=$(dependency "com.alibaba.nacos:nacos-client:$NACOS_CLIENT")$(dependency com.alibaba:fastjson:1.2.83)$(dependency org.slf4j:slf4j-nop:2.0.17)
    get_jars sentinel "$SENTINEL $NACOS_CLIENT" "$wanted" || without "Java Sentinel"
}

without() { say "SKIPPED: without $1's jars the tests that need $1 are left out (they take a JDK of 17 or newer, and mvn)"; }

dependency() { # GROUP:ARTIFACT:VERSION [MORE]
    local group artifact version
    IFS=: read -r group artifact version <<<"$1"
    printf '<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version>%s</dependency>' "$group" "$artifact" "$version" "${2:-}"
}

# Fetches what DEPENDENCIES need into .cache/NAME/lib, unless VERSIONS are there.
get_jars() { # NAME VERSIONS DEPENDENCIES [MANAGED]
    local folder="$ROOT/.cache/$1"
    [ "$(cat "$folder/.complete" 2>/dev/null)" != "$2" ] || return 0
    command -v java >/dev/null 2>&1 && command -v mvn >/dev/null 2>&1 || return 1
    say "Fetching the jars of $1, $2…"
    rm -rf "$folder"
    mkdir -p "$folder"
    {
        printf '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        printf '<groupId>tests</groupId><artifactId>%s</artifactId><version>1</version><packaging>pom</packaging>' "$1"
        printf '<dependencyManagement><dependencies>%s</dependencies></dependencyManagement>' "${4:-}"
        printf '<dependencies>%s</dependencies></project>\n' "$3"
    } >"$folder/pom.xml"
    if ! timeout 300 mvn -q -B -f "$folder/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$folder/lib" >"$folder/mvn.log" 2>&1; then
        tail -n 5 "$folder/mvn.log" >&2
        return 1
    fi
    printf '%s\n' "$2" >"$folder/.complete"
}

compile_launcher() { # NAME SOURCES CLASS
    local folder="$ROOT/.cache/$1" source="$ROOT/tests/services/$2/$3.java"
    [ "$source" -nt "$folder/classes/$3.class" ] || return 0
    command -v javac >/dev/null 2>&1 || return 1
    mkdir -p "$folder/classes"
    javac -nowarn -cp "$folder/lib/*" -d "$folder/classes" "$source" >"$folder/javac.log" 2>&1 || { tail -n 5 "$folder/javac.log" >&2; return 1; }
    touch "$folder/classes/$3.class"
}

# Builds a server from the published module. `go install` refuses it (its go.mod has replace directives); a main of our own that requires it builds.
build_etcd() {
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
