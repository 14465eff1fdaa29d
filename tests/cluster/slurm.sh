#!/bin/sh
# A Slurm of a few virtual nodes on this machine: slurm.sh start DIRECTORY | stop DIRECTORY | status
#
# Needs root and Debian's slurmctld, slurmd, slurm-client and munge. Everything it writes is in DIRECTORY, but for
# /etc/slurm/slurm.conf, where Slurm's commands look for it inside jobs too. A machine with a slurm.conf of its own is
# left alone. One that is still there though the process that started it is not is stopped.
#
#   n1    one `phone`; taken last      partition main
#   n2                                 partition main
#   far                                partition far: what is below DIRECTORY/elsewhere is not shared with it
#
# Each has as many CPUs as this machine, two at least, and 4000 MB.
set -eu

CONF=/etc/slurm/slurm.conf
MARK="# written by tests/cluster/slurm.sh"

fail() { echo "slurm.sh: $1" >&2; exit 3; }

free_ports() { # free_ports NUMBER
    python3 - "$1" <<'PY'
import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in sockets:
    one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in sockets))
PY
}

write_conf() { # write_conf DIRECTORY CONTROLLER-PORT NODE-PORT NODE-PORT NODE-PORT
    host=$(hostname)
    cpus=$(nproc)
    [ "$cpus" -ge 2 ] || cpus=2
    mkdir -p /etc/slurm
    cat > "$CONF.new" <<CONF
$MARK
# DIRECTORY $1
# STARTED_BY $PPID
ClusterName=tvmake
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$2
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$1/munge.socket
CredType=cred/munge
StateSaveLocation=$1/state
SlurmdSpoolDir=$1/spool-%n
SlurmctldPidFile=$1/slurmctld.pid
SlurmdPidFile=$1/slurmd-%n.pid
SlurmctldLogFile=$1/slurmctld.log
SlurmdLogFile=$1/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=1,bf_interval=5
GresTypes=phone
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
MinJobAge=3600
OverTimeLimit=0
KillWait=5
ReturnToService=2
SlurmdTimeout=60
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$3 CPUs=$cpus RealMemory=4000 Gres=phone:1 Weight=9
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$4 CPUs=$cpus RealMemory=4000
NodeName=far NodeHostname=$host NodeAddr=127.0.0.1 Port=$5 CPUs=$cpus RealMemory=4000
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=120 State=UP
PartitionName=far Nodes=far MaxTime=120 State=UP
CONF
    echo "NodeName=n1 Name=phone Count=1" > /etc/slurm/gres.conf
    mv "$CONF.new" "$CONF"
}

start() {
    directory=$1
    for program in munged slurmctld slurmd sbatch squeue unshare; do
        command -v "$program" > /dev/null || fail "needs $program (Debian: slurmctld slurmd slurm-client munge util-linux)"
    done
    [ "$(id -u)" = 0 ] || fail "needs root"
    if [ -e "$CONF" ]; then
        [ "$(head -n 1 "$CONF")" = "$MARK" ] || fail "$CONF is this machine's own"
        owner=$(sed -n 's/^# STARTED_BY //p' "$CONF")
        if scontrol ping 2> /dev/null | grep -q "is UP"; then
            [ -n "$owner" ] && ! kill -0 "$owner" 2> /dev/null || fail "it runs already, for process ${owner:-unknown}"
        fi
        (stop "$(sed -n 's/^# DIRECTORY //p' "$CONF")")
        for name in slurmd slurmctld; do pkill -x $name || true; done  # where their directory is gone
    fi
    mkdir -p "$directory/state" "$directory/elsewhere"
    directory=$(cd "$directory" && pwd)
    # munged's socket lies below directories that others cannot write; its clients are root here.
    head -c 128 /dev/urandom > "$directory/munge.key"
    chmod 600 "$directory/munge.key"
    munged --force --key-file "$directory/munge.key" --socket "$directory/munge.socket" \
        --pid-file "$directory/munged.pid" --log-file "$directory/munged.log" --seed-file "$directory/munge.seed"
    write_conf "$directory" $(free_ports 4)
    slurmctld
    slurmd -N n1
    slurmd -N n2
    # A mount of its own over one directory: what the others have there is not on this node.
    unshare --mount sh -c "mount -t tmpfs tvmake-elsewhere '$directory/elsewhere' && exec slurmd -N far"
    for _ in $(seq 100); do
        [ "$(sinfo --noheader --Node --states=idle --format=%N 2> /dev/null | sort -u | wc -l)" = 3 ] && return
        sleep 0.2
    done
    sinfo --Node --long >&2 || true
    stop "$directory"
    fail "its nodes do not come up; see $directory/*.log"
}

stop() {
    directory=$1
    scancel --user root 2> /dev/null || true
    pids=
    for name in slurmd-n1 slurmd-n2 slurmd-far slurmctld munged; do
        pid=$(cat "$directory/$name.pid" 2> /dev/null) && kill "$pid" 2> /dev/null && pids="$pids $pid" || true
    done
    for _ in $(seq 50); do
        # shellcheck disable=SC2086
        kill -0 $pids 2> /dev/null || break
        sleep 0.1
    done
    for pid in $pids; do kill -9 "$pid" 2> /dev/null || true; done
    if [ "$(head -n 1 "$CONF" 2> /dev/null)" = "$MARK" ]; then rm -f "$CONF" /etc/slurm/gres.conf; fi
}

case "${1-}" in
    start) start "${2:?a directory}" ;;
    stop) stop "${2:?a directory}" ;;
    status) sinfo --Node --long && squeue ;;
    *) sed -n 2,13p "$0" >&2; exit 2 ;;
esac
