"""``tvmake step``: one stage, in a process of its own or a warm one."""
