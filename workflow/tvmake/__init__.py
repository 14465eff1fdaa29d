"""tvmake: a declarative pipeline from trained models to tuned, validated packages built with Apache TVM."""

__version__ = "0.1.0"
