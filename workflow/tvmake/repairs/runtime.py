"""Defects of TVM's runtime, files and RPC."""

from tvmake.repairs.repair import Repair

RUNTIME = (
    Repair(
        name="empty-tensors",
        layer="runtime",
        defect="A tensor without elements whose first dimension is not 0 is written and cannot be read again.",
        effect="Modules in JSON, files of parameters and packages with such a constant are damaged.",
    ),
    Repair(
        name="truncated-parameters",
        layer="runtime",
        defect="A file of parameters that is cut short is read without an error.",
        effect="A package whose weights were copied incompletely runs and gives wrong values.",
    ),
    Repair(
        name="memory-of-every-shape",
        layer="runtime",
        defect="The pooled allocator keeps every block that a virtual machine has used, by its exact size.",
        effect="A process that runs a network with dynamic dimensions grows with each shape.",
    ),
    Repair(
        name="binding-to-first-cores",
        layer="runtime",
        defect="The thread pool counts the cores that a process may use and binds its threads to as many of the machine, "
        "from the first on (src/runtime/threading_backend.cc).",
        effect="Processes that were given cores of their own share the first ones and take twice the time.",
    ),
    Repair(
        name="rpc-server-after-kill",
        layer="runtime",
        defect="The Python RPC server stops serving for good when a connection ends with an unread reply in it: the system "
        "resets the connection, the server's next read fails, and the thread that accepts connections ends (``_serving`` "
        "in tvm/rpc/server.py).",
        effect="A client that is killed by a timeout or Ctrl-C takes the device out of the farm.",
        no_probe="needs a tracker, a server and a client: tests/device/rpc/test_orderly_close.py",
    ),
    Repair(
        name="rpc-tensor-bytes",
        layer="runtime",
        defect="The RPC client copies each byte of a tensor by a call of its own (``Stream::WriteArray<char>``), and the "
        "virtual machine copies every tensor that comes over RPC, all weights at each ``set_input``.",
        effect="An image of 600 KB takes milliseconds longer to send; large inputs and weights take seconds.",
        no_probe="a matter of speed, measured by benchmarks/rpc_overhead.py",
    ),
    Repair(
        name="rpc-tracker-limits",
        layer="runtime",
        defect="The RPC tracker has no limits, ends when a client sends its stop word, and keeps what a lost connection "
        "leaves behind.",
        effect="Anybody who reaches the port can stop the tracker or fill its memory.",
        releases="all",
        no_probe="a property of the protocol",
    ),
)
