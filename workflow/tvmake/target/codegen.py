"""Which of TVM's pipelines lowers a target's scheduled kernels, with the remedies it needs in this process."""

from tvmake.quick_tvm import tvm

DEFAULT = "default"


def uses_textures(target: "tvm.target.Target") -> bool:
    """Whether tensors of a target are kept in images."""
    return "texture" in target.keys


def tir_pipeline(target: "tvm.target.Target") -> str:
    """The name of the pipeline to give to ``tirx.build`` and ``relax.build``, registered where it is ours."""
    if target.kind.name == "opencl":
        from tvmake.target.adreno import source_hook

        source_hook.install()
    if not uses_textures(target):
        return DEFAULT
    from tvmake.target.adreno import tir_pipeline as textures

    return textures.register()
