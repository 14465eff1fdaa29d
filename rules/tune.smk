rule tune:
    """Search for one kernel of a target until its budget is spent, and store the records.
    INPUTS   results/tuning/{target}/round{number}/workloads/{workload}.json
    OUTPUTS  results/tuning/{target}/round{number}/{workload}.json (a receipt; the records are in the store)
    """
    input:
        **plan.inputs("tune"),
    output:
        **plan.outputs("tune"),
    log:
        **plan.logs("tune"),
    conda:
        plan.conda
    container:
        plan.image
    threads: plan.threads("tune")
    resources:
        **plan.resources("tune"),
    params:
        **plan.params("tune"),
    message:
        "tune {params.name} for {wildcards.target} to {params.trials} trials"
    shell:
        "tvmake step tune {input.kernel:q} --name {params.name:q} --trials {params.trials} --points {params.points:q} --options {params.options:q}"
        " --receipt {output.receipt:q} --events {log.events:q} > {log.text:q} 2>&1"
