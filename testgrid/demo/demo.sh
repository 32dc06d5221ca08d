#!/usr/bin/env bash
# The demo: packages from Manifests, one bundle, and a host without a route out that becomes a cluster.
#
#     demo.sh expect   says how long it takes
#     demo.sh up       UPSTREAM=lab (default), internet, which does not have the image of the operator: without a module, or auto:
#                      the internet if all of its servers answer, else the lab
#     demo.sh clean
#
# With FULL=1 it installs the whole catalogue and follows the page of each add-on; see full.sh.
#
# It runs the commands that a user runs, and shows each of them.
set -euo pipefail
cd "$(dirname "$0")/../.."

upstream=${UPSTREAM:-lab}
full=${FULL:+yes}
work=demo
host=demo

# current NAME: the add-on's version that the README and the demo install.
current() { awk -v name="$1" '$1 == name && $3 == "default" { print $2 }' internal/releases/releases.txt; }

kubernetes=v$(current kubernetes)
add_ons=()
for name in containerd kubernetes flannel local-path-provisioner metrics-server; do add_ons+=("addons/$name/$(current "$name")"); done
operator=$(current operator)
module_add_ons=("addons/operator/$operator" testgrid/demo/greeter/0.1.0)
kubectl=(kubectl --kubeconfig /etc/kubernetes/admin.conf)

[ -z "$full" ] || . testgrid/demo/full.sh

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

show() {
    printf '$ %s\n' "$*"
    "$@"
}

on_host() { bin/sealift-testgrid lab enter "$host" -- "$@"; }

on_host_shown() {
    printf '%s# %s\n' "$host" "$*"
    on_host "$@"
}

# expect: the times of a bare machine; the lab prints what is left of its own.
expect() {
    if [ -n "$full" ]; then
        expect_full
        return
    fi
    cat <<-'EOF'
	Sealift's programs are compiled first, then the lab makes what the world offers, then a host becomes a cluster.
	With empty caches and two fast processors this takes about 12 minutes: 3 + 8 + 1; slow ones took 28. Later runs take two minutes.
	EOF
}

# choose_upstream sets upstream where it is auto.
choose_upstream() {
    [ "$upstream" = auto ] || return 0
    local server
    for server in registry.k8s.io ghcr.io registry-1.docker.io dl.k8s.io github.com; do
        curl --silent --head --output /dev/null --connect-timeout 5 --max-time 15 "https://$server/" || {
            upstream=lab
            say "upstream: the lab, since https://$server does not answer"
            return 0
        }
    done
    upstream=internet
    say "upstream: the internet, since all of its servers answer; UPSTREAM=lab makes them here"
}

# preflight_program: sealift-preflight runs the checks of add-ons. The demo does not compile it.
preflight_program=()
[ -x bin/sealift-preflight ] || preflight_program=(--sealift-preflight none)

