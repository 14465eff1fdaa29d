#!/bin/sh
# Run a job script on a node, and write its exit code where status.py reads it: job.sh DIRECTORY JOBSCRIPT
/bin/sh "$2"
code=$?
echo "$code" > "$1/$JOB_ID.exit"
exit "$code"
