# shellcheck shell=bash
# shellcheck disable=SC2154 # demo.sh sets work, kubectl and add_ons
# The demo with the whole catalogue: demo.sh reads this file with FULL=1.

# newest NAME: the last version of an add-on in the table of releases.
newest() { awk -v name="$1" '$1 == name { version = $2 } END { print version }' internal/releases/releases.txt; }

# Add-ons beside those of the demo, in the order in which their pages are followed.
more=(metallb traefik cert-manager object-store registry velero prometheus volume-snapshots node-local-dns descheduler kube-network-policies gatekeeper)

# The options that the Installer of each page has.
installer_of() {
    local name=$1
    printf '  %s:\n    version: %s\n' "$name" "$(newest "$name")"
    case $name in
    metallb) echo '    addresses: [10.90.210.1-10.90.210.8]' ;;
    velero) echo '    schedule: 0 2 * * *' ;;
    esac
}

# expect_full: the lab compiles Prometheus, Traefik, Velero and the others once.
expect_full() {
    cat <<-'EOF'
	This is the whole catalogue on one host. What the lab has not made yet takes about an hour and a half on two processors; later runs
	take about ten minutes. The host needs 8 GB of memory and 20 GB of disk.
	EOF
}

# commands PAGE: the files and commands of the section "See that it works" as a script. A command that is to be refused must be.
commands() {
    awk '
    /^## / { inside = /^## See that it works/ }
    !inside { next }
    /^```/ { block = !block; if (file) { print "END"; file = "" } first = block; next }
    !block { next }
    first && /^# [a-z0-9.-]+\.yaml$/ { file = $2; first = 0; print "cat >" file " <<\"END\""; next }
    { first = 0 }
    file { print; next }
    /^# kubectl run refused / { sub(/^# /, ""); print "if " $0 "; then exit 1; fi"; next }
    /^# / { sub(/^# /, ""); line = $0; gsub(/\047/, "\047\\\047\047", line); print "echo \047# " line "\047"; print }
    ' "docs/addons/$1.md"
}

# follow NAME: the page's commands on the host. What they leave in the namespace default is deleted.
follow() {
    local name=$1
    # The page cordons workers, and there are none.
    if [ "$name" = descheduler ]; then
        echo 'kubectl --namespace kube-system rollout status deployment/descheduler --timeout 180s'
    else
        commands "$name"
    fi >"$work/follow-$name.sh"
    on_host bash -c 'mkdir -p /root/page && cat >/root/page/run.sh' <"$work/follow-$name.sh"
    on_host bash -c 'cd /root/page && KUBECONFIG=/etc/kubernetes/admin.conf bash -eo pipefail run.sh' </dev/null || return
    on_host bash -c 'export KUBECONFIG=/etc/kubernetes/admin.conf; rm -r /root/page
        kubectl delete deployment,ingress,pod --all --now; kubectl delete service --field-selector metadata.name!=kubernetes' >/dev/null
}

# prove_pages: each page's commands, and what came of them.
prove_pages() {
    local name began
    : >"$work/proofs.txt"
    for name in "${more[@]}"; do
        say "docs/addons/$name.md, \"See that it works\""
        began=$SECONDS
        if follow "$name"; then
            echo "$name ok $((SECONDS - began))" >>"$work/proofs.txt"
        else
            echo "$name FAILED $((SECONDS - began))" >>"$work/proofs.txt"
        fi
    done
}

# memory_of_add_ons: bytes by add-on, of all containers whose image a package brought, as the kubelet counts them.
memory_of_add_ons() {
    bin/sealift inspect "$work/usb/cluster.tar.gz" -o json | jq -r '.packages[] | .name as $n | .images[]? | [.ref // .name, $n] | @tsv' >"$work/images.tsv"
    on_host "${kubectl[@]}" get pods -A -o json |
        jq -r '.items[] | .metadata as $m | .spec.containers[]
            | .image |= (if test("^[^/]*[.:][^/]*/") then . else "docker.io/" + . end | sub("^docker.io/(?<name>[^/]+)$"; "docker.io/library/\(.name)"))
            | [$m.namespace + "/" + $m.name + "/" + .name, .image] | @tsv' >"$work/containers.tsv"
    on_host "${kubectl[@]}" top pods -A --containers --no-headers | awk '
        FILENAME == ARGV[1] { owner[$1] = $2; next }
        FILENAME == ARGV[2] { image[$1] = $2; next }
        { sub(/Mi$/, "", $5); sum[owner[image[$1 "/" $2 "/" $3]]] += $5 }
        END { for (name in sum) print name, sum[name] }' "$work/images.tsv" "$work/containers.tsv" -
}

# table_of_add_ons: what each add-on cost, and whether its page holds. It fails if one does not.
table_of_add_ons() {
    say "the catalogue"
    memory_of_add_ons >"$work/memory.txt"
    printf '%-24s %-9s %12s %12s %12s %8s  %s\n' ADD-ON VERSION 'PACKAGE MiB' 'INSTALL s' 'MEMORY MiB' 'PAGE s' RESULT
    local folder name version size seconds memory proof took
    for folder in "${add_ons[@]}"; do
        version=${folder##*/} name=$(basename "${folder%/*}")
        size=$(stat -c %s "$work/packages/$name-$version.tar.gz")
        seconds=$(awk -v name="$name" '
            match($0, /\] [a-z-]+\/[^:]*: done in [0-9.hms]+/) {
                split(substr($0, RSTART + 2, RLENGTH - 2), part, /\/|: done in /)
                if (part[1] != name) next
                text = part[length(part)]
                if (text ~ /ms$/) total += text / 1000
                else if (match(text, /m/)) total += substr(text, 1, RSTART - 1) * 60 + substr(text, RSTART + 1)
                else total += text + 0
            }
            END { printf "%.1f", total }' "$work/install.log")
        memory=$(awk -v name="$name" '$1 == name { print $2 }' "$work/memory.txt")
        read -r proof took < <(awk -v name="$name" '$1 == name { print $2, $3 }' "$work/proofs.txt") || proof='' took=''
        printf '%-24s %-9s %12s %12s %12s %8s  %s\n' "$name" "$version" "$(awk -v s="$size" 'BEGIN { printf "%.1f", s / 1048576 }')" "$seconds" "${memory:--}" "${took:--}" "${proof:--}"
    done
    if grep FAILED "$work/proofs.txt" >&2; then
        echo "the pages of these add-ons do not hold" >&2
        return 1
    fi
}
