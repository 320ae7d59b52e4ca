#!/usr/bin/env bash
# Run by compose.yaml before the members: makes the authority, a certificate for each member and the operator's password,
# and gives each member its own ones, readable for it alone. What is there stays, so it may run at every start.
set -euo pipefail
umask 077

readonly user=10001

/cluster/certificates.sh /authority 1=member-1 2=member-2 3=member-3
[ -s /authority/operator.password ] || openssl rand -hex 5 >/authority/operator.password

give() { install --owner "$user" --group "$user" --mode 0600 "$1" "$2"; }
for member in 1 2 3; do
    give /authority/ca.pem "/secret-$member/ca.pem"
    give "/authority/member-$member.pem" "/secret-$member/member.pem"
    give "/authority/member-$member.key" "/secret-$member/member.key"
    give /authority/operator.password "/secret-$member/operator.password"
    chown "$user:$user" "/secret-$member"
done
