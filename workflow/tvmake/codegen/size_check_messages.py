"""What TVM's virtual machine reports when a size check fails: the check's own report, instead of the shape that it compares."""

import re
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.attributes import SIZE_CHECK_MARK
from tvmake.ir.rewriting import with_functions
from tvmake.ir.size_checks import size_reports

CONTEXT = re.compile(r"ErrorContext\(match_cast, ty=R\.Shape\(\[.*, (\d+)\]\)\)")
"""As TVM writes the context of a size check, which ends with the report's index."""


@tvm.transform.module_pass(opt_level=0, name="ReportSizeChecks")
class ReportSizeChecks:
    """Put the reports of size checks into a module that ``VMShapeLower`` has lowered."""

    def transform_module(self, module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
        """The module with the reports."""
        main = module["main"]
        reports = size_reports(main)

        def report(text: Any) -> Any:
            found = CONTEXT.match(str(text.value))
            return tvm.ir.StringImm(f"{SIZE_CHECK_MARK}{reports[int(found[1])]}{SIZE_CHECK_MARK}") if found else text

        if not reports:
            return module
        return with_functions(module, {"main": tvm_ffi.structural_map(main, (tvm.ir.StringImm, report))})
