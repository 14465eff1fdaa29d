#!/bin/sh
# A Grid Engine of one host on this machine: grid_engine.sh start DIRECTORY | stop DIRECTORY
#
# Needs root and Debian's gridengine-master, gridengine-exec and gridengine-client. All that it writes is in DIRECTORY.
# DIRECTORY/environment has the variables with which Grid Engine's commands find it.
#
#   queue `all.q`             eight slots, h_rt and h_vmem are enforced
#   parallel environment     `smp`
#   consumable resource      `phone`, one
set -eu

LIBRARY=/usr/lib/gridengine
SHARE=/usr/share/gridengine

fail() { echo "grid_engine.sh: $1" >&2; exit 3; }

free_ports() {
    python3 - <<'PY'
import socket
sockets = [socket.socket() for _ in range(2)]
for entry in sockets:
    entry.bind(("127.0.0.1", 0))
print(*(entry.getsockname()[1] for entry in sockets))
PY
}

begin() { # begin DIRECTORY MASTER-PORT EXECUTION-PORT
    mkdir -p "$1/root/default/common" "$1/master" "$1/spool" "$1/exec" "$1/root/bin" "$1/root/lib"
    architecture=$("$SHARE/util/arch")
    ln -s "$SHARE/util" "$1/root/util"
    ln -s "$LIBRARY" "$1/root/bin/$architecture"
    ln -s "$LIBRARY" "$1/root/lib/$architecture"
    cat > "$1/environment" <<VARIABLES
SGE_ROOT=$1/root
SGE_CELL=default
SGE_QMASTER_PORT=$2
SGE_EXECD_PORT=$3
VARIABLES
    sed -e 's/^admin_user .*/admin_user none/' -e "s|^spooling_params .*|spooling_params $1/spool|" \
        -e "s|^qmaster_spool_dir .*|qmaster_spool_dir $1/master|" "$SHARE/default-bootstrap" > "$1/root/default/common/bootstrap"
    sed -e 's/^min_uid .*/min_uid 0/' -e 's/^min_gid .*/min_gid 0/' -e "s|^execd_spool_dir .*|execd_spool_dir $1/exec|" \
        -e 's|^mailer .*|mailer /bin/true|' -e 's/^load_report_time .*/load_report_time 00:00:01/' \
        -e 's/^execd_params .*/execd_params PDC_INTERVAL=1/' \
        -e 's/flush_time=00:00:15/flush_time=00:00:01/' "$SHARE/default-configuration" > "$1/configuration"
    hostname > "$1/root/default/common/act_qmaster"
    # Its daemons compare names with those that the resolver returns for their addresses.
    echo "$(hostname) localhost" > "$1/root/default/common/host_aliases"
}

load() { # load DIRECTORY
    set -a
    . "$1/environment"
    set +a
}

initialise() { # initialise DIRECTORY
    "$LIBRARY/spoolinit" berkeleydb libspoolb "$1/spool" init
    "$LIBRARY/spooldefaults" configuration "$1/configuration"
    "$LIBRARY/spooldefaults" complexes "$SHARE/util/resources/centry"
    "$LIBRARY/spooldefaults" usersets "$SHARE/util/resources/usersets"
    "$LIBRARY/spooldefaults" managers root
}

configure() { # configure DIRECTORY
    host=$(hostname)
    qconf -ah "$host" > /dev/null 2>&1 || true
    qconf -as "$host"
    printf 'group_name @allhosts\nhostlist %s\n' "$host" > "$1/group"
    qconf -Ahgrp "$1/group"
    qconf -sc > "$1/complexes"
    echo "phone phone INT <= YES JOB 0 0" >> "$1/complexes"
    qconf -Mc "$1/complexes"
    sed -e 's/^slots .*/slots 8/' "$SHARE/util/resources/pe/smp" > "$1/smp"
    qconf -Ap "$1/smp"
    qconf -sq > "$1/queue"
    sed -i -e 's/^qname .*/qname all.q/' -e 's/^hostlist .*/hostlist @allhosts/' -e 's/^slots .*/slots 8/' -e 's/^pe_list .*/pe_list smp/' \
        -e 's/^shell .*/shell \/bin\/sh/' -e 's/^load_thresholds .*/load_thresholds NONE/' "$1/queue"
    qconf -Aq "$1/queue"
    qconf -ssconf | sed -e 's/^schedule_interval .*/schedule_interval 0:0:1/' -e 's/^flush_submit_sec .*/flush_submit_sec 1/' \
        -e 's/^flush_finish_sec .*/flush_finish_sec 1/' > "$1/scheduler"
    qconf -Msconf "$1/scheduler"
    qconf -rattr exechost complex_values phone=1 "$host"
}

wait_for() { # wait_for COMMAND…
    for _ in $(seq 100); do
        timeout 5 "$@" > /dev/null 2>&1 && return
        sleep 0.2
    done
    fail "$* does not succeed; see the messages in $directory"
}

start() {
    for program in sge_qmaster sge_execd qsub qconf; do
        command -v "$program" > /dev/null || fail "needs $program (Debian: gridengine-master gridengine-exec gridengine-client)"
    done
    [ "$(id -u)" = 0 ] || fail "needs root"
    mkdir -p "$1"
    directory=$(cd "$1" && pwd)
    # shellcheck disable=SC2046  # two words
    begin "$directory" $(free_ports)
    load "$directory"
    initialise "$directory"
    "$LIBRARY/sge_qmaster"
    wait_for qconf -sh
    configure "$directory"
    "$LIBRARY/sge_execd"
    wait_for sh -c "qhost | grep -q '^$(hostname) .*[0-9]G'"
}

stop() {
    [ -e "$1/environment" ] || return 0
    load "$1"
    qdel -f -u '*' > /dev/null 2>&1 || true
    for file in "$1"/exec/*/execd.pid "$1/master/qmaster.pid"; do
        [ -e "$file" ] || continue
        pid=$(cat "$file")
        kill "$pid" 2> /dev/null || continue
        for _ in $(seq 50); do
            kill -0 "$pid" 2> /dev/null || break
            sleep 0.1
        done
        kill -9 "$pid" 2> /dev/null || true
    done
}

case "${1-}" in
    start) start "${2:?a directory}" ;;
    stop) stop "${2:?a directory}" ;;
    *) sed -n 2,10p "$0" >&2; exit 2 ;;
esac
