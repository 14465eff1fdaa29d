"""``tvmake step``: run one stage in its own process or in a fork of a warm one."""
