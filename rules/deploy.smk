"""Deploy: bring a package to its device, by digest.

INPUTS   results/{model}/{precision}/{target}/package.tar
OUTPUTS  results/{model}/{precision}/{target}/receipt.json
"""


rule deploy:
    input:
        package=plan.path("package.tar"),
    output:
        receipt=plan.path("receipt.json"),
    log:
        "logs/{model}/{precision}/{target}/deploy.log",
    group:
        "device"
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=job_resources.memory_mb("deploy"),
        runtime=job_resources.minutes("deploy"),
        gres=job_resources.gres,
    params:
        options=lambda w: plan.options("deploy", w),
        code=plan.fingerprint("deploy"),
    message:
        "deploy {wildcards.model} {wildcards.precision} {wildcards.target}"
    shell:
        "tvmake step deploy {input.package:q} --options {params.options:q}"
        " --receipt {output.receipt:q} > {log:q} 2>&1"
