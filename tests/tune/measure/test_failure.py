"""Examples of errors, and the line that is stored of them."""

import pytest

from tvmake.codegen.compiler_errors import explain, telling_line

ARGUMENT = """Invalid x.shape[0] on argument #0 when calling:
  `main(x: Tensor([64], float32), y: Tensor([64], float32))`,
  expected 64"""

LINKER = """Compilation error:
/usr/bin/ld: cannot find -lOpenCL: No such file or directory
collect2: error: ld returned 1 exit status

Command line: g++ -shared -fPIC -o /tmp/a.so /tmp/lib0.o"""

VERIFICATION = """LLVM module verification failed with the following errors:
Intrinsic has incorrect argument type!
ptr @llvm.x86.sse42.crc32.32.8
Intrinsic called with incompatible signature
%0 = call i32 @llvm.x86.sse42.crc32.32.8(i32 1, i32 1)"""

ABORT = """warning: slow
warning: deprecated
Traceback (most recent call last):
  File "/x/forkserver.py", line 129, in _answer
    return self.role.answer(request)
           ^^^^^^^^^
note: running
  0: tvm::codegen::CodeGenLLVM::Finish()
LLVM ERROR: Cannot select: 0x55: v4f32 = fexp 0x56"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (ARGUMENT, ARGUMENT.replace("\n  ", " ")),
        (f"Error caught from RPC call:\n{ARGUMENT}\n", ARGUMENT.replace("\n  ", " ")),
        (
            LINKER,
            "Compilation error: /usr/bin/ld: cannot find -lOpenCL: No such file or directory "
            "collect2: error: ld returned 1 exit status",
        ),
        (
            VERIFICATION,
            "LLVM module verification failed with the following errors: Intrinsic has incorrect argument type!",
        ),
        ("", "RuntimeError"),
    ],
)
def test_an_exception_is_explained_by_how_its_message_begins(text: str, line: str):
    assert explain(RuntimeError(text)) == line


def test_a_process_is_explained_by_what_it_said_last():
    assert telling_line(ABORT) == ABORT.splitlines()[-1]
    assert telling_line("!!!!!!! Segfault encountered !!!!!!!\n") == ""


def test_a_line_is_never_endless():
    assert len(explain(RuntimeError("x" * 9999))) == 300