# lab_add_ons: what the lab makes beside Kubernetes; none means what the tests install.
lab_add_ons=()
if [ -n "$full" ]; then
    for name in "${more[@]}"; do add_ons+=("addons/$name/$(newest "$name")"); done
    for folder in "${add_ons[@]}"; do [[ $folder == addons/kubernetes/* ]] || lab_add_ons+=(--add-on "${folder#addons/}"); done
fi

mirror=''
trap '[ -z "$mirror" ] || kill "$mirror" 2>/dev/null || true' EXIT

# serve_upstream: the outside world, on loopback, until this script ends.
serve_upstream() {
    rm -f "$work/sealift.yaml"
    bin/sealift-testgrid lab serve "${lab_add_ons[@]}" --kubernetes "$kubernetes" --registry 127.0.0.1:0 --files 127.0.0.1:0 --write-config "$work/sealift.yaml" 2>"$work/mirror.log" &
    mirror=$!
    for _ in $(seq 600); do
        [ ! -s "$work/sealift.yaml" ] || return 0
        kill -0 "$mirror" 2>/dev/null || break
        sleep 0.5
    done
    tail -n 20 "$work/mirror.log" >&2
    echo "the mirror does not answer; its log is $work/mirror.log" >&2
    exit 1
}

# serve_operator: the image of the operator, which this repository makes, is in the lab's registry as those of upstream are.
serve_operator() {
    local registry
    registry=$(sed -n 's|^ *ghcr.io: *http://||p' "$work/sealift.yaml")
    go run ./deploy/image -operator bin/sealift-controller -out "$work/operator.tar"
    skopeo copy --quiet --dest-tls-verify=false "oci-archive:$work/operator.tar" "docker://$registry/sealift/operator:$operator"
    rm "$work/operator.tar"
}

build() {
    local options=(--out "$work/packages" --target debian-12)
    if [ "$upstream" = lab ]; then
        say "the lab: what the world offers, made from Go modules and Debian packages (once per machine)"
        bin/sealift-testgrid lab build "${lab_add_ons[@]}" --kubernetes "$kubernetes" >"$work/lab.txt"
        serve_upstream
        options+=(--config "$work/sealift.yaml")
        say "the image of the operator, made without a container engine"
        serve_operator
        add_ons+=("${module_add_ons[@]}")
    fi
    say "packages, from Manifests that name the true upstreams"
    mkdir -p "$work/packages" "$work/usb"
    show bin/sealift build "${add_ons[@]}" "${options[@]}" 2>"$work/build.log" || {
        tail -n 20 "$work/build.log" >&2
        exit 1
    }
    say "one bundle, onto a USB disk"
    cp testgrid/demo/installer.yaml "$work/installer.yaml"
    [ "$upstream" != lab ] || printf '  greeter:\n    version: 0.1.0\n' >>"$work/installer.yaml"
    if [ -n "$full" ]; then
        for name in "${more[@]}"; do installer_of "$name"; done >>"$work/installer.yaml"
    fi
    [ -x bin/sealift-preflight ] || echo "(without sealift-preflight, so that the add-ons' own checks of the host do not run; 'make build' makes it)"
    show bin/sealift bundle -f "$work/installer.yaml" --store "$work/packages" --out "$work/usb/cluster.tar.gz" "${preflight_program[@]}"
    tar xzf "$work/usb/cluster.tar.gz" -C "$work/usb" --occurrence=1 install.sh
}

boot() {
    say "a bare Debian host, with the disk plugged in"
    bin/sealift-testgrid lab remove "$host" 2>/dev/null || true
    show bin/sealift-testgrid lab boot "$host" --usb "$work/usb"
    printf '%s# ip route get 1.1.1.1\n' "$host"
    if on_host ip route get 1.1.1.1; then
        echo "the host has a way out; that is no air gap" >&2
        exit 1
    fi
}

install() {
    say "the install"
    printf '%s# cd /media/usb && cat install.sh | bash -s airgap\n' "$host"
    on_host bash -c 'cd /media/usb && cat install.sh | bash -s airgap' | tee "$work/install.log"
}

# greets waits for the words of the module's Deployment.
greets() {
    local pod said
    for _ in $(seq 120); do
        pod=$(on_host "${kubectl[@]}" -n addon-operator get pods -l app=greeter --sort-by=.metadata.creationTimestamp -o 'jsonpath={.items[-1:].metadata.name}')
        said=$(on_host "${kubectl[@]}" get --raw "/api/v1/namespaces/addon-operator/pods/$pod:8080/proxy/" 2>&1) || true
        [ "$said" != "$1" ] || {
            echo "the pod of the module says: $said"
            return
        }
        sleep 0.5
    done
    echo "the pod of the module says: $said; it is to say: $1" >&2
    on_host "${kubectl[@]}" -n addon-operator logs deployment/operator --tail=20 >&2
    exit 1
}

prove_module() {
    say "a module: its hook counts nodes, its chart is a Deployment; a value changes in the ConfigMap"
    on_host_shown "${kubectl[@]}" -n addon-operator exec deployment/operator -- addon-operator module list
    greets "hello from 1 node"
    on_host_shown "${kubectl[@]}" -n addon-operator patch configmap addon-operator --type merge -p '{"data": {"greeter": "greeting: good morning"}}'
    greets "good morning from 1 node"
}

prove() {
    say "a pod with a volume, read by another pod through a Service"
    on_host "${kubectl[@]}" apply -f - <testgrid/demo/app.yaml
    on_host "${kubectl[@]}" wait --for=condition=Complete job/reader --timeout=120s >/dev/null
    on_host_shown "${kubectl[@]}" logs job/reader
    [ "$upstream" != lab ] || prove_module
    say "the cluster"
    on_host_shown "${kubectl[@]}" get nodes -o wide
    on_host_shown "${kubectl[@]}" get pods -A
    for _ in $(seq 60); do # metrics come with the first scrape
        on_host "${kubectl[@]}" top nodes >/dev/null 2>&1 && break
        sleep 1
    done
    on_host_shown "${kubectl[@]}" top nodes
    say "images that came from anywhere but the bundle"
    on_host "${kubectl[@]}" get events -A -o jsonpath='{range .items[?(@.reason=="Pulled")]}{.message}{"\n"}{end}' |
        grep -v 'already present on machine' || echo none
}

case ${1:-} in
expect)
    expect
    ;;
up)
    begin=$SECONDS
    mkdir -p "$work"
    choose_upstream
    build
    boot
    install
    prove
    if [ -n "$full" ]; then
        prove_pages
        table_of_add_ons
    fi
    say "done in $((SECONDS - begin)) s"
    echo "enter the host:  bin/sealift-testgrid lab enter $host"
    echo "remove it all:   make demo-clean"
    ;;
clean)
    bin/sealift-testgrid lab remove "$host" 2>/dev/null || true
    rm -rf "$work"
    ;;
*)
    echo "usage: demo.sh expect|up|clean" >&2
    exit 2
    ;;
esac
