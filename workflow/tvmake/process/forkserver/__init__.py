"""Processes with modules loaded, from which the steps of one ``tvmake make`` are forked.

Importing TVM takes a second and torch with its exporter four; a pipeline of small stages would pay that at every step.
``pool`` starts a server of each kind when the first step asks for it, ``preload`` loads its modules, ``server`` forks, and
``client`` is what runs in the step's place: it hands over its arguments, directory, environment and files, passes signals
on, and ends as the fork does. Without a pool (plain snakemake, another machine, another interpreter) a step runs by itself,
with the same result.
"""
