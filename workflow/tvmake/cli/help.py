"""``tvmake help``: a command's help, one screen about a topic, or a page of the documentation."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

EXAMPLES: Mapping[str, str] = {
    "init": "tvmake init model.onnx",
    "make": "tvmake make --cores 4",
    "compile": "tvmake compile model.onnx -t adreno-730-texture --precision float16",
    "tune": "tvmake tune model.onnx --trials 500",
    "clean": "tvmake clean --stale",
    "run": "tvmake run package.tar --input image.png --repeat 100",
    "show": "tvmake show package.tar",
    "verify": "tvmake verify package.tar",
    "sign": "tvmake sign package.tar --key ~/.ssh/id_ed25519",
    "check": "tvmake check --config tvmake.yaml",
    "status": "tvmake status",
    "explain": "tvmake explain results/digits/float32/cpu/mod.so",
    "logs": "tvmake logs digits/float32/cpu build",
    "report": "tvmake report",
    "diff": "tvmake diff old/results results",
    "debug": "tvmake debug digits/float16/phone",
    "targets": "tvmake targets adreno-730",
    "doctor": "tvmake doctor phone",
    "completion": "tvmake completion bash > ~/.local/share/bash-completion/completions/tvmake",
    "lock": "tvmake lock -o run.lock",
    "help": "tvmake help targets",
}
"""One line for each command, as a user may type it."""

TOPICS: Mapping[str, str] = {
    "targets": """A target is what a package is built for: -t NAME, or `targets:` in a config.

  native                     this machine's CPU
  llvm, cuda, opencl, metal  a code generator, with its defaults
  cortex-a72-linux           a processor of the catalogue: its instructions and limits
  adreno-730-texture         an Adreno GPU: -texture, -buffer, or -clml for Qualcomm's library
  'cuda -arch=sm_90'         TVM's own syntax

In a config:

  targets:
    phone: {tag: adreno-730-texture, host: aarch64-linux-android, device: phone}
    board: {tag: cortex-a72-linux, device: pi, tuning: {trials: 500}}

`tvmake targets [TEXT]` lists all, `tvmake targets NAME --passes` what a build for one does.
More: `tvmake help docs/reference/targets.md`, `tvmake help docs/guides/add-a-target.md`""",
    "precisions": """A precision is the arithmetic of a package: --precision NAME, or `precisions:` in a config.

  float32         as most models are trained
  tf32            float32 on NVIDIA's tensor cores, with 10 bits of mantissa
  float16         half the size; fast on GPUs
  float16_acc32   float16, with sums in float32
  int8            8-bit integers; needs a dataset for calibration
  int8_weights    weights in 8 bits, computed in float: smaller, no dataset
  int4_weights    weights in 4 bits, computed in float: smallest
  auto            for each layer the fastest precision that meets the goals

Every package is compared with the model in its own framework, within goals of its precision.
More: `tvmake help docs/guides/choose-precision.md`, …/quantize.md, …/validate.md""",
    "devices": """A device runs packages: -d NAME, or `devices:` in a config.

  local                        this machine
  adb:SERIAL                   an Android phone on USB
  ssh:USER@HOST                a board with ssh
  rpc:TRACKER:PORT/KEY         one device of a farm, behind TVM's tracker

In a config:

  devices:
    phone: {via: adb}
    pi: {via: ssh, host: pi.local}

`tvmake doctor NAME` tries a device, `tvmake device list` lists those that are connected.
More: `tvmake help docs/guides/devices-adb.md`, …/devices-ssh.md, …/devices-rpc.md""",
}
"""What ``tvmake help TOPIC`` prints."""


def help_command(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND|targets|precisions|devices|PAGE",
            help="A command, a topic, or a page of the documentation, such as docs/guides/config.md#goals.",
        ),
    ] = None,
) -> None:
    """Show the help of a command, a screen about targets, precisions or devices, or a page of the documentation."""
    from tvmake.cli.pages import is_page, print_page
    from tvmake.errors import UsageError

    root = context.find_root()
    words = words or []
    if len(words) == 1 and words[0] in TOPICS:
        typer.echo(TOPICS[words[0]])
        commands = getattr(root.command, "commands", {})
        if words[0] in commands:
            typer.echo(f"The command's own help: tvmake {words[0]} --help")
        return
    command: Any = root.command
    current: Any = root
    for word in words:
        found = getattr(command, "commands", {}).get(word)
        if found is None and len(words) == 1 and is_page(word):
            print_page(word)
            return
        if found is None:
            topics = ", ".join(TOPICS)
            raise UsageError(
                f"tvmake help {word}",
                "no such command or topic",
                f"topics are {topics}; `tvmake --help` lists commands, `tvmake help docs/index.md` pages",
            )
        current = type(current)(found, info_name=word, parent=current)
        command = found
    typer.echo(command.get_help(current))
