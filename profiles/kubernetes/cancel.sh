#!/bin/sh
exec kubectl delete job --ignore-not-found --wait=false "$@"
