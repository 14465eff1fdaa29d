"""Made-up runs of a hermetic stage, through the real cache."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from tvmake.cache.key import Work, key, material
from tvmake.cache.step import run_cached
from tvmake.config.cache import CacheConfig, as_text
from tvmake.config.requests.tuning import ExtractRequest
from tvmake.config.target import TargetConfig
from tvmake.stages.registry import stages

TARGET = TargetConfig(kind="llvm", mcpu="native")


def point_at(patch, config: CacheConfig | None) -> None:
    """Have steps use a cache, as ``tvmake make`` does."""
    patch.setenv("TVMAKE_CACHE", as_text(config))


@dataclass
class Run:
    """One run of extract in a directory of its own: two inputs; a file and a directory as outputs."""

    directory: Path
    seed: int = 0
    size: int = 2_000
    """Bytes of its largest output."""
    ran: int = 0
    """How often the stage itself was run."""
    fails: bool = False
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        for name in ("module.json", "signature.json"):
            (self.directory / name).write_text(json.dumps({"seed": self.seed, "name": name}))

    @property
    def work(self) -> Work:
        """What the cache is told of it."""
        stage = stages()["extract"]
        return Work(
            stage.name,
            stage.recipe,
            stage.roots(None),
            ExtractRequest(target_name="cpu", target=TARGET),
            {"module": self.directory / "module.json", "signature": self.directory / "signature.json"},
            {"tasks": self.directory / "out" / "tasks.json", "workloads": self.directory / "out" / "workloads"},
        )

    @property
    def key(self) -> str:
        """The cache key of its result."""
        return key(material(self.work))

    @property
    def expected(self) -> dict[str, bytes]:
        """The outputs it makes, by path."""
        content = hashlib.sha256(str(self.seed).encode()).digest()
        large = (content * (self.size // len(content) + 1))[: self.size]
        return {
            "tasks.json": content.hex().encode(),
            "workloads/a.json": large,
            "workloads/deep/b.json": content[::-1],
            "workloads/empty.json": b"",
        }

    @property
    def outputs(self) -> dict[str, bytes]:
        """The outputs that are there, by path."""
        directory = self.directory / "out"
        return {
            path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
        }

    def stage(self) -> None:
        """What runs when the cache has nothing."""
        self.ran += 1
        for name, content in self.expected.items():
            path = self.directory / "out" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if self.fails:
            raise RuntimeError("the stage failed")

    def step(self) -> bool:
        """Run the step; whether its result came from the cache."""
        before = self.ran
        run_cached(self.work, self.stage)
        assert self.outputs == self.expected
        return self.ran == before


def entry_of(cache: Path, run: Run) -> Path:
    """The path of a run's entry in a directory."""
    return cache / "entries" / run.key
