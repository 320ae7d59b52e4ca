#!/usr/bin/env bash
# Makes an authority and one certificate for each member of a cluster:
#
#   certificates.sh DIR 1=HOST[,HOST...] 2=HOST[,HOST...] 3=HOST[,HOST...]
#   certificates.sh --renew DIR 2=HOST
#
# HOST is the host of the member's cluster.address, a name or an IP address: others check it when they connect. What is
# there and fits stays as it is, so the command may be repeated; a member's certificate is made anew when its hosts changed,
# when it ends within 30 days, or with --renew. An authority that ends within a year is refused: see docs/runbook.md.
#
# Each host needs ca.pem, its own member-N.pem and its own member-N.key. Whoever has ca.key can make members: keep it off
# the hosts. Needs openssl 3.
set -euo pipefail
umask 077

fail() { echo "certificates.sh: $*" >&2; exit 2; }

readonly day=$((24 * 60 * 60))
readonly authority_days=3650 member_days=398

renew=false
if [ "${1:-}" = --renew ]; then renew=true; shift; fi
[ $# -ge 2 ] || fail "usage: certificates.sh [--renew] DIR MEMBER=HOST[,HOST...]..."
command -v openssl >/dev/null || fail "there is no openssl: apt-get install openssl"
folder=$1; shift
mkdir -p "$folder"
work=$(mktemp -d "$folder/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT

# A key of the curve P-256, in a file that only its owner reads.
make_key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null; chmod 0600 "$1"; }

authority() {
    if [ -e "$folder/ca.pem" ] && [ -e "$folder/ca.key" ]; then
        openssl x509 -in "$folder/ca.pem" -noout -checkend $((365 * day)) >/dev/null ||
            fail "$folder/ca.pem ends within a year: make another authority in a new folder, and let members believe both"
        return
    fi
    [ ! -e "$folder/ca.pem" ] || fail "$folder/ca.key is missing beside ca.pem: bring it, or begin in a new folder"
    make_key "$work/ca.key"
    openssl req -x509 -new -key "$work/ca.key" -sha256 -days "$authority_days" -subj "/CN=Ringpit members" \
        -addext "basicConstraints=critical,CA:TRUE,pathlen:0" -addext "keyUsage=critical,keyCertSign,cRLSign" \
        -out "$work/ca.pem"
    chmod 0644 "$work/ca.pem"
    mv "$work/ca.key" "$work/ca.pem" "$folder/"
    echo "made $folder/ca.pem"
}

# `DNS:a,IP:b` for the hosts `a,b`.
names() {
    local host text="" hosts
    IFS=, read -ra hosts <<<"$1"
    for host in "${hosts[@]}"; do
        case $host in
        "" | *[!A-Za-z0-9.:-]*) fail "\`$host\` is no host name or address" ;;
        *:* | [0-9]*.[0-9]*.[0-9]*.*[0-9]) text+=",IP:$host" ;;
        *) text+=",DNS:$host" ;;
        esac
    done
    echo "${text#,}"
}

# Whether member $1 has a key and a certificate of this authority for exactly the names $2, and it lasts.
fits() {
    local certificate="$folder/member-$1.pem" key="$folder/member-$1.key" name names there
    [ -e "$certificate" ] && [ -e "$key" ] || return 1
    [ "$(openssl pkey -in "$key" -pubout)" = "$(openssl x509 -in "$certificate" -noout -pubkey)" ] || return 1
    openssl verify -CAfile "$folder/ca.pem" "$certificate" >/dev/null 2>&1 || return 1
    openssl x509 -in "$certificate" -noout -checkend $((30 * day)) >/dev/null || return 1
    IFS=, read -ra names <<<"$2"
    there=$(openssl x509 -in "$certificate" -noout -ext subjectAltName | grep -oE "DNS:|IP Address:" | wc -l)
    [ "$there" -eq "${#names[@]}" ] || return 1
    for name in "${names[@]}"; do
        case $name in
        IP:*) openssl x509 -in "$certificate" -noout -checkip "${name#IP:}" ;;
        *) openssl x509 -in "$certificate" -noout -checkhost "${name#DNS:}" ;;
        esac | grep -q "does match" || return 1
    done
}

member() {
    local number=$1 names=$2 base="$work/member-$1"
    if ! $renew && fits "$number" "$names"; then
        echo "kept $folder/member-$number.pem"
        return
    fi
    make_key "$base.key"
    openssl req -new -key "$base.key" -subj "/CN=ringpit member $number" -out "$base.csr"
    printf '%s\n' "basicConstraints=critical,CA:FALSE" "keyUsage=critical,digitalSignature" \
        "extendedKeyUsage=serverAuth,clientAuth" "subjectAltName=$names" >"$base.ext"
    openssl x509 -req -in "$base.csr" -CA "$folder/ca.pem" -CAkey "$folder/ca.key" -sha256 -days "$member_days" \
        -set_serial "0x$(openssl rand -hex 16 | sed 's/^./4/')" -extfile "$base.ext" -out "$base.pem" 2>/dev/null
    chmod 0644 "$base.pem"
    mv "$base.key" "$base.pem" "$folder/"
    echo "made $folder/member-$number.pem for $names"
}

authority
for pair in "$@"; do
    number=${pair%%=*}
    case $pair in [1-9]*=?*) ;; *) fail "\`$pair\` is not of the form MEMBER=HOST[,HOST...]" ;; esac
    case $number in *[!0-9]*) fail "\`$number\` is no member's number" ;; esac
    hosts=$(names "${pair#*=}")
    member "$number" "$hosts"
done
