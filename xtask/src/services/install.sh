# Installs the Debian packages "$@" and nothing else: no service is started or restarted, and no database
# cluster is created. The files that prevent this are removed at the end, also after Ctrl-C.
# ROOT is a prefix of every path that is written, for tests of this script.
set -eu
policy=$ROOT/usr/sbin/policy-rc.d
clusters=$ROOT/etc/postgresql-common/createcluster.d
no_cluster=$clusters/zz-posthaste.conf

undo() {
    rm -f "$no_cluster"
    if [ -n "${clusters_is_ours-}" ]; then rmdir "$clusters"; fi
    if [ -n "${policy_is_ours-}" ]; then rm -f "$policy"; fi
}
trap undo EXIT
trap 'exit 130' INT TERM

# An existing policy is the administrator's, and is kept.
if [ ! -e "$policy" ]; then
    policy_is_ours=yes
    mkdir -p "${policy%/*}"
    printf '#!/bin/sh\n# Temporary, by "cargo xtask services".\nexit 101\n' > "$policy"
    chmod 755 "$policy"
fi
if [ ! -e "$clusters" ]; then
    clusters_is_ours=yes
    mkdir -p "$clusters"
fi
echo 'create_main_cluster = false' > "$no_cluster"

export DEBIAN_FRONTEND=noninteractive
apt-get update || echo 'apt-get update failed: trying with the existing lists'
apt-get install -y --no-install-recommends --no-upgrade "$@"
