"""Defects of the frameworks that write models and compute references."""

from tvmake.repairs.repair import Repair

FRAMEWORKS = (
    Repair(
        name="one-column-resize",
        project="torch",
        layer="import",
        defect="Antialiased resizes (``_upsample_bilinear2d_aa``, ``_upsample_bicubic2d_aa``) of an image of one column give other "
        "rows than those of an image of two equal columns.",
        effect="The matrix of a resize, which is computed from unit vectors, would be wrong.",
        releases="2.13",
    ),
    Repair(
        name="derived-symbol-ranges",
        project="torch",
        layer="import",
        defect="``torch.export.load`` restores the ranges of derived dimensions (``2*batch``) as ranges of symbols.",
        effect="A ``.pt2`` with such a dimension cannot be decomposed: expected sympy.Symbol.",
        releases="2.13",
    ),
    Repair(
        name="group-norm-shapes",
        project="onnx",
        layer="import",
        defect="Shape inference gives no shape for the results of ``GroupNormalization`` and ``MeanVarianceNormalization``.",
        effect="Operators behind them have unknown shapes, so rewrites that need shapes refuse them.",
        releases="1.23",
    ),
    Repair(
        name="permuted-zero-points",
        project="onnxruntime",
        layer="import",
        defect="``MatMulNBits`` with the order of its rows (``g_idx``) subtracts 8 instead of its uint8 zero points.",
        effect="Results would differ from ONNX Runtime's, which are wrong, so such layers are refused.",
        releases="1.31",
    ),
)
