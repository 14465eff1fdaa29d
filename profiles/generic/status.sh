#!/bin/sh
# Print running, success or failed for a job's number, as Snakemake expects. A job that Slurm has forgotten has failed.
said=$(squeue --noheader --states=all --format=%T --jobs="$1" 2>&1)
case "$said" in
    COMPLETED) echo success ;;
    *"Invalid job id"* | "") echo failed ;;
    BOOT_FAIL | CANCELLED | DEADLINE | FAILED | NODE_FAIL | OUT_OF_MEMORY | PREEMPTED | TIMEOUT) echo failed ;;
    *) echo running ;; # also when Slurm does not answer for a moment
esac
