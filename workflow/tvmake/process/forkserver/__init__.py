"""Servers with modules loaded, from which the steps of one ``tvmake make`` are forked.

Importing TVM takes a second, and torch with its exporter four; without servers, a pipeline of small stages would pay that in
every step. ``pool`` starts a server of each kind on its first request, ``preload`` loads its modules, ``server`` forks, and
``client`` runs in place of the step: it sends its arguments, directory, environment and files, forwards signals, and ends as
the fork ends. Without a pool (plain snakemake, another machine, another interpreter) a step runs in its own process, with
the same result.
"""
