#!/bin/sh
# Print running, success or failed for a job's name, as Snakemake expects; keep a failed job's output.
said=$(kubectl get job "$1" --output 'jsonpath={.status.succeeded}/{.status.failed}' 2>&1)
case "$said" in
    1/*) echo success ;;
    */1 | *NotFound*)
        mkdir -p .snakemake/cluster
        kubectl logs "job/$1" --tail=200 > ".snakemake/cluster/$1.log" 2>&1
        echo failed
        ;;
    *) echo running ;; # also when the API server does not answer for a moment
esac
