"""Report failed size checks of TVM's virtual machine by their own messages, instead of the compared shapes."""

import re
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.attributes import SIZE_CHECK_MARK
from tvmake.ir.rewriting import with_functions
from tvmake.ir.size_checks import size_reports

CONTEXT = re.compile(r"ErrorContext\(match_cast, ty=R\.Shape\(\[.*, (\d+)\]\)\)")
"""TVM's text for the context of a size check; it ends with the index of the report."""


@tvm.transform.module_pass(opt_level=0, name="ReportSizeChecks")
class ReportSizeChecks:
    """Put the reports of size checks into a module after ``VMShapeLower``."""

    def transform_module(self, module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
        """The module with the reports."""
        main = module["main"]
        reports = size_reports(main)

        def report(text: Any) -> Any:
            match = CONTEXT.match(str(text.value))
            return tvm.ir.StringImm(f"{SIZE_CHECK_MARK}{reports[int(match[1])]}{SIZE_CHECK_MARK}") if match else text

        if not reports:
            return module
        return with_functions(module, {"main": tvm_ffi.structural_map(main, (tvm.ir.StringImm, report))})
